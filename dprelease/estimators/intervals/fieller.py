"""Intervals of estimates whose error depends on what is true: all values that a test does not reject.

If features are noisy, the steeper a slope the more noise reaches the outcome through it, so the variance of an estimate is a
function of the truth: V(b) = variance + lean (b - value) + bend (b - value)^2. A standard error is its root at the estimate. An
interval is the set of all b that |value - b| <= t sqrt(V(b)) keeps, the solution of a quadratic inequality: it is longer on the
side where V is larger, and where t^2 bend >= 1 it has no end there. The p-value of no effect takes V at 0, so that p is below
1 - level exactly where the interval leaves 0 out; for that reason a ratio is not estimate / standard error.

Source: Fieller (1954, J. R. Stat. Soc. B 16, 175), for ratios; a slope is one, of noisy products by noisy squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates with the variances that they would have if something else were true, all of one shape.

    Attributes:
        value: estimates.
        variance: of an estimate if the truth is what it says.
        lean: how fast that changes with the truth.
        bend: half of how fast `lean` does; not negative.
    """

    value: Floats
    variance: Floats
    lean: Floats
    bend: Floats

    def __getitem__(self, chosen: int | slice) -> Estimates:
        """Some of them, by the first index."""
        return Estimates(self.value[chosen], self.variance[chosen], self.lean[chosen], self.bend[chosen])

    @property
    def standard_error(self) -> Floats:
        """Root of the variance at the estimate."""
        found: Floats = np.sqrt(self.variance)
        return found

    @property
    def ratio(self) -> Floats:
        """Estimates in the standard errors that they would have if the truth were 0."""
        at_zero = np.sqrt(np.maximum(self.variance - self.value * self.lean + self.value**2 * self.bend, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = self.value / at_zero
        return found

    def in_units(self, unit: Floats, middle: Floats | float = 0.0) -> Estimates:
        """The estimates in new units, middle + unit * estimate; unknown where the unit is NaN."""
        bend = self.bend + 0 * unit
        return Estimates(middle + unit * self.value, unit**2 * self.variance, unit * self.lean, bend)

    @property
    def transposed(self) -> Estimates:
        """With the indices in the other order."""
        return Estimates(self.value.T, self.variance.T, self.lean.T, self.bend.T)

    def scaled_by(self, factor: Floats) -> Estimates:
        """With errors (c,) times as large as was thought."""
        per = (factor**2)[:, None]
        return Estimates(self.value, per * self.variance, per * self.lean, per * self.bend)

    def interval(self, quantile: float) -> tuple[Floats, Floats]:
        """(lower, upper) ends, infinite where the release sets no bound.

        If t^2 bend > 1 a test may keep all values but a gap. If 0 is in the gap, values of the other sign are left out with
        it: for them the features' moments would have to be negative, which no moments are. Otherwise there is no bound.

        Args:
            quantile: t.
        """
        squared = quantile**2
        whole, half, rest = 1 - squared * self.bend, squared * self.lean / 2, squared * self.variance
        root = np.sqrt(np.maximum(half**2 + whole * rest, 0.0))
        free = (whole <= 0) & ~(np.abs(self.ratio) > quantile)
        ends = []
        for sign in (-1, 1):
            along = root - sign * half
            with np.errstate(divide="ignore", invalid="ignore"):
                end = self.value + sign * np.where(rest > 0, rest / along, rest)
            ends.append(np.where(free | ((along <= 0) & (rest > 0)), sign * np.inf, end))
        return ends[0], ends[1]
