"""Intervals of estimates whose error depends on what is true: all values that a test does not reject.

If features are noisy, the steeper a slope the more noise reaches the outcome through it, so the variance of an estimate is a
function of the truth: V(b) = variance + lean (b - value) + bend (b - value)^2. A standard error is its root at the estimate. An
interval is the set of all b that |value - b| <= t sqrt(V(b)) keeps, the solution of a quadratic inequality: it is longer on the
side where V is larger, and where t^2 bend >= 1 it has no end there. The p-value of no effect takes V at 0, so that p is below
1 - level exactly where the interval leaves 0 out; for that reason a ratio is not estimate / standard error.

An estimate with the error se and a bias up to w is off by less than w + k se with the probability P(|Z + w/se| <= w/se + k) or
more, Z normal. Setting this to the level gives k. It falls from the two-sided quantile to the one-sided one, as noise and bias
add up on one side only. Intervals are those of k, wider by w on either side, and p-values are the same condition at 0. Moments
alone are clipped, which is the one such bias, and their errors are normal.

Sources: Armstrong, Kolesar (2018, Econometrica 86, 655), for intervals around a bias; Fieller (1954, J. R. Stat. Soc. B 16,
175), for ratios; a slope is one, of noisy products by noisy squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chndtrix, ndtr, stdtr, stdtrit

from dprelease.arrays import Floats
from dprelease.document.cells import LEVEL
from dprelease.errors import InvalidInput

_NORMAL = 1e10
"""Degrees of freedom at which Student's law is the normal one to the last digit."""
ONE_SIDED = 10.0
"""Bias in standard errors from which on noise beyond it in the other direction has the probability 0, to the last digit."""


