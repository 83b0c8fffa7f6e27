"""Masked columns and what both hospitals of a pair make of them: exact shares of Q_j^T Q_k in Z_2^64.

    U_j = Q_j + A_j                                             masked: uniform to whoever has not the seed of A_j
    first half, at j:   PRG(r) - A_j^T U_k
    second half, at k:  U_j^T Q_k + (C_jk - PRG(r))             C_jk = A_j^T A_k
    sum: -A_j^T Q_k - A_j^T A_k + Q_j^T Q_k + A_j^T Q_k + A_j^T A_k = Q_j^T Q_k

Everything runs chunk by chunk over rows, so that memory is bounded by the chunk whatever n is.

Source: joint_moments.md "Protocol", steps 4 and 6; second_reading.md 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.errors import IntegrityError
from dprelease.moments.layout import Integers
from dprelease.mpc.correlated_randomness import Dealt
from dprelease.mpc.ring import SecretStream, Words, product
from dprelease.mpc.schedule import Pair, Plan

Codes = npt.NDArray[np.int32]


def masked(codes: Codes, mask: bytes, plan: Plan) -> Iterator[Words]:
    """The chunks of U = Q + A.

    Args:
        codes: (n, d) variables of one party.
        mask: seed of A.
        plan: of the spec.
    """
    stream = SecretStream(mask)
    for start in range(0, len(codes), plan.chunk_rows):
        chunk = codes[start : start + plan.chunk_rows]
        yield words(chunk) + stream.read_words(start, len(chunk), chunk.shape[1])


def half(pair: Pair, party: str, codes: Codes, dealt: Dealt, partner: Iterable[Words], plan: Plan) -> Words:
    """A party's half of a pair's product: the first or the second, by its place in the pair.

    Args:
        pair: one of the party's.
        party: whose half.
        codes: (n, d) its variables.
        dealt: what the pair's dealer dealt to it.
        partner: chunks of the other's masked columns.
        plan: of the spec.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    if party == pair.first:
        return first_half(codes.shape[1], dealt.mask, dealt.pads[pair], partner, plan)
    return second_half(codes, dealt.corrections[pair], partner, plan)


def first_half(width: int, mask: bytes, pad: Words, partner: Iterable[Words], plan: Plan) -> Words:
    """PRG(r) - A_j^T U_k, (d_j, d_k).

    Args:
        width: d_j, our variables.
        mask: seed of our mask A_j under this dealer.
        pad: PRG(r), (d_j, d_k).
        partner: chunks of U_k.
        plan: of the spec.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    stream, start, total = SecretStream(mask), 0, pad.copy()
    for chunk in partner:
        total -= product(stream.read_words(start, len(chunk), width), chunk)
        start += len(chunk)
    _whole(start, plan)
    return total


def second_half(codes: Codes, correction: Words, partner: Iterable[Words], plan: Plan) -> Words:
    """U_j^T Q_k + (C_jk - PRG(r)), (d_j, d_k).

    Args:
        codes: (n, d_k), our variables Q_k.
        correction: C_jk - PRG(r), (d_j, d_k).
        partner: chunks of U_j.
        plan: of the spec.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    start, total = 0, correction.copy()
    for chunk in partner:
        total += product(chunk, codes[start : start + len(chunk)], right_bits=plan.spec.grid_bits)
        start += len(chunk)
    _whole(start, plan)
    return total


@dataclass(frozen=True, eq=False)
class OwnMoments:
    """Exact moments of one party's d variables, of which f are features. They need nobody else.

    Attributes:
        outcome: (d,) which are outcomes only.
        sums: (d,) G 1^T Q.
        across: (f, d) products of the features with all.
        squares: (d,) of all.
    """

    outcome: npt.NDArray[np.bool_]
    sums: Words
    across: Words
    squares: Words

    @classmethod
    def of(cls, codes: Codes, outcome: npt.NDArray[np.bool_], plan: Plan) -> OwnMoments:
        """O(n f d).

        Args:
            codes: (n, d).
            outcome: (d,) which are outcomes only.
            plan: of the spec.
        """
        bits, d = plan.spec.grid_bits, codes.shape[1]
        across = np.zeros((int((~outcome).sum()), d), np.uint64)
        sums, squares = np.zeros(d, np.int64), np.zeros(d, np.int64)
        for start in range(0, len(codes), plan.chunk_rows):
            chunk = codes[start : start + plan.chunk_rows]
            across += product(np.ascontiguousarray(chunk[:, ~outcome]), chunk, left_bits=bits, right_bits=bits)
            sums += chunk.sum(axis=0, dtype=np.int64)
            squares += np.einsum("ij,ij->j", chunk, chunk, dtype=np.int64)
        return cls(outcome, (sums << bits).view(np.uint64), across, squares.view(np.uint64))

    def at(self, row: Integers, column: Integers) -> Words:
        """Products of pairs of variables, of which one is a feature or both are the same."""
        apart = self.outcome[row]
        feature = np.cumsum(~self.outcome)[np.where(apart, column, row)] - 1
        both = apart & self.outcome[column]
        found: Words = (
            self.across[np.where(both, 0, feature), np.where(apart, row, column)]
            if len(self.across)
            else self.squares[row]
        )
        return np.where(both, self.squares[row], found)


def words(codes: npt.NDArray[np.int32]) -> Words:
    """Signed codes as elements of Z_2^64."""
    return codes.astype(np.int64).view(np.uint64)


def _whole(rows: int, plan: Plan) -> None:
    if rows != plan.spec.rows:
        raise IntegrityError(f"masked columns of {rows} rows where the release has {plan.spec.rows}")
