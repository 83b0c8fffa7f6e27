"""Posterior mean and variance of each variable by itself, given its noisy moments: by quadrature, thousands at a time.

The prior is that of `density` for one variable: with l the lower end of its range, whose upper end is 1,

    p = (m - l)/(1 - l) ~ Beta(e, e),   variance = (m - l)(1 - m) g,   g ~ Beta(SPREAD, 1), or 1 for an indicator,

e being EDGE for a number and SHARE for an indicator. Its noisy sum and noisy square sum, the latter for numbers only, are what
is seen of m and of m^2 + variance. If a variable keeps to a small part of its range near an end, its square tells the mean
better than its sum does. Sums are over a grid that is even in the logits of p and g and covers what the noise leaves likely.

Private outcome-only columns are many, and what the others of their kind suggest of mean and square (`of_others`) multiplies
the prior by (1 - UNLIKE) (1 - l) N(m; ...) N(m^2 + variance; ...) + UNLIKE. The posterior may then be much narrower than the
noise. So a second grid, with half as many points, covers the range that has probability under the noise and under the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from dprelease.arrays import Floats
from dprelease.estimators.evidence.density import EDGE, SHARE, SPREAD
from dprelease.mechanisms.moments.released import Moments

COUNT = 3.0
"""Outcomes that the vague law of cases counts for."""
UNLIKE = 0.1
"""Chance that an outcome is unlike the others, its numbers anywhere in their ranges."""
_SPREADS = np.geomspace(1e-3, 1.0, 61)
"""T."""
_TURNS = 1000
"""Most that are made; a law of vaguely seen cases settles slowly."""
_SETTLED = 1e-5


def of_others(seen: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation that others suggest of each outcome, (l,); of one alone nothing is known: (0, inf).

    If thousands of outcomes share a budget, the noise in one outcome's mean can exceed all that the outcome varies, and no single
    one shows how far its features go. Together they show both. For a number of outcome j, such as its mean, the others suggest

        m_j ~ N(M_-j, T^2 + var M_-j),   seen x_k = m_k + noise of known variance s_k^2,

    with M flat and M_-j the weighted mean of all x_k but x_j. T, uniform on [1e-3, 1], is the same for all and told by all, and its
    posterior mean square is used. All outcomes of a release are pooled, whichever of them a fit is for, so that outcomes together
    are fitted as they are one by one. Most outcomes gain, and an odd one pays: hidden by noise it is taken for one like the others.
    `UNLIKE` limits that.

    Source: Efron and Morris 1973, Stein's estimation rule and its competitors.

    Args:
        seen: (l,) x, in units of the range.
        noise: (l,) s, positive and of one order of magnitude.
    """
    if len(seen) < 2:
        return np.zeros_like(seen), np.full_like(seen, np.inf)
    weight = 1 / (_SPREADS[:, None] ** 2 + noise**2)
    total = weight.sum(axis=1)
    centre = weight @ seen / total
    log = 0.5 * (np.log(weight).sum(axis=1) - np.log(total) - (weight * (seen - centre[:, None]) ** 2).sum(axis=1))
    likely = _SPREADS * np.exp(log - log.max())  # uniform in T on a grid that is even in its logarithm
    square = float(likely @ _SPREADS**2 / likely.sum())
    own = 1 / (square + noise**2)
    left = own.sum() - own
    return (own @ seen - own * seen) / left, np.sqrt(square + 1 / left)


def shares(evidence: Floats) -> Floats:
    """(B, l) how likely each of B cases is for each outcome, as the others suggest it.

        share_-j = (COUNT / B + sum over k != j of how likely each case is for k) / (COUNT + l - 1),

    It is iterated until shares and cases agree: a law of cases with a Dirichlet prior that is integrated out, each outcome seen
    in the mean of the others (collapsed variational Bayes of order 0). For an outcome alone all cases are equally likely.

    Source: Asuncion, Welling, Smyth and Teh 2009, On smoothing and inference for topic models.

    Args:
        evidence: (B, l) logarithms of how likely each case makes what was seen of an outcome, up to a constant for each.
    """
    cases, outcomes = evidence.shape
    law = np.full_like(evidence, 1 / cases)
    likelihood = np.exp(evidence - evidence.max(axis=0))
    for _ in range(_TURNS if outcomes > 1 else 0):
        likely = likelihood * law
        likely /= likely.sum(axis=0)
        before, law = law, (COUNT / cases + likely.sum(axis=1, keepdims=True) - likely) / (COUNT + outcomes - 1)
        if np.abs(law - before).max() < _SETTLED:
            break
    return law


