"""One column's row of a block: what each round publishes, and what follows from the noisy integers of both.

A hospital and whoever verifies compute the same here, the former from its own noisy integers before it makes the next round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dprelease.arrays import Integers
from dprelease.data.columns import Number
from dprelease.data.ranges import REACHES, STEPS, Range
from dprelease.errors import IntegrityError
from dprelease.mechanisms.ranges.distribution import Distribution
from dprelease.mechanisms.ranges.location import CAUTION, Counted, Location, from_counts, from_sums
from dprelease.mechanisms.ranges.reach import Margin
from dprelease.mechanisms.ranges.terms import CELLS, WINDOW, Scales

LEAST_WINDOW = 2 * STEPS // CELLS // WINDOW
"""S1 at least: the second round's range reaches a cell from its centre, for a heap may be anywhere in its cell."""
_WIDEST = WINDOW * STEPS
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Placed:
    """Centre and scale as published, in steps of 2^-24 of the half-width of the public bounds.

    Attributes:
        centre: M.
        scale: S.
    """

    centre: int
    scale: int

    @classmethod
    def of(cls, found: Location, caution: float, least: int = 1) -> Placed:
        """The nearest to a posterior, and the scale so many of its standard deviations larger, but not below the least."""
        scale = math.exp(min(found.log_scale + caution * found.log_scale_sd, math.log(WINDOW)))
        return cls(round(STEPS * min(max(found.centre, -1.0), 1.0)), min(max(round(STEPS * scale), least), _WIDEST))

    def follows(self, published: Placed) -> bool:
        """True if published numbers are these, but for the rounding of a machine's arithmetic."""
        return (
            abs(self.centre - published.centre) <= 1 + _TOLERANCE * STEPS
            and abs(self.scale - published.scale) <= 1 + _TOLERANCE * self.scale
        )

    @property
    def sound(self) -> bool:
        """True if the numbers are such as a column can have."""
        return abs(self.centre) <= STEPS and 1 <= self.scale <= _WIDEST


def after_counts(counts: Integers, rows: int, scales: Scales) -> Counted:
    """The result of the first round; `first` makes M1 and S1 of it.

    Args:
        counts: (K-1,) C' h and noise.
        rows: n.
        scales: of the noise.
    """
    return _after_counts(counts.astype(np.int64).tobytes(), rows, scales.counts)


@lru_cache(maxsize=256)
def _after_counts(counts: bytes, rows: int, scale: float) -> Counted:
    """Kept, for who reads a release recomputes it several times."""
    return from_counts(Distribution.of(np.frombuffer(counts, np.int64), rows, scale))


def first(counted: Counted) -> Placed:
    """M1 and S1."""
    return Placed.of(counted.found, 0.0, LEAST_WINDOW)


def window(column: Number, first: Placed) -> Range:
    """The range whose codes the second round adds up."""
    return Range(name=column.name, centre=first.centre, half_width=WINDOW * first.scale)


def after_sums(counted: Counted, used: Placed, total: int, squares: int, rows: int, scales: Scales) -> Location:
    """The result of both rounds; `final` makes M and S of it.

    Args:
        counted: what the first round says.
        used: M1 and S1 as published, which the second round's range came from.
        total: sum T and noise.
        squares: sum T^2 and noise.
        rows: n.
        scales: of the noise.
    """
    return from_sums(counted, used.centre / STEPS, used.scale / STEPS, total, squares, rows, scales)


def final(found: Location) -> Placed:
    """M and S."""
    return Placed.of(found, CAUTION)


@dataclass(frozen=True, eq=False)
class Row:
    """One column's published integers.

    Attributes:
        counts: (K-1,) C' h and noise.
        first: M1 and S1.
        total: sum T and noise.
        squares: sum T^2 and noise.
        last: M and S.
        reach: j, how far the column reaches in later releases (`reach`).
    """

    counts: Integers
    first: Placed
    total: int
    squares: int
    last: Placed
    reach: int

    @classmethod
    def of(cls, integers: Integers) -> Row:
        """From (`terms.WIDTH`,) integers of a block."""
        *_, centre1, scale1, total, squares, centre, scale, reach = (int(each) for each in integers)
        return cls(integers[: CELLS - 1], Placed(centre1, scale1), total, squares, Placed(centre, scale), reach)

    def margin(self, law: Distribution) -> Margin:
        """The estimated margin of the column.

        Args:
            law: of its counts.
        """
        return Margin.of(law, self.last.centre / STEPS, self.last.scale / STEPS)

    def to_integers(self) -> Integers:
        """(`terms.WIDTH`,) integers of a block."""
        first, last = self.first, self.last
        tail = [first.centre, first.scale, self.total, self.squares, last.centre, last.scale, self.reach]
        return np.concatenate([self.counts, np.array(tail, np.int64)])

    def check(self, name: str, largest: tuple[int, int, int], rows: int, scales: Scales) -> Location:
        """Refuse numbers that no honest hospital publishes; what both rounds say otherwise.

        Args:
            name: of the column.
            largest: absolute values of a count, sum T and sum T^2.
            rows: n.
            scales: of the noise.

        Raises:
            IntegrityError: a number is out of range, or centre and scale are not what the noisy integers give.
        """
        within = bool(np.all((self.counts <= largest[0]) & (self.counts >= -largest[0])))
        if not (within and abs(self.total) <= largest[1] and abs(self.squares) <= largest[2]):
            raise IntegrityError(
                f"{name}: a noisy number of its range is larger than any that {rows} patients could give"
            )
        if not (self.first.sound and self.last.sound and 0 <= self.reach < REACHES):
            raise IntegrityError(f"{name}: a centre, scale or reach lies outside what its public bounds allow")
        counted = after_counts(self.counts, rows, scales)
        if not first(counted).follows(self.first):
            raise IntegrityError(f"{name}: the centre and scale of the first round do not follow from its noisy counts")
        found = after_sums(counted, self.first, self.total, self.squares, rows, scales)
        if not final(found).follows(self.last):
            raise IntegrityError(f"{name}: the centre and scale do not follow from the noisy numbers")
        return found
