"""Means of groups: pooled t-test, one-way and main-effect analysis of variance, and of covariance with adjusted means.

All are least squares on indicators of the levels. A t-test and an analysis of variance pool the groups' variances, for what would
tell these apart, sums of y^2 over a group, is of third order, unless y^2 is a column (`beyond`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import clear, draws_of, features, levels, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.least_squares import LeastSquares, least_squares
from dprelease.analyses.result import Analysis, repeatable
from dprelease.analyses.score_test import are_zero
from dprelease.errors import InvalidInput
from dprelease.release.release import Release


@repeatable
def compare_groups(release: Release, outcome: str, by: Sequence[str], adjust: Sequence[str] = ()) -> Analysis:
    """Means of an outcome in groups, and whether they differ.

    Tables: ``means of FACTOR`` (at the average of everything else) and ``differences of FACTOR`` (to the first level; of two groups
    this is the pooled t-test) for each factor; noise and sampling. Tests: one for each factor, given all others and the
    covariates: F tests of type II, without interactions. With one factor and no covariates they are the groups' means and the
    one-way analysis of variance. Levels whose patients noise does not tell from none are counted with the first that it does.

    Args:
        release: a verified release of joint moments.
        outcome: a number, or an indicator.
        by: one or more categories or binaries.
        adjust: covariates.

    Raises:
        InvalidInput: an unknown name, a factor that is a number, a column named twice, no moments, a factor with a single level
            that is told from none, or noise hides how the columns vary.
    """
    if not by:
        raise InvalidInput("name at least one category to compare the groups of")
    y, covariates = number(release, outcome), features(release, adjust) if adjust else ()
    groups = {factor: levels(release, factor) for factor in by}
    # A binary's levels are one variable.
    drawn = {factor: names if len(names) > 2 else names[1:] for factor, names in groups.items()}
    draws = draws_of(release, (y, *chain(*drawn.values()), *covariates))
    covariates = draws.present(covariates)
    for factor, names in drawn.items():
        told = [name not in draws.absent for name in names]
        if len(names) == 1:
            counts = draws.patients * draws.mean[:, draws.places(names)]
            told = clear(np.hstack([draws.patients - counts, counts])).tolist()
        groups[factor] = tuple(name for name, seen in zip(groups[factor], told, strict=True) if seen)
        if len(groups[factor]) < 2:
            raise InvalidInput(f"fewer than two groups of {factor} are told from none: there is nothing to compare")
    x = (*chain(*(names[1:] for names in groups.values())), *covariates)
    tables = tables_of(draws, lambda draws: _tables(least_squares(draws, y, x), groups))
    tests = {
        f"the means of all groups of {factor} are equal": are_zero(draws, y, x, names[1:])
        for factor, names in groups.items()
    }
    unit = release.column(y).unit
    caveats = [
        *draws.caveats,
        "Residuals are taken to be near normal or groups large. If the small group varies more, errors are too small: Welch's "
        "test needs the outcome's square as a column, declared before the release (see `welch`).",
        *(["Covariates are taken to act alike in all groups."] if covariates else []),
    ]
    title = f"Analysis of {'covariance' if covariates else 'variance'} of {y}" + (f" ({unit})" if unit else "")
    facts = {"adjusted": f"to the mean of {', '.join(covariates)}"} if covariates else {}
    return Analysis(title, release, draws.names, tables, tests, tuple(caveats), facts)


def _tables(model: LeastSquares, groups: Mapping[str, tuple[str, ...]]) -> dict[str, Estimates]:
    tables: dict[str, Estimates] = {}
    for factor, names in groups.items():
        tables[f"means of {factor}"] = _means(model, names)
        tables[f"differences of {factor} to {names[0]}"] = model.slopes(names[1:])
    return tables


def _means(model: LeastSquares, names: tuple[str, ...]) -> Estimates:
    """At each level of a factor, everything else at its mean."""
    at = [model.features.index(name) for name in names[1:]]
    points = np.repeat(model.feature_mean[:, None], len(names), axis=1)
    points[:, :, at] = np.eye(len(names))[:, 1:]
    return model.predictions(names, points)
