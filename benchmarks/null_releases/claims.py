"""Everything that a release of known truth claims, as counts: how often a claim of one kind was made, and how often it was false.

Kinds of claims, with the rate at which each may be false:

    better          a model is better than the constant predictor; false where on the rows it is not
    R2              what a model explains of them lies within two standard errors
    mean, spread    and strong and weak correlations (beyond .15) within 1.96 standard deviations of noise
    p of ...        a p-value below 5 % where there is no effect
    interval of ... a 95 % interval that leaves the population's value out
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import combinations

import numpy as np

from benchmarks.common.fits import fit_moments
from benchmarks.null_releases.populations import (
    OUTCOME,
    Columns,
    Drawn,
    as_mixed_rows,
    fitted_on,
    in_public_bounds,
    in_ranges,
    with_outcome_apart,
)
from dprelease.analyses import (
    compare_groups,
    contingency_table,
    correlations,
    mediation,
    nested,
    two_stage_least_squares,
)
from dprelease.arrays import Floats
from dprelease.data.columns import NumericColumn
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.summary import summarise
from dprelease.estimators.fitting import fit
from dprelease.estimators.quality import BETTER, Quality, ScaledFit
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments, OutcomeMoments
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import viewed

Claims = dict[str, list[bool]]
"""Kind of a claim to whether each claim of it was false."""
QUANTILE, ALPHA, STRONG = 1.96, 0.05, 0.15


def public_claims(found: Drawn, epsilon: float, effect: float, random: np.random.Generator) -> Claims:
    """What a release of moments in public bounds claims."""
    claims: Claims = defaultdict(list)
    moments, truth = in_public_bounds(found, epsilon, random)
    _of_fit(claims, moments, truth, found.columns)
    _of_description(claims, moments, truth)
    release = viewed(found.columns, moments)
    _of_coefficients(claims, release, effect)
    if not effect:
        _of_analyses(claims, release, found.columns)
    return claims


def ranged_claims(found: Drawn, epsilon: float, effect: float, random: np.random.Generator) -> Claims:
    """What a release in ranges claims: of the rows as they were clipped, and by p-values of all rows."""
    claims: Claims = defaultdict(list)
    moments, truth, reaches = in_ranges(found, epsilon, random)
    _of_fit(claims, moments, truth, found.columns)
    _of_description(claims, moments, truth)
    if not effect:
        _of_analyses(claims, viewed(found.columns, moments, reaches), found.columns)
    return claims


def wide_claims(found: Drawn, epsilon: float, effect: float, random: np.random.Generator) -> Claims:
    """What fits on more variables than can be drawn together claim, in public bounds and in ranges."""
    del effect
    claims: Claims = defaultdict(list)
    for release in (in_public_bounds, in_ranges):
        moments, truth, *_ = release(found, epsilon, random)
        _of_fit(claims, moments, truth, found.columns)
    return claims


def outcome_only_claims(found: Drawn, epsilon: float, effect: float, random: np.random.Generator) -> Claims:
    """What a fit on a release with an outcome-only column claims."""
    del effect
    claims: Claims = defaultdict(list)
    moments, truth, public = with_outcome_apart(found, epsilon, random)
    _of_fit(claims, moments, truth, found.columns, public)
    return claims


def mixed_claims(found: Drawn, epsilon: float, effect: float, random: np.random.Generator) -> Claims:
    """What a fit on mixed rows claims, on all features and every level of a category."""
    del effect
    claims: Claims = defaultdict(list)
    rows, truth = as_mixed_rows(found, epsilon, random)
    lower = Layout(found.columns).lower[1:]
    fitted = calibrated(rows, lower[:-1], lower[-1:], intercept=True)
    _of_quality(claims, fitted, truth, list(range(1, len(truth) - 1)), len(truth) - 1)
    return claims


def _of_fit(
    claims: Claims,
    moments: NoisyMoments | OutcomeMoments,
    truth: Floats,
    columns: Columns,
    public: Floats | None = None,
) -> None:
    features, target = fitted_on(columns)
    _of_quality(claims, fit_moments(moments, features, [target], public, intercept=True), truth, features, target)


def _of_quality(claims: Claims, fitted: ScaledFit, truth: Floats, features: list[int], target: int) -> None:
    quality: Quality = fitted.quality
    places = [0, *features, target]
    model = np.concatenate([-fitted.offsets, -fitted.weights[:, 0], [1.0]])
    flat = np.append(-fitted.constant, np.append(np.zeros(len(features)), 1.0))
    error, constant = (u @ truth[np.ix_(places, places)] @ u for u in (model, flat))
    better = quality.verdicts() == (BETTER,)
    claims["better"].append(bool(better and error >= constant))
    if np.isfinite(quality.explained[0]):
        off = abs(quality.explained[0] - (1 - error / constant))
        claims["R2"].append(bool(off > 2 * quality.explained_se[0] + 1e-12))


def _of_description(claims: Claims, moments: NoisyMoments, truth: Floats) -> None:
    """Means, spreads and correlations, an indicator's spread left out: it follows from its mean."""
    told, places = summarise(moments), [moments.lookup(name) for name in moments.names]
    middle, half = (np.array([place[part] for place in places]) for part in (1, 2))
    mean, covariance = truth[0, 1:], truth[1:, 1:] - np.outer(truth[0, 1:], truth[0, 1:])
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    numeric = [place for place, each in enumerate(moments.layout.variables) if each.measured]
    claims["mean"] += _missed(told.mean, middle + half * mean, told.mean_sd)
    claims["spread"] += _missed(told.standard_deviation, half * spread, told.standard_deviation_sd, numeric)
    owner = [each.column for each in moments.layout.variables]
    for i, j in combinations(range(len(mean)), 2):
        if owner[i] != owner[j]:
            value = covariance[i, j] / (spread[i] * spread[j])
            kind = "correlation, strong" if abs(value) > STRONG else "correlation, weak"
            claims[kind].append(bool(abs(told.correlation[i, j] - value) > QUANTILE * told.correlation_sd[i, j]))


