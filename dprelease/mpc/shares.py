"""Additive shares of a product Q_j^T Q_k modulo the schedule's modulus, from columns under one-time masks.

    U_j = Q_j + A_j                                             masked: uniform to whoever has not the seed of A_j
    first share, at j:  PRG(r) - A_j^T U_k
    second share, at k: U_j^T Q_k + (C_jk - PRG(r))             C_jk = A_j^T A_k
    sum: -A_j^T Q_k - A_j^T A_k + Q_j^T Q_k + A_j^T Q_k + A_j^T A_k = Q_j^T Q_k

Products are sums over pieces of a few chunks, so that memory is bounded by pieces whatever n is. A `PieceMap` makes them here or on
other machines. Arithmetic is exact, so shares are the same words in any case. Other machines get a piece and what it is
multiplied with: a seed of our masks, or our own rows. PRG(r) and C_jk - PRG(r) stay here.

Source: docs/protocol.md, step 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import islice

from dprelease.arrays import PIECE_BYTES, Codes, PieceMap, let_go, one_by_one
from dprelease.errors import IntegrityError
from dprelease.mpc.modulus import Modulus
from dprelease.mpc.ring import CHUNK_BYTES, Words
from dprelease.mpc.schedule import CorrelatedRandomness, Pair, Schedule


def share(
    pair: Pair,
    party: str,
    codes: Codes,
    dealt: CorrelatedRandomness,
    partner: Iterable[Words],
    schedule: Schedule,
    run: PieceMap = one_by_one,
) -> Words:
    """A party's share of one of its pairs' products, (d_j, d_k): the first or the second, by its place in the pair.

    Args:
        pair: one of the party's.
        party: whose share.
        codes: (n, d) its variables.
        dealt: what the pair's dealer dealt to it.
        partner: chunks of the other's masked columns.
        schedule: the public parameters.
        run: makes the product of each piece.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    modulus = schedule.modulus
    if party == pair.first:
        multiply: Callable[[_Piece], Words] = _MaskProduct(modulus, dealt.mask, codes.shape[1])
        return reduce(modulus.subtract, run(multiply, _pieces(partner, schedule)), dealt.shares[pair])
    multiply = _OwnProduct(modulus, schedule.bits)
    return reduce(modulus.add, run(multiply, _pieces(partner, schedule, codes)), dealt.shares[pair])


@dataclass(frozen=True, repr=False)
class _Piece:
    """Consecutive rows of masked columns.

    Attributes:
        start: the first row.
        chunks: (r, d_partner) each.
        own: our variables of the same rows, where they are multiplied.
    """

    start: int
    chunks: tuple[Words, ...]
    own: Codes | None


def _pieces(partner: Iterable[Words], schedule: Schedule, codes: Codes | None = None) -> Iterator[_Piece]:
    chunks, start = iter(partner), 0
    while taken := tuple(islice(chunks, PIECE_BYTES // CHUNK_BYTES)):
        stop = start + sum(map(len, taken))
        yield _Piece(start, taken, None if codes is None else codes[start:stop])
        if codes is not None:
            let_go(codes)
        start = stop
    if start != schedule.rows:
        raise IntegrityError(f"masked columns of {start} rows where the release has {schedule.rows}")


@dataclass(frozen=True, repr=False)
class _MaskProduct:
    """A_j^T U_k over the rows of a piece. Its text tells no seed."""

    modulus: Modulus
    mask: bytes
    width: int

    def __call__(self, piece: _Piece) -> Words:
        products, start = [], piece.start
        for chunk in piece.chunks:
            own = self.modulus.read(self.mask, start, len(chunk), self.width)
            products.append(self.modulus.product(own, chunk))
            start += len(chunk)
        return reduce(self.modulus.add, products)


@dataclass(frozen=True, repr=False)
class _OwnProduct:
    """U_j^T Q_k over the rows of a piece."""

    modulus: Modulus
    bits: int

    def __call__(self, piece: _Piece) -> Words:
        assert piece.own is not None  # noqa: S101 - pieces for this product have it
        products, start = [], 0
        for chunk in piece.chunks:
            own = piece.own[start : start + len(chunk)]
            products.append(self.modulus.product(chunk, own, right_bits=self.bits))
            start += len(chunk)
        return reduce(self.modulus.add, products)
