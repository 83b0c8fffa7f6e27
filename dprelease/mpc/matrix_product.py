"""Additive shares of a matrix product Q_j^T Q_k modulo the schedule's modulus, from columns under one-time masks.

    U_j = Q_j + A_j                                             masked: uniform to whoever has not the seed of A_j
    first share, at j:  PRG(r) - A_j^T U_k
    second share, at k: U_j^T Q_k + (C_jk - PRG(r))             C_jk = A_j^T A_k
    sum: -A_j^T Q_k - A_j^T A_k + Q_j^T Q_k + A_j^T Q_k + A_j^T A_k = Q_j^T Q_k

Everything runs chunk by chunk over rows, so that memory is bounded by the chunk whatever n is.

Source: docs/protocol.md, steps 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dprelease.arrays import Codes, let_go
from dprelease.errors import IntegrityError
from dprelease.mpc.correlated_randomness import CorrelatedRandomness
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import Pair, Schedule


def masked(codes: Codes, mask: bytes, schedule: Schedule) -> Iterator[Words]:
    """The chunks of U = Q + A.

    Args:
        codes: (n, d) variables of one party.
        mask: seed of A.
        schedule: the public parameters.
    """
    modulus = schedule.modulus
    for start in range(0, len(codes), schedule.chunk_rows):
        chunk = codes[start : start + schedule.chunk_rows]
        yield modulus.add(modulus.elements(chunk), modulus.read(mask, start, *chunk.shape))
        let_go(codes)


def share(
    pair: Pair, party: str, codes: Codes, dealt: CorrelatedRandomness, partner: Iterable[Words], schedule: Schedule
) -> Words:
    """A party's share of a pair's product: the first or the second, by its place in the pair.

    Args:
        pair: one of the party's.
        party: whose share.
        codes: (n, d) its variables.
        dealt: what the pair's dealer dealt to it.
        partner: chunks of the other's masked columns.
        schedule: the public parameters.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    if party == pair.first:
        return first_share(codes.shape[1], dealt.mask, dealt.shares[pair], partner, schedule)
    return second_share(codes, dealt.shares[pair], partner, schedule)


def first_share(width: int, mask: bytes, pad: Words, partner: Iterable[Words], schedule: Schedule) -> Words:
    """PRG(r) - A_j^T U_k, (d_j, d_k).

    Args:
        width: d_j, our variables.
        mask: seed of our mask A_j under this dealer.
        pad: PRG(r), (d_j, d_k).
        partner: chunks of U_k.
        schedule: the public parameters.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    start, total, modulus = 0, pad, schedule.modulus
    for chunk in partner:
        total = modulus.subtract(total, modulus.product(modulus.read(mask, start, len(chunk), width), chunk))
        start += len(chunk)
    _whole(start, schedule)
    return total


def second_share(codes: Codes, correction: Words, partner: Iterable[Words], schedule: Schedule) -> Words:
    """U_j^T Q_k + (C_jk - PRG(r)), (d_j, d_k).

    Args:
        codes: (n, d_k), our variables Q_k.
        correction: C_jk - PRG(r), (d_j, d_k).
        partner: chunks of U_j.
        schedule: the public parameters.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    start, total, modulus = 0, correction, schedule.modulus
    for chunk in partner:
        own = codes[start : start + len(chunk)]
        total = modulus.add(total, modulus.product(chunk, own, right_bits=schedule.bits))
        start += len(chunk)
        let_go(codes)
    _whole(start, schedule)
    return total


def _whole(rows: int, schedule: Schedule) -> None:
    if rows != schedule.rows:
        raise IntegrityError(f"masked columns of {rows} rows where the release has {schedule.rows}")