class Seen(Protocol):
    """Noisy numbers of l outcomes, each of which is one of B cases."""

    def take(self, places: npt.NDArray[np.int64]) -> Seen:
        """The same of some of them."""

    def explained(self) -> Floats:
        """(B, l) evidence of `shares`."""


def pooled(seen: Seen, cases: int, alike: npt.NDArray[np.bool_]) -> Floats:
    """(B, l) `shares` of those that are pooled; for the others all cases are equally likely, and nothing is worked out.

    Args:
        seen: of all l outcomes.
        cases: B.
        alike: (l,) which are pooled.
    """
    law = np.full((cases, len(alike)), 1 / cases)
    if alike.any():
        law[:, alike] = shares(seen.take(np.flatnonzero(alike)).explained())
    return law


REACH = 6.0
"""Standard deviations of the noise that the grid covers."""
PLACES, SPREADS = 64, 32
"""Points of the grid for p and for g."""
CLOSE = 1 / 2
"""Points for what others suggest, as a part of `PLACES` or `SPREADS`."""
ENDS = 14.0
"""Largest logit; what lies beyond is taken to be there."""
_AT_ONCE = 256
_TINY = 1e-12
_LEAST = 1e-3
"""Least variance, in the mean one, that a relative loss is measured by."""


@dataclass(frozen=True, eq=False)
class Marginals:
    """Posterior moments of q variables, each (q,), scaled units.

    Attributes:
        mean: of the mean m.
        mean_sd: standard deviation of m.
        variance: mean of the variance.
        harmonic_variance: square of the harmonic mean of the standard deviation: less where the variance is not known well.
        constant: c that minimises the expected (c - m)^2 / variance: where little is known of a variable with a small
            spread, what would be a gross error for it decides; beside others, which tell of its spread,
            (c - m)^2 / standard deviation.
        relative_loss: the expected (c - m)^2 / variance.
        error: mean of the squared error of the constant c, variance + (c - m)^2.
        error_sd: its standard deviation.
        square: mean of m^2 + variance.
        square_sd: its standard deviation.
    """

    mean: Floats
    mean_sd: Floats
    variance: Floats
    harmonic_variance: Floats
    constant: Floats
    relative_loss: Floats
    error: Floats
    error_sd: Floats
    square: Floats
    square_sd: Floats

    @classmethod
    def of(cls, moments: Moments, wanted: npt.NDArray[np.int64]) -> Marginals:
        """The marginals of some variables.

        Args:
            moments: as released.
            wanted: (q,) indices in the matrix.
        """
        seen = np.vstack([_seen(moments, wanted), moments.layout.lower[wanted]])
        others = _others(moments)[:, wanted]
        numeric, pooled = moments.layout.measured[wanted], np.isfinite(others[1])
        found = np.empty((len(fields(cls)), len(wanted)))
        for number, together in ((True, True), (True, False), (False, True), (False, False)):
            group = np.flatnonzero((numeric == number) & (pooled == together))
            for start in range(0, len(group), _AT_ONCE):
                part = group[start : start + _AT_ONCE]
                found[:, part] = _posterior(seen[:, part], others[:, part] if together else None, numeric=number)
        return cls(*found)

    def take(self, places: npt.NDArray[np.int64]) -> Marginals:
        """The marginals of some of the variables."""
        return Marginals(*(value[places] for value in vars(self).values()))


def _seen(moments: Moments, wanted: npt.NDArray[np.int64]) -> Floats:
    """(4, q): means and squares as released, each with the standard deviation of its noise."""
    n = moments.rows
    return np.array(
        [
            moments.between([0], wanted)[0] / n,
            np.maximum(moments.noise_between([0], wanted)[0] / n, _TINY),
            moments.own(wanted) / n,
            np.maximum(moments.noise_own(wanted) / n, _TINY),
        ]
    )


def _others(moments: Moments) -> Floats:
    """(4, p+1): what a private outcome's others suggest of its mean and square, each with a standard deviation."""
    layout = moments.layout
    found = np.tile([[0.0], [np.inf]], (2, len(layout.outcome)))
    for alike in (layout.measured, layout.level, ~layout.measured & ~layout.level):
        group = np.flatnonzero(layout.outcome & ~layout.public & alike)
        mean, mean_sd, square, square_sd = _seen(moments, group)
        found[:2, group] = of_others(mean, mean_sd)
        found[2:, group] = of_others(square, square_sd)
    return found