def _missed(told: Floats, truth: Floats, sd: Floats, places: list[int] | None = None) -> list[bool]:
    missed = np.abs(told - truth) > QUANTILE * sd + 1e-12
    return [bool(each) for each in (missed if places is None else missed[places])]


def _of_coefficients(claims: Claims, release: Release, effect: float) -> None:
    """What `learner fit` claims of the slopes of numbers: of the population they are `effect` and zeros."""
    inference = fit(release, [OUTCOME]).inference
    if not inference.identified[0]:
        return
    features = fit(release, [OUTCOME]).features
    numeric = [place for place, name in enumerate(features) if isinstance(release.column(name), NumericColumn)]
    lower, upper = (ends[0, numeric] for ends in inference.interval(0.95))
    known = np.isfinite(inference.estimate[0, numeric])
    slopes = np.zeros(len(numeric))
    slopes[0] = effect
    kind = "interval of a slope" if effect else "p of a slope"
    claims[kind] += [bool(each) for each in ((slopes < lower) | (upper < slopes))[known]]


def _of_analyses(claims: Claims, release: Release, columns: Columns) -> None:
    for kind, p_values in _p_values(release, columns):
        with suppress(InvalidInput):  # nothing is claimed where noise hides the columns
            claims[f"p of {kind}"] += [bool(p < ALPHA) for p in p_values()]


def _p_values(release: Release, columns: Columns) -> Iterator[tuple[str, Callable[[], list[float]]]]:
    """Kind to the p-values of analyses of an outcome that nothing acts on."""
    numeric = [column.name for column in columns[:-1] if isinstance(column, NumericColumn)]
    categories = [column.name for column in columns if not isinstance(column, NumericColumn)]
    one, other, *_ = numeric

    def tests(found: object) -> list[float]:
        return [test.p_value for test in found.tests.values()]  # type: ignore[attr-defined]

    yield "all coefficients, and two of them", lambda: tests(nested(release, OUTCOME, numeric, numeric[:2]))
    for name in categories:
        yield "group means", lambda name=name: tests(compare_groups(release, OUTCOME, [name]))  # type: ignore[misc]
        yield (
            "group means, adjusted",
            lambda name=name: tests(compare_groups(release, OUTCOME, [name], numeric[:1])),  # type: ignore[misc]
        )
    if len(categories) > 1:
        yield "a table", lambda: tests(contingency_table(release, *categories[:2]))
    yield "the first stage", lambda: tests(two_stage_least_squares(release, one, [OUTCOME], [other]))[:1]
    yield (
        "a two-stage coefficient",
        lambda: list(two_stage_least_squares(release, OUTCOME, [one], [other]).tables["coefficients"].p_value),
    )
    yield "a correlation", lambda: list(correlations(release, [one, OUTCOME]).tables["correlations"].p_value)
    yield "a mediated effect", lambda: list(mediation(release, OUTCOME, one, other).tables["effects"].p_value)
