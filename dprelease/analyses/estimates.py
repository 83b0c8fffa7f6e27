"""Laws of estimates, mixed over draws: what privacy noise and sampling leave open, together.

Draw t of the moments has an estimate b_t and, by the classical theory for n patients, a sampling error s_t with Student's law of
f degrees of freedom. Not knowing which draw is true, the population's value has the mixture

    (1/T) sum_t  b_t + s_t Student_f.

Its quantiles are the intervals, twice its smaller tail beyond the null value the p-value. Without noise there is one draw, and
both are the classical ones. Intervals of estimates without a sampling error hold privacy noise only: they are about the
patients of the release, not about a population that these were drawn from.

Clipping may have moved all of the draws alike, by up to w (`clipped`). Intervals are wider by w on either side, and p-values are
the largest of all null values within w of no effect.

The logarithm of a count that noise may hide has no normal law, but the count c has one, of relative error r. At z standard errors
c is c (1 - z r), its logarithm lower by -log(1 - z r), and if z r >= 1 nothing bounds it. Let s be the error of an estimate, of
which counts give r_1, r_2, ... . Its end towards none of these lies sqrt(z^2 (s^2 - sum r_i^2) + sum log(1 - z r_i)^2) away. The
p-value is that of the z at which this end is at no effect.

Source: Zou, Donner 2008, Construction of confidence limits about effect measures (Statistics in Medicine 27(10)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from dprelease.arrays import Floats, Mask
from dprelease.document.cells import LEVEL
from dprelease.errors import InvalidInput

Link = Literal["identity", "log", "fisher"]
BISECTIONS = 40
"""An end is known to a millionth of a millionth of what all draws span."""
MOST = 15.0
"""A logarithm of a ratio so far from an estimate of hidden counts is no end: the ratio of all real counts is nearer."""

_INVERSE: Mapping[Link, Callable[[Floats], Floats]] = MappingProxyType(
    {"identity": np.positive, "log": np.exp, "fisher": np.tanh}
)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of q named quantities.

    Attributes:
        names: (q,).
        location: (T, q) estimate of each draw, by `link`.
        scale: (T, q) its sampling error; None where intervals hold privacy noise only.
        degrees: f of the sampling error; infinite for a normal law.
        link: what estimates are transformed by: nothing, the logarithm of a ratio, or Fisher's z of a correlation.
        tested: whether p-values of "no effect" (0, or a ratio of 1) are meant.
        units: (q,) of the quantities, or none.
        taken: (P, q) by how much clipping may have moved each, by `link`, in P ways; None where it moved nothing.
        limits: of what the quantities can be, which no interval leaves.
        noise: (q,) the part of `scale` that privacy noise leaves open, where no draws tell it; by `link`.
        sampled: whether draws, and a scale, hold noise and sampling together, not to be told apart.
        counts: (2, m, q) relative errors, in `scale`, of m counts that noise may hide and of which fewer lower an estimate, and of
            those of which fewer raise it; 0 for none. With them there is one draw, with a normal law.
    """

    names: tuple[str, ...]
    location: Floats
    scale: Floats | None = None
    degrees: float = np.inf
    link: Link = "identity"
    tested: bool = False
    units: tuple[str, ...] = ()
    taken: Floats | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)
    noise: Floats | None = None
    sampled: bool = False
    counts: Floats | None = None

    @property
    def estimate(self) -> Floats:
        """(q,) medians over the draws."""
        found: Floats = np.median(self.location, axis=0)
        return _INVERSE[self.link](found)

    @property
    def noise_sd(self) -> Floats:
        """(q,) what privacy noise leaves open, a standard deviation; by `link`; NaN where it is not told apart."""
        if self.noise is not None:
            return self.noise
        return np.full(len(self.names), np.nan) if self.sampled else self._spread

    @property
    def standard_error(self) -> Floats:
        """(q,) of noise and, where there is one, sampling error together; by `link`."""
        sampling = 0.0 if self.scale is None else (self.scale**2).mean(axis=0)
        return np.sqrt(self._spread**2 + sampling)

    @property
    def _spread(self) -> Floats:
        """(q,) standard deviations of the draws; NaN where some have no bound."""
        with np.errstate(invalid="ignore"):
            found: Floats = self.location.std(axis=0)
        return found

    @property
    def wider(self) -> Floats:
        """(q,) w; by `link`."""
        return np.zeros(len(self.names)) if self.taken is None else np.sqrt((self.taken**2).sum(axis=0))

    @property
    def resolution(self) -> float:
        """The least p-value that T draws can tell, 1/T; 0 without noise."""
        return 1 / len(self.location) if len(self.location) > 1 else 0.0

    @property
    def p_value(self) -> Floats:
        """(q,) two-sided; no smaller than `resolution`; NaN where nothing is tested."""
        if not self.tested or self.scale is None:
            return np.full(len(self.names), np.nan)
        if self.counts is not None:
            both: Floats = 2 * stdtr(self.degrees, -self._from_null(self.scale[0], self.counts))
            return both
        tails = np.minimum(
            *(self._tail(sign * self.location + self.wider, self.scale).mean(axis=0) for sign in (-1, 1))
        )
        found: Floats = np.clip(2 * tails, self.resolution, 1.0)
        return found

    def _tail(self, location: Floats, scale: Floats) -> Floats:
        """(T, q) probability of less than such an estimate if there is no effect."""
        found: Floats = stdtr(self.degrees, location / scale)
        return found

    @property
    def unbounded(self) -> Mask:
        """(q,) whether an end of the interval is infinite; by `link`."""
        return np.logical_or(*(np.isinf(self._quantile(part)) for part in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)))

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(lower, upper) ends, each (q,); infinite where there is no bound.

        Args:
            level: probability of the interval, in (0, 1).

        Raises:
            InvalidInput: the level does not lie between 0 and 1.
        """
        if not 0 < level < 1:
            raise InvalidInput(f"the level of an interval must lie between 0 and 1, not {level}")
        lower, upper = (self._quantile(part) for part in ((1 - level) / 2, (1 + level) / 2))
        inverse = _INVERSE[self.link]
        with np.errstate(over="ignore"):  # a ratio that nothing bounds
            ends = inverse(lower - self.wider), inverse(upper + self.wider)
        return np.clip(ends[0], *self.limits), np.clip(ends[1], *self.limits)

    def _quantile(self, part: float) -> Floats:
        if self.scale is None:
            return np.quantile(self.location, part, axis=0, method="inverted_cdf" if self.sampled else "linear")
        if self.counts is not None:
            z = stdtrit(self.degrees, part)
            bound: Floats = self.location[0] + np.sign(z) * self._away(abs(z), self.scale[0], self.counts[int(z > 0)])
            return bound
        ends = self.location + self.scale * stdtrit(self.degrees, part)
        low, high = ends.min(axis=0), ends.max(axis=0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            with np.errstate(invalid="ignore"):  # 0 / 0: an error of 0 leaves nothing open, and both ends stay
                below = stdtr(self.degrees, (middle - self.location) / self.scale).mean(axis=0) < part
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        end: Floats = (low + high) / 2
        return end

    @staticmethod
    def _away(z: Floats | float, scale: Floats, counts: Floats) -> Floats:
        """(q,) how far an end lies at z standard errors, towards none of some counts, (m, q); infinite without an end."""
        with np.errstate(divide="ignore"):
            moved = np.log1p(-np.minimum(z * counts, 1.0))
        rest = np.maximum(scale**2 - (counts**2).sum(axis=0), 0.0)
        away = np.sqrt(z**2 * rest + (moved**2).sum(axis=0))
        return np.where(away > MOST, np.inf, away)

    def _from_null(self, scale: Floats, counts: Floats) -> Floats:
        """(q,) standard errors at which the end towards no effect is there; `counts` as the attribute."""
        away, towards = np.abs(self.location[0]), np.where(self.location[0] > 0, counts[0], counts[1])
        low: Floats = np.zeros_like(away)
        high: Floats = away / scale
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            beyond = self._away(middle, scale, towards) > away
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return high

    def __getitem__(self, name: str) -> Estimates:
        """One of them, by its name."""
        place = self.names.index(name)
        scale, taken = (None if each is None else each[:, [place]] for each in (self.scale, self.taken))
        units, noise = self.units[place : place + 1], None if self.noise is None else self.noise[[place]]
        counts, location = None if self.counts is None else self.counts[..., [place]], self.location[:, [place]]
        return replace(
            self, names=(name,), location=location, scale=scale, units=units, taken=taken, noise=noise, counts=counts
        )