def _posterior(seen: Floats, others: Floats | None, *, numeric: bool) -> Floats:
    """(10, q): the fields of `Marginals`. Arrays in it are (q, places, spreads).

    Args:
        seen: (5, q) of `_seen`, and the lower ends of the ranges.
        others: (4, q) of `_others`.
        numeric: whether these are numbers.
    """
    mean, mean_sd, square, square_sd, lower = seen[:, :, None]
    suggested = None if others is None else others[:, :, None]
    width = 1 - lower
    ranges = _ranges(mean, mean_sd, None if suggested is None else suggested[:2])
    place = _grid([((low - lower) / width, (high - lower) / width) for low, high in ranges], PLACES)[:, 0]
    m, most = lower + width * expit(place), width**2 * expit(place) * expit(-place)
    edge = EDGE if numeric else SHARE
    log = edge * np.log(most) + _cells(place, edge, edge) - 0.5 * ((m - mean) / mean_sd) ** 2
    alike: Floats | float = 1.0 if suggested is None else width[:, :, None] * _normal(m, *suggested[:2])[:, :, None]
    m, log, most = m[:, :, None], log[:, :, None], most[:, :, None]
    variance = most
    if numeric:
        ranges = _ranges(square, square_sd, None if suggested is None else suggested[2:])
        spread = _grid(
            [((low - m[..., 0] ** 2) / most[..., 0], (high - m[..., 0] ** 2) / most[..., 0]) for low, high in ranges],
            SPREADS,
        )
        part = expit(spread)
        variance = most * part
        raised = variance + m**2
        # log(1 - g) = log g - logit g
        log = log + (SPREAD + 1) * np.log(part) - spread + _cells(spread, SPREAD, 1.0)
        log -= 0.5 * ((raised - square[:, :, None]) / square_sd[:, :, None]) ** 2
        if suggested is not None:
            alike = alike * _normal(raised, *suggested[2:, :, :, None])
    log = log + np.log((1 - UNLIKE) * alike + UNLIKE)
    weight = np.exp(log - log.max(axis=(1, 2), keepdims=True))
    weight /= weight.sum(axis=(1, 2), keepdims=True)

    def average(values: Floats) -> Floats:
        found: Floats = (weight * values).sum(axis=(1, 2), keepdims=True)
        return found

    def scatter(values: Floats, centre: Floats) -> Floats:
        return np.sqrt(average((values - centre) ** 2))

    centre, typical = average(m), average(variance)
    relative = 1 / np.maximum(variance, _LEAST * typical)
    decides = relative if suggested is None else np.sqrt(relative)
    constant = average(decides * m) / average(decides)
    error, seen = variance + (constant - m) ** 2, variance + m**2
    of_error, of_square = average(error), average(seen)
    means = [centre, scatter(m, centre), typical, 1 / average(np.sqrt(relative)) ** 2, constant]
    means.append(average(relative * (constant - m) ** 2))
    return np.array([*means, of_error, scatter(error, of_error), of_square, scatter(seen, of_square)])[:, :, 0, 0]


def _ranges(seen: Floats, noise: Floats, others: Floats | None) -> list[tuple[Floats, Floats]]:
    """Ranges that the noise leaves likely, and that the others do as well, (q, 1) ends of each."""
    found = [(seen - REACH * noise, seen + REACH * noise)]
    if others is not None:
        centre, sd = others
        precision = noise**-2 + sd**-2
        close, reach = (seen * noise**-2 + centre * sd**-2) / precision, REACH / np.sqrt(precision)
        found.append((close - reach, close + reach))
    return found


def _normal(values: Floats, centre: Floats, sd: Floats) -> Floats:
    return np.exp(-0.5 * ((values - centre) / sd) ** 2) / (math.sqrt(2 * math.pi) * sd)


def _grid(ranges: list[tuple[Floats, Floats]], count: int) -> Floats:
    """(..., count) points, ascending and even in the logit within each of one or two ranges of places in [0, 1]."""
    parts = []
    for (low, high), points in zip(ranges, (count, round(CLOSE * count)), strict=False):
        first = np.clip(logit(np.clip(low, 0, 1)), -ENDS, ENDS - 1)
        last = np.maximum(np.clip(logit(np.clip(high, 0, 1)), 1 - ENDS, ENDS), first + _TINY)
        parts.append(first[..., None] + (last - first)[..., None] * np.linspace(0, 1, points))
    return np.sort(np.concatenate(parts, axis=-1), axis=-1)


def _cells(grid: Floats, low: float, high: float) -> Floats:
    """Logarithms of what the points stand for, (..., count): a step, and beyond the ends the tails, which fall by these rates."""
    steps = np.diff(grid)
    cells = np.concatenate([steps[..., :1], (steps[..., 1:] + steps[..., :-1]) / 2, steps[..., -1:]], axis=-1)
    cells[..., 0] += (grid[..., 0] <= -ENDS) / low
    cells[..., -1] += (grid[..., -1] >= ENDS) / high
    found: Floats = np.log(np.maximum(cells, _TINY**2))
    return found
