"""Means, spreads and correlations out of joint moments.

Results are the mean over draws of the true moments (`posterior`), how far the draws differ, and how far their prior draws them
from the released numbers. In a release that is too wide for draws (`Evidence.wide`) errors are those of the released noise. Means
and spreads of public columns are exact.

If some columns are outcomes only, these are described one by one (`marginals`) and have no correlations: products of two of
them are not released.

`before_clipping` says of each draw of clipped rows what normal rows had before. Draws are corrected, not released moments:
draws are within what clipped rows can have, and noise makes some released variances negative, which no rows have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.evidence.before_clipping import PublishedSpreads, before_clipping, standardised
from dprelease.estimators.evidence.evidence import Evidence
from dprelease.estimators.evidence.marginals import Marginals
from dprelease.mechanisms.moments.released import Moments, NoisyMoments


@dataclass(frozen=True, eq=False)
class MomentsSummary:
    """Moments of p released columns in original units; an indicator is 1 for its level and 0 otherwise.

    Attributes:
        names: (p,) variables; a binary by its declared level.
        mean: (p,).
        mean_sd: (p,) what privacy noise leaves open about the mean, a standard deviation.
        standard_deviation: (p,) of the values over patients (divided by n).
        standard_deviation_sd: (p,) what privacy noise leaves open about it; in a wide release NaN if corrected for clipping.
        correlated: (c,) those that correlations are of: all but outcomes only.
        correlation: (c, c), positive semidefinite, ones on the diagonal; it falls to 0 where noise hides it.
        correlation_sd: (c, c) what privacy noise leaves open; NaN in a release that is too wide.
    """

    names: tuple[str, ...]
    mean: Floats
    mean_sd: Floats
    standard_deviation: Floats
    standard_deviation_sd: Floats
    correlated: tuple[str, ...]
    correlation: Floats
    correlation_sd: Floats


def summarise(moments: Moments, spreads: PublishedSpreads | None = None) -> MomentsSummary:
    """Summary of every released column: features together, outcomes one by one, their deviation's noise to first order.

    Args:
        moments: as released.
        spreads: of rows before clipping, to say what the same rows had before, were they normal; None for rows as clipped.
    """
    whole, outcome = _of_all(moments.joint, spreads), moments.layout.outcome[1:]
    if not outcome.any():
        return whole
    chosen = np.flatnonzero(outcome) + 1
    found, n, exact = Marginals.of(moments, chosen), moments.rows, moments.layout.public[chosen]
    means = moments.between([0], chosen)[0] / n
    mean = np.where(exact, means, found.mean)
    variance = np.where(exact, np.maximum(moments.own(chosen) / n - means**2, 0.0), found.variance)
    deviation = np.sqrt(variance)
    open_sd = np.divide(found.error_sd, 2 * deviation, out=np.zeros_like(deviation), where=deviation > 0)
    places = [moments.lookup(moments.names[index - 1]) for index in chosen]
    midpoint, half_width = (np.array([place[part] for place in places]) for part in (1, 2))
    parts = {
        "mean": midpoint + half_width * mean,
        "mean_sd": half_width * np.where(exact, 0.0, found.mean_sd),
        "standard_deviation": half_width * deviation,
        "standard_deviation_sd": half_width * np.where(exact, 0.0, open_sd),
    }
    single: dict[str, Any] = {}
    for name, own in parts.items():
        single[name] = np.empty(len(outcome))
        single[name][~outcome], single[name][outcome] = getattr(whole, name), own
    return replace(whole, names=moments.names, **single)


def _of_all(moments: NoisyMoments, spreads: PublishedSpreads | None) -> MomentsSummary:
    places = [moments.lookup(name) for name in moments.names]
    midpoint, half_width = (np.array([place[part] for place in places]) for part in (1, 2))
    evidence = Evidence(moments)
    draws, wide = evidence.draws(), evidence.wide
    noise_sd = moments.noise_sd[0, 1:] / moments.rows
    if spreads is not None:
        draws, slopes = before_clipping(draws, moments.balls, spreads)
        noise_sd = np.sqrt((slopes[0] ** 2) @ noise_sd**2)
    mean = draws[:, 0, 1:]
    correlation = standardised(draws[:, 1:, 1:] - mean[:, :, None] * mean[:, None, :])[0]
    np.einsum("tii->ti", correlation)[:] = 1.0
    correlation = np.clip(correlation, -1.0, 1.0)
    square = np.diagonal(draws, axis1=1, axis2=2)[:, 1:]
    # The others of its group leave the commonest level a share below 0 at times, and a square that is not its share.
    level = moments.layout.level[1:]
    mean = np.where(level, np.clip(mean, 0.0, 1.0), mean)
    deviation = np.sqrt(np.maximum(np.where(level, mean, square) - mean**2, 0.0))
    mean_sd, deviation_sd, correlation_sd = mean.std(axis=0), deviation.std(axis=0), correlation.std(axis=0)
    if wide:
        mean_sd, correlation_sd, unknown = (
            noise_sd,
            np.full_like(correlation_sd, np.nan),
            np.full_like(noise_sd, np.nan),
        )
        deviation_sd = _released(moments, mean[0], deviation[0])[1][1] if spreads is None else unknown
    elif spreads is None:
        centres = (mean.mean(axis=0), deviation.mean(axis=0), correlation.mean(axis=0))
        released = _released(moments, *centres[:2])
        mean_sd, deviation_sd, correlation_sd = map(_open, (mean_sd, deviation_sd, correlation_sd), centres, *released)
    exact, known = moments.layout.public[1:], moments.gram / moments.rows
    spread = np.sqrt(np.maximum(np.diag(known)[1:] - known[0, 1:] ** 2, 0.0))
    return MomentsSummary(
        names=moments.names,
        mean=midpoint + half_width * np.where(exact, known[0, 1:], mean.mean(axis=0)),
        mean_sd=half_width * np.where(exact, 0.0, mean_sd),
        standard_deviation=half_width * np.where(exact, spread, deviation.mean(axis=0)),
        standard_deviation_sd=half_width * np.where(exact, 0.0, deviation_sd),
        correlated=moments.names,
        correlation=correlation.mean(axis=0),
        correlation_sd=correlation_sd,
    )


def _open(draws_sd: Floats, centre: Floats, released: Floats, noise_sd: Floats) -> Floats:
    """Remaining error of the mean of draws due to noise, as a standard deviation.

    The draws' own spread does not know how far their prior has drawn them from what was released. An error of this size is added,
    as far as it is not more than the noise of the released number.
    """
    return np.maximum(draws_sd, np.minimum(np.hypot(draws_sd, centre - released), noise_sd))


def _released(moments: NoisyMoments, mean: Floats, deviation: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Means, spreads and correlations as released, without a prior, and standard deviations of their noise to first order.

    Args:
        moments: as released.
        mean: (p,) as it is believed to be.
        deviation: (p,) the same.
    """
    seen, variance = moments.gram / moments.rows, (moments.noise_sd / moments.rows) ** 2
    first, own, level = variance[0, 1:], np.diag(variance)[1:], moments.layout.level[1:]
    covariance = seen[1:, 1:] - np.outer(seen[0, 1:], seen[0, 1:]) + np.diag(first)
    among = variance[1:, 1:] + np.outer(mean**2, first) + np.outer(first, mean**2)
    spread = np.where(level, 0.0, own) + (level - 2 * mean) ** 2 * first
    product, twice = np.outer(deviation, deviation), 2 * deviation
    with np.errstate(divide="ignore", invalid="ignore"):
        # The square of a spread is what was released: of one that is near the believed one, half the distance over that.
        spreads = deviation + (np.diag(covariance) - deviation**2) / twice
        values = (seen[0, 1:], spreads, covariance / product)
        noise = (np.sqrt(first), np.sqrt(spread) / twice, np.sqrt(among) / product)
    half = (1 - moments.layout.lower[1:]) / 2  # no mean and no spread is further off
    sds = (np.fmin(noise[0], half), np.fmin(noise[1], half), np.fmin(noise[2], 1.0))
    return tuple(map(np.nan_to_num, values)), sds