@dataclass(frozen=True, eq=False)
class ProfiledEstimates:
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

    def __getitem__(self, chosen: int | slice) -> ProfiledEstimates:
        """Some of them, by the first index."""
        return ProfiledEstimates(self.value[chosen], self.variance[chosen], self.lean[chosen], self.bend[chosen])

    @property
    def standard_error(self) -> Floats:
        """Root of the variance at the estimate."""
        return np.sqrt(self.variance)

    @property
    def ratio(self) -> Floats:
        """Estimates in the standard errors that they would have if the truth were 0."""
        return self.against(0.0)

    def against(self, null: Floats | float) -> Floats:
        """How far estimates are above a value, in the standard errors that they would have if it were the truth."""
        apart = self.value - null
        error = np.sqrt(np.maximum(self.variance - apart * self.lean + apart**2 * self.bend, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = apart / error
        return found

    def in_units(self, unit: Floats, middle: Floats | float = 0.0) -> ProfiledEstimates:
        """The estimates in new units, middle + unit * estimate; unknown where the unit is NaN."""
        bend = self.bend + 0 * unit
        return ProfiledEstimates(middle + unit * self.value, unit**2 * self.variance, unit * self.lean, bend)

    @property
    def transposed(self) -> ProfiledEstimates:
        """With the indices in the other order."""
        return ProfiledEstimates(self.value.T, self.variance.T, self.lean.T, self.bend.T)

    def scaled_by(self, factor: Floats) -> ProfiledEstimates:
        """With errors (c,) times as large as was thought."""
        per = (factor**2)[:, None]
        return ProfiledEstimates(self.value, per * self.variance, per * self.lean, per * self.bend)

    def interval(self, quantile: Floats | float) -> tuple[Floats, Floats]:
        """(lower, upper) ends, infinite where the release sets no bound.

        If t^2 bend > 1 a test may keep all values but a gap. If 0 is in the gap, values of the other sign are left out with
        it: for them the features' moments would have to be negative, which no moments are. Otherwise there is no bound.

        Args:
            quantile: t, one for all or one for each.
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


def less(of: ProfiledEstimates, wider: Floats) -> Floats:
    """Estimates that are nearer to 0 by w, in the standard errors that they would have there; 0 within w."""
    return np.copysign(np.maximum(_beyond(of, wider), 0.0), of.value)


def p_values(of: ProfiledEstimates, wider: Floats) -> Floats:
    """The largest of all biases up to w, two-sided; below 1 - level exactly where `ends` leave 0 out, from level = 1/2 on."""
    beyond = _beyond(of, wider)
    found: Floats = np.minimum(ndtr(-beyond) + ndtr(-beyond - 2 * _bias(of, wider)), 1.0)
    return found


def ends(of: ProfiledEstimates, level: float, wider: Floats) -> tuple[Floats, Floats]:
    """Ends of intervals that hold the truth with the probability `level`, whatever the bias up to w."""
    bias = _bias(of, wider)
    lower, upper = of.interval(np.maximum(np.sqrt(chndtrix(level, 1.0, bias**2)) - bias, 0.0))
    return lower - wider, upper + wider


def _beyond(of: ProfiledEstimates, wider: Floats) -> Floats:
    """How far estimates are from all values up to w on their side of 0, in the errors that they would have there."""
    side = np.copysign(1.0, of.value)
    return np.minimum(side * of.against(0.0), side * of.against(side * wider))


def _bias(of: ProfiledEstimates, wider: Floats) -> Floats:
    """W in standard errors, `ONE_SIDED` at most."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.minimum(wider / of.standard_error, ONE_SIDED)
    return found


@dataclass(frozen=True, eq=False)
class Inferred:
    """Estimates in original units, not shrunken, with errors of sampling, mixing and noise together; NaN where nothing was learned.

    Attributes:
        profiled: (..., d) consistent estimates.
        degrees: degrees of freedom of the standard errors; infinite for moments.
        wider: (..., d) w, what clipping may take from them, a bias that intervals hold; None in public bounds.
    """

    profiled: ProfiledEstimates
    degrees: float
    wider: Floats | None = None

    @property
    def estimate(self) -> Floats:
        """Estimates of the coefficients."""
        return self.profiled.value

    @property
    def standard_error(self) -> Floats:
        """Standard errors of estimates, were these the truth."""
        return self.profiled.standard_error

    @property
    def z(self) -> Floats:
        """Estimates, less what clipping may take, in the standard errors that they would have without an effect."""
        return self.profiled.ratio if self.wider is None else less(self.profiled, self.wider)

    @property
    def p_value(self) -> Floats:
        """Two-sided, by Student's law; below 1 - level exactly where an interval leaves 0 out."""
        if self.wider is not None:
            return p_values(self.profiled, self.wider)
        found: Floats = 2 * stdtr(min(self.degrees, _NORMAL), -np.abs(self.profiled.ratio))
        return found

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(lower, upper) ends of confidence intervals; infinite where there is no bound.

        Args:
            level: confidence, in (0, 1).

        Raises:
            InvalidInput: the level does not lie between 0 and 1.
        """
        if not 0 < level < 1:
            raise InvalidInput(f"the level of an interval lies between 0 and 1, and {level:g} does not; 0.95 is usual")
        if self.wider is not None:
            return ends(self.profiled, level, self.wider)
        return self.profiled.interval(self._quantile(level))

    def _quantile(self, level: float) -> float:
        return float(stdtrit(min(self.degrees, _NORMAL), (1 + level) / 2))


@dataclass(frozen=True, eq=False)
class Forms:
    """For each of c sums a quadratic form of q weights b: sum over r of sign_r (factor_r^T b)^2, and diagonal^T b^2.

    Attributes:
        signs: (r,).
        factors: (r, q, c).
        diagonal: (q, c).
    """

    signs: Floats
    factors: Floats
    diagonal: Floats

    def polar(self, one: Floats, other: Floats) -> Floats:
        """(c, l) of pairs of fits, one for each target, (q, l) both."""
        found: Floats = self.diagonal.T @ (one * other)
        for sign, part in zip(self.signs, self.factors, strict=True):
            found += sign * (part.T @ one) * (part.T @ other)
        return found

    def applied(self, own: Floats) -> Floats:
        """(q, c) the matrices of the forms times a vector for each sum, (q, c)."""
        found: Floats = self.diagonal * own
        for sign, part in zip(self.signs, self.factors, strict=True):
            found += sign * part * (part * own).sum(axis=0)
        return found


@dataclass(frozen=True, eq=False)
class Shared:
    """A part of the covariances of errors of the weights with errors of the sums.

    Attributes:
        vectors: (q, l) for each target,
        amounts: (c, l) times this for each sum.
    """

    vectors: Floats
    amounts: Floats


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of the errors of the weights and of the sums: spread * own + all that is shared; its scale does not matter.

    Attributes:
        sums: (q, c) a.
        own: (q, c).
        spread: (l,).
        shared: other parts.
        apart: (c, l) error variance of what is added to the sums and has no error in common with the weights.
    """

    sums: Floats
    own: Floats
    spread: Floats
    shared: Sequence[Shared]
    apart: Floats | float = 0.0


def profiled(value: Floats, fixed: Floats, fit: Floats, forms: Forms, common: Covariance) -> ProfiledEstimates:
    """Estimates of c sums for l targets, with the variances along their paths.

    For a sum a^T b of a fit's weights b the variance of its estimate is a quadratic form V(b). If the sum is off by t, the other
    weights are off as well, by what their errors have in common with the sum's:

        b(t) = b + t p,    p = Cov(errors of b, error of the sum) / Var(error of the sum),

    and V(b(t)) is a parabola in t. With other weights kept where they are, intervals of features that are correlated with a weakly
    seen one are far too short. For many sums and targets together, forms are held as a few factors and p as a few vectors.

    Args:
        value: (c, l) estimates.
        fixed: (c, l) parts of the variances that are the same for all fits.
        fit: (q, l) the weights that are believed.
        forms: the other parts.
        common: from which the paths follow.
    """
    own, spread = common.own, common.spread
    image = forms.applied(own)
    moved = (common.sums * own).sum(axis=0)[:, None] * spread
    lean = spread * (image.T @ fit)
    bend = spread**2 * (image * own).sum(axis=0)[:, None]
    for place, one in enumerate(common.shared):
        moved = moved + one.amounts * (common.sums.T @ one.vectors)
        lean = lean + one.amounts * forms.polar(one.vectors, fit)
        bend = bend + 2 * spread * one.amounts * (image.T @ one.vectors)
        bend = bend + one.amounts**2 * forms.polar(one.vectors, one.vectors)
        for other in common.shared[:place]:
            bend = bend + 2 * one.amounts * other.amounts * forms.polar(one.vectors, other.vectors)
    whole = moved + common.apart
    per = np.divide(1.0, whole, out=np.zeros_like(whole), where=moved > 0)
    return ProfiledEstimates(value, fixed + forms.polar(fit, fit), 2 * lean * per, np.maximum(bend * per**2, 0.0))


LIMIT = 0.5
"""Noise ratio from which on nothing is said about coefficients."""


@dataclass(frozen=True, eq=False)
class PopulationFit:
    """Population least squares of l targets on d features, scaled units; NaN where the features cannot be told from noise.

    Both kinds of release give the features' second moments M with an error E that the privacy noise makes. In a direction w of
    length one where M is the identity, |E w|^2 has the mean w^T E[E M^-1 E] w. `noise_ratio` is the root of it in the worst
    direction. Formulas of first and second order hold while it is small. If it is larger, some direction of the features is more
    noise than signal, and through it any coefficient may be. The criterion is worked out from released numbers alone. For one
    weak direction among strong ones it asks for a signal of 1 / `LIMIT` = 2 standard errors of its noise in the mean square.
    About 2 % of features of noise alone have that, in moments as in mixed rows (1.3 to 2.3 % of one to three of them, at most 0.4
    % of ten). For d weak directions it asks for some sqrt(d) times that. With less signal a 95 % interval of a slope often has no
    end.

    `LIMIT` is no promise of coverage, which depends on how often a draw is claimed. Draws in which noise makes the signal look
    small are not claimed. If these are few, they are mostly the 2.5 % in which the interval misses on one side, so coverage among
    claimed draws rises to 1 - 0.025 / 0.975 = 97.4 %. If most draws are not claimed, the claimed ones have a signal that looks
    too large, and steep slopes that look too flat. Whatever the signal, at most 5 % of all draws claim an interval that misses,
    give or take what the normal law is off. 95 % intervals of the slope of one weakly seen feature among ten, correlated by one
    half with another (benchmarks/coverage, 800 draws; slopes in units of the outcome's noise by the feature's):

        signal in standard errors of its noise           2     3     4     6
        mixed, share of draws claimed                  .09   .33   .63   .96
               of these hold a slope of 1              .89   .96   .97   .96
                             a slope of 5              .78   .93   .97   .97
        moments, share of draws claimed                .14   .37   .65   .96
               of these hold a slope of 1              .87   .95   .97   .97
                             a slope of 5              .88   .95   .97   .98

    The slopes of the other nine are held in 92 to 96 % of cases, intercepts in 96 to 98 % at 4 and 6.

    Attributes:
        weights: (d, l).
        offsets: (l,) at the point that was asked for.
        at: (m, l) at further points.
        residual: (2, l) variance of a patient's outcomes about the least squares, and the standard error of it.
        degrees: degrees of freedom of the variances; infinite for moments.
        noise_ratio: how far noise moves the features' moments in the worst direction; infinite where they cannot be told from it.
        dropped: the features to leave out, those that noise hides most first, for the noise ratio of the others to be below
            `LIMIT`; none where it is for all.
    """

    weights: ProfiledEstimates
    offsets: ProfiledEstimates
    at: ProfiledEstimates
    residual: Floats
    degrees: float
    noise_ratio: float
    dropped: tuple[int, ...]


def unidentified(points: Floats, targets: int, dropped: tuple[int, ...]) -> PopulationFit:
    """Answer of a release whose features cannot be told from noise; `points` are all that were asked for, (1 + m, d)."""
    (asked, d), spread = points.shape, np.full((2, targets), np.nan)
    unknown = np.full((d + asked, targets), np.nan)
    return in_parts(ProfiledEstimates(unknown, unknown, unknown, unknown), d, spread, np.inf, np.inf, dropped)


def in_parts(estimates: ProfiledEstimates, d: int, *rest: Any) -> PopulationFit:
    """A fit out of estimates of d weights, then of the offset, then at further points; the rest as of `PopulationFit`."""
    return PopulationFit(estimates[:d], estimates[d], estimates[d + 1 :], *rest)


def dropped_features(
    count: int, worst: tuple[float, int], look: Callable[[list[int]], tuple[float, int]]
) -> tuple[int, ...]:
    """The features to leave out, found by taking off the worst again and again.

    Args:
        count: d.
        worst: what `look` finds for all of them.
        look: some features to (their noise ratio, the position among them of the one that noise hides most).
    """
    kept, left_out = list(range(count)), []
    while worst[0] >= LIMIT:
        left_out.append(kept.pop(worst[1]))
        if not kept:
            break
        worst = look(kept)
    return tuple(left_out)
