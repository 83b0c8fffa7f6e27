"""Linear models of a number: means of groups, nested models, mediation.

Groups have a pooled t-test, one-way and main-effect analysis of variance, and of covariance with adjusted means. All are least
squares on indicators of the levels. A t-test and an analysis of variance pool the groups' variances, for what would tell these
apart, sums of y^2 over a group, is of third order, unless y^2 is a column (`beyond`).

Nested models have F tests, the share of variance that features add, and variance inflation. Coefficients and their intervals are
those of `dprelease.estimators.fit`.

Mediation is how much of an effect runs through another column. With a the coefficient of the exposure for the mediator, and b that
of the mediator and c' that of the exposure for the outcome, covariates in all models, the indirect effect is a b, the direct one c'
and the total one a b + c'. The sampling error of a b is Sobel's, (a^2 s_b^2 + b^2 s_a^2)^(1/2).

Source: Sobel 1982, Asymptotic confidence intervals for indirect effects, Sociological Methodology 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, clear, compared, draws_of, features, levels, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import are_zero
from dprelease.analyses.least_squares import LeastSquares, least_squares, on_covariance
from dprelease.analyses.result import Analysis, repeatable
from dprelease.errors import InvalidInput
from dprelease.estimators.intervals.inference import EQUAL_SPREAD
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
    groups = {factor: compared(release, levels(release, factor)) for factor in by}
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
    tables = tables_of(draws, lambda draws: _group_tables(least_squares(draws, y, x), groups))
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


def _group_tables(model: LeastSquares, groups: Mapping[str, tuple[str, ...]]) -> dict[str, Estimates]:
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


@repeatable
def nested(release: Release, outcome: str, on: Sequence[str], without: Sequence[str] = ()) -> Analysis:
    """Tests whether features of a linear regression can be left out, all of them or some.

    Tables: ``variance inflation`` and, for `without`, ``explained`` (the part of R^2 that they add; both with noise only).
    Tests: ``all coefficients are 0``, and ``the coefficients of ... are 0`` for `without`: F tests of nested models.

    Args:
        release: a verified release of joint moments.
        outcome: a number, or an indicator.
        on: features.
        without: those of them to test together.

    Raises:
        InvalidInput: an unknown name, no moments, `without` is not some of the features, or noise hides how they vary.
    """
    y, x = number(release, outcome), features(release, on)
    tested = features(release, without) if without else ()
    if not set(tested) < set(x):
        raise InvalidInput("what is to be left out must be some of the features, and not all of them")
    draws = draws_of(release, (y, *x))
    x, tested = draws.present(x), draws.present(tested)
    tables = tables_of(draws, lambda draws: _tables(draws, y, x, tested))
    tests = {"all coefficients are 0": are_zero(draws, y, x, x)}
    if tested:
        tests[f"the coefficients of {', '.join(tested)} are 0"] = are_zero(draws, y, x, tested)
    return Analysis(
        f"Nested linear models of {y}",
        release,
        draws.names,
        tables,
        tests,
        (*draws.caveats, EQUAL_SPREAD, "A test after features were chosen on this release finds too much."),
    )


def _tables(draws: Draws, y: str, x: tuple[str, ...], tested: tuple[str, ...]) -> dict[str, Estimates]:
    model = least_squares(draws, y, x)
    variance = np.einsum("tii->ti", draws.covariance)[:, draws.places(x)]
    tables = {"variance inflation": Estimates(x, np.einsum("tii->ti", model.inverse) * variance, limits=(1.0, np.inf))}
    if tested:
        rest = tuple(name for name in x if name not in tested)
        smaller = on_covariance(draws.mean, draws.covariance, 0, draws.places(rest), rest, draws.patients)
        added = (model.explained - smaller.explained)[:, None]
        tables["explained"] = Estimates((f"R-squared added by {', '.join(tested)}",), added, limits=(0.0, 1.0))
    return tables


@repeatable
def mediation(release: Release, outcome: str, exposure: str, through: str, given: Sequence[str] = ()) -> Analysis:
    """Indirect, direct and total effect of an exposure on an outcome.

    Tables: ``effects`` and ``paths`` (exposure to mediator, mediator to outcome); noise and sampling.

    Args:
        release: a verified release of joint moments.
        outcome: a number, or an indicator.
        exposure: the same.
        through: the mediator.
        given: covariates.

    Raises:
        InvalidInput: an unknown name, no moments, or noise hides how the columns vary.
    """
    y, x, m = (number(release, name) for name in (outcome, exposure, through))
    w = features(release, given) if given else ()
    draws = draws_of(release, (y, x, m, *w))
    w = draws.present(w)
    return Analysis(
        f"Mediation of {x} to {y} through {m}",
        release,
        draws.names,
        tables_of(draws, lambda draws: _paths(draws, y, x, m, w)),
        caveats=(
            *draws.caveats,
            "An effect only if nothing that is left out acts on two of the three columns; no data show that.",
            "Exposure and mediator are taken not to interact: their product would have to be declared before the release.",
            "Sobel's interval is symmetric and errs on the long side where both paths are weak.",
        ),
        facts={"given": ", ".join(w)} if w else {},
    )


def _paths(draws: Draws, y: str, x: str, m: str, w: Sequence[str]) -> dict[str, Estimates]:
    first, second, whole = (least_squares(draws, *model) for model in ((m, (x, *w)), (y, (m, x, *w)), (y, (x, *w))))
    a, s_a, b, s_b = first.coef[:, 0], first.errors()[:, 0], second.coef[:, 0], second.errors()[:, 0]
    location = np.column_stack([a * b, second.coef[:, 1], whole.coef[:, 0]])
    scale = np.column_stack([np.hypot(a * s_b, b * s_a), second.errors()[:, 1], whole.errors()[:, 0]])
    paths = (f"{x} to {m}", f"{m} to {y}")
    return {
        "effects": Estimates(("indirect", "direct", "total"), location, scale, tested=True),
        "paths": Estimates(paths, np.column_stack([a, b]), np.column_stack([s_a, s_b]), tested=True),
    }
