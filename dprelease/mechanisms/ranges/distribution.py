"""The distribution function of a column from its noisy prefix counts: isotonic regression, and quantiles of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.mechanisms.ranges.terms import CELLS, noise_axes, recovery

EDGES: Floats = np.linspace(-1.0, 1.0, CELLS + 1)
"""(K+1,) ends of the cells, in half-widths of the public bounds."""
CELL = float(EDGES[1] - EDGES[0])
"""Width of a cell."""
SURE = 2.0
"""Standard deviations of noise within which a quantile is told to lie where it is at most or at least something."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """A noisy empirical distribution function; lengths in half-widths of the public bounds from their midpoint.

    Attributes:
        noisy: (K-1,) shares of rows below the inner edges, as released.
        noise_sd: (K-1,) standard deviations of their noise.
        unit: standard deviation of the noise of a released count, over n.
        monotone: (K+1,) shares below all edges: isotonic regression of the noisy ones, from 0 to 1.
    """

    noisy: Floats
    noise_sd: Floats
    unit: float
    monotone: Floats

    @classmethod
    def of(cls, counts: Integers, rows: int, scale: float) -> Distribution:
        """From what the first round released.

        Args:
            counts: (K-1,) C' h and noise.
            rows: n.
            scale: of the noise.
        """
        inverse = recovery(CELLS)
        noisy = inverse @ counts.astype(np.float64) / rows
        inner, unit = np.clip(isotonic(noisy), 0.0, 1.0), scale / rows
        return cls(noisy, unit * np.sqrt(noise_axes(CELLS).variances), unit, np.concatenate([[0.0], inner, [1.0]]))

    def sd(self, weights: Floats) -> Floats:
        """(k,) standard deviations of the noise of (k, K-1) linear functions of the noisy shares."""
        found: Floats = self.unit * np.linalg.norm(weights @ recovery(CELLS), axis=-1)
        return found

    def quantile(self, share: float) -> float:
        """The point where the monotone function reaches a share, linear within cells; a bound for shares beyond 0 and 1."""
        if share > 1:
            return float(EDGES[-1])
        at = self.cell(share)
        low, high = self.monotone[at - 1], self.monotone[at]
        within = (share - low) / (high - low) if high > low else 0.0
        return float(EDGES[at - 1] + np.clip(within, 0.0, 1.0) * (EDGES[at] - EDGES[at - 1]))

    def cell(self, share: float) -> int:
        """Which cell, from 1 to K, the quantile is in."""
        return int(np.clip(np.searchsorted(self.monotone, share), 1, CELLS))

    def mean_square(self, centre: float) -> tuple[float, float]:
        """The least and the largest mean square distance of rows from a point that counts and bounds leave open.

        Every row counts as if it lay at the near or the far end of its cell. The mean square is then linear in the noisy shares
        and has an error of its own, of which `SURE` are taken off or added.
        """
        ends = np.abs(EDGES - centre)
        inside = (EDGES[:-1] <= centre) & (centre <= EDGES[1:])
        near, far = np.where(inside, 0.0, np.minimum(ends[:-1], ends[1:])), np.maximum(ends[:-1], ends[1:])
        (least, below), (most, above) = (self._mean(each**2) for each in (near, far))
        return max(least - SURE * below, 0.0), min(max(most, 0.0) + SURE * above, float(far.max() ** 2))

    def _mean(self, values: Floats) -> tuple[float, float]:
        """Mean over rows of what (K,) cells are worth, and the standard deviation of its noise."""
        steps = values[:-1] - values[1:]
        return float(values[-1] + steps @ self.noisy), float(self.sd(steps))

    def quantile_error(self, share: float) -> float:
        """Standard deviation of a quantile: half of what lies between the shares one noise sd away, and a cell's roughness."""
        error = self._error(share)
        spread = (self.quantile(share + error) - self.quantile(share - error)) / 2
        return float(np.hypot(spread, CELL / np.sqrt(12)))

    def beyond(self, share: float) -> int | None:
        """-1 or 1 where a quantile of a share up to `SURE` noise sd away is in the first or last cell; otherwise 0.

        Values beyond the bounds count in these cells, so it may lie anywhere on the far side of their inner end. None where it
        may be in either: nothing is known of it.
        """
        low, high = self.ends(share)
        return None if low < EDGES[1] and high > EDGES[-2] else int(high > EDGES[-2]) - int(low < EDGES[1])

    def ends(self, share: float) -> tuple[float, float]:
        """Outer ends of the cells that the quantiles of the shares `SURE` noise sd below and above are in.

        Within a cell rows may pile up anywhere.
        """
        reach = SURE * self._error(share)
        low, high = self.quantile(share - reach), self.quantile(share + reach)
        return float(EDGES[np.searchsorted(EDGES, low, "right") - 1]), float(EDGES[np.searchsorted(EDGES, high)])

    def _error(self, share: float) -> float:
        """Standard deviation of the noise of the distribution function where it reaches a share."""
        return float(np.interp(self.quantile(share), EDGES[1:-1], self.noise_sd))


def isotonic(values: Floats) -> Floats:
    """(k,) nondecreasing numbers nearest to (k,) numbers: of all means of neighbours, the least from here on, the most up to here.

    Source: Barlow, Bartholomew, Bremner and Brunk 1972, Statistical inference under order restrictions (min-max formula).
    """
    k, sums = len(values), np.concatenate([[0.0], np.cumsum(values)])
    first, last = np.arange(k)[:, None], np.arange(k)[None, :]
    means = np.where(last >= first, (sums[last + 1] - sums[first]) / np.maximum(last - first + 1, 1), np.inf)
    least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
    return np.maximum.accumulate(np.where(last >= first, least, -np.inf), axis=0).diagonal().copy()
