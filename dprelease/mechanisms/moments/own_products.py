"""A Gram matrix in blocks by party: which party has which entry of x = (1, z), and what it multiplies alone.

Products between two parties are `dprelease.mpc`'s.

Source: docs/protocol.md, step 6; docs/format.md 14.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, Integers
from dprelease.mechanisms.moments.entries import variables
from dprelease.mechanisms.moments.terms import joint_moments
from dprelease.mpc.ring import Words, product
from dprelease.mpc.schedule import Schedule
from dprelease.spec_base import SpecBase

EVERYBODY = -1
"""Stands for the party that has the constant: each multiplies it with its own columns."""


def schedule_of(spec: SpecBase) -> Schedule:
    """The schedule of a release's products: a matrix has a column for each variable of its party.

    Raises:
        InvalidInput: it is of another mechanism.
    """
    terms = joint_moments(spec)
    return Schedule(
        task=spec.digest(),
        widths={part.party: len(variables(part.columns)) for part in spec.parties},
        rows=spec.rows,
        bits=spec.grid_bits,
        collusion_threshold=terms.curious,
        rotating=terms.dealer == "rotating",
    )


def places(schedule: Schedule) -> tuple[Integers, Integers]:
    """For each entry of x = (1, z): the number of the party that has it, and its column in that party's matrix.

    The constant is `EVERYBODY`'s.
    """
    owner, local = [EVERYBODY], [0]
    for number, width in enumerate(schedule.widths.values()):
        owner += [number] * width
        local += range(width)
    return np.array(owner), np.array(local)


@dataclass(frozen=True, eq=False)
class OwnMoments:
    """Exact moments of one party's d variables, of which f are features. They need nobody else.

    Attributes:
        outcome: (d,) which are outcomes only.
        sums: (d,) c 1^T Q, c the code of the constant.
        across: (f, d) products of the features with all.
        squares: (d,) of all.
    """

    outcome: npt.NDArray[np.bool_]
    sums: Words
    across: Words
    squares: Words

    @classmethod
    def of(
        cls, codes: Codes, outcome: npt.NDArray[np.bool_], schedule: Schedule, constant: int | None = None
    ) -> OwnMoments:
        """O(n f d).

        Args:
            codes: (n, d).
            outcome: (d,) which are outcomes only.
            schedule: of the spec.
            constant: its code; the grid's unit unless given.
        """
        bits, d = schedule.bits, codes.shape[1]
        across = np.zeros((int((~outcome).sum()), d), np.uint64)
        sums, squares = np.zeros(d, np.int64), np.zeros(d, np.int64)
        for start in range(0, len(codes), schedule.chunk_rows):
            chunk = codes[start : start + schedule.chunk_rows]
            across += product(np.ascontiguousarray(chunk[:, ~outcome]), chunk, left_bits=bits, right_bits=bits)
            sums += chunk.sum(axis=0, dtype=np.int64)
            squares += np.einsum("ij,ij->j", chunk, chunk, dtype=np.int64)
        return cls(outcome, (sums * (constant or 1 << bits)).view(np.uint64), across, squares.view(np.uint64))

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
