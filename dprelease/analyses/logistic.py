"""Logistic regression: by maximum likelihood on the law of the named categories, or from second moments alone.

The first is the default where outcome and features are categories. Its intervals hold privacy noise, sampling, and what
three columns may do together (`dprelease.estimators.log_linear`).

The second takes numbers too. It is Fisher's discriminant, which is what the corrected linear fit of a 0/1 outcome is. With b the
least squares slopes of the indicator y, pi its mean and R^2 their share of variance explained,

    beta = b / (pi (1 - pi) (1 - R^2)),
    beta_0 = log(pi / (1 - pi)) - beta' xbar - (1/2 - pi) R^2 / (pi (1 - pi) (1 - R^2))

are slopes and intercept of linear discriminant analysis, exactly, whatever the data: b = pi (1 - pi) S_w^-1 d / (1 + pi (1 - pi)
D^2) with d the difference of the class means, S_w the covariance within classes, D^2 = d' S_w^-1 d and 1 - R^2 = 1 / (1 + pi (1 -
pi) D^2). They are the logistic coefficients where features are normal with one covariance within the classes, and near them where
effects are moderate. R^2 < 1 in every draw, which it need not be on the released matrix.

Source: Haggstrom 1983, Logistic regression and discriminant analysis by ordinary least squares, J. Business and Economic
Statistics 1(3); Efron 1975, JASA 70(352), for the efficiency of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.combinations import NO_THREE, design, estimated, facts_of, law_of, without_ends
from dprelease.analyses.draws import draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.least_squares import LeastSquares, least_squares
from dprelease.analyses.result import Analysis, repeatable
from dprelease.analyses.weighted_logit import LARGEST, Logit
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.log_linear import LogLinear
from dprelease.release.release import Release

LARGEST_EXPLAINED, LEAST_SHARE = 0.3, 0.05


By = Literal["model", "moments"]
"""Ways to fit: on the law of the named categories, or by the linear discriminant."""

THIN = 60.0
"""Patients in units of the noise of a number of patients, below which intervals are several times those of real rows."""


@repeatable
def logistic(release: Release, outcome: str, on: Sequence[str], by: By | None = None) -> Analysis:
    """Logistic regression of an indicator on features.

    Tables: ``coefficients``, ``odds ratios`` (per unit of a feature) and ``intercept``. By the model they hold noise and sampling
    and are tested. By moments the intercept holds noise only, and no interval holds the error of the approximation, so there are
    no p-values.

    Args:
        release: a verified release of joint moments.
        outcome: a binary, or a level of a category.
        on: features.
        by: "model" where outcome and features are categories, else "moments"; None chooses so.

    Raises:
        InvalidInput: an unknown name, an outcome that is a number, no moments, noise hides how the columns vary, a feature decides
            the outcome, or by the model: features are numbers, or nearly follow from one another.
    """
    y = number(release, outcome)
    if not release.column(y).indicators:
        raise InvalidInput(f"{outcome} is a number, and logistic regression explains a binary or a level of a category")
    x = features(release, on)
    if by is None:
        by = "model" if all(release.column(name).indicators for name in x) else "moments"
    return _by_model(release, y, on) if by == "model" else _by_moments(release, y, x)


def _by_model(release: Release, y: str, on: Sequence[str]) -> Analysis:
    law = law_of(release, (y,), features(release, on))
    yes = law.has(y)
    share = f"{law.shares @ yes:.4g} have {y}"
    return on_law(release, law, yes, on, Logit, f"Logistic regression of {y}", {"share": share})


def on_law(
    release: Release,
    law: LogLinear,
    outcome: Floats,
    on: Sequence[str],
    model: type[Logit],
    title: str,
    facts: Mapping[str, str],
) -> Analysis:
    """A regression by maximum likelihood on the law of outcome and features.

    Args:
        release: the release.
        law: of outcome and features.
        outcome: (C,) its value in each combination.
        on: features.
        model: family and link.
        title: of the analysis.
        facts: of the outcome.

    Raises:
        InvalidInput: noise hides how a feature varies, or features nearly follow from one another.
    """
    x = design(release, law, (outcome > 0).astype(float), on)
    inflation = x.check_inflation(law.shares)
    fit = model.of(x.matrix, law.shares, law.shares * outcome)
    influence = fit.influence(x.matrix, outcome)
    hidden, of_first = x.hidden(law, outcome, model.others(outcome))
    slopes = estimated(law, x.names[1:], fit.coef[1:], influence[:, 1:], tested=True, counts=hidden)
    caveats = [*without_ends(slopes), "Effects of two features together on the outcome are not in the model.", NO_THREE]
    if law.patients < THIN * law.noise:
        caveats.append(
            f"There are {law.patients / law.noise:.0f} patients for each patient of noise: intervals are 2 to 11 times as long "
            "as those of real rows."
        )
    return Analysis(
        title,
        release,
        tuple(column.name for column in law.columns),
        {
            "coefficients": slopes,
            f"{model.ratio}s": replace(slopes, link="log"),
            "intercept": estimated(law, ("intercept",), fit.coef[:1], influence[:, :1], counts=of_first),
        },
        caveats=tuple(caveats),
        facts={**facts, **x.facts, "inflation": f"{inflation:.2f} at most", **facts_of(law)},
        of_counts=True,
    )


def _by_moments(release: Release, y: str, x: tuple[str, ...]) -> Analysis:
    draws = draws_of(release, (y, *x))
    x = draws.present(x)
    linear = least_squares(draws, y, x)
    explained, part = float(np.median(linear.explained)), float(np.median(linear.outcome_mean))
    # D^2 / 2 is the log odds that the features add for the middle of a class, in any unit.
    if explained > 2 * LARGEST * part * (1 - part) * (1 - explained):
        raise InvalidInput("a feature decides the outcome, and no odds ratio is finite; leave it out")
    shown = (
        "sums of products do not show it"
        if release.first_ranges is None
        else "the quantiles of the first round show such features (learner describe)"
    )
    caveats = [
        *draws.caveats,
        "Approximate: exact where features are normal with equal covariances within both classes. Skewed features can put "
        f"coefficients off by half, and {shown}. Ranking by the fitted score suffers less.",
        "Intervals hold noise and sampling, not the error of this approximation; so there are no p-values.",
    ]
    if explained > LARGEST_EXPLAINED:
        caveats.append(
            f"The linear fit explains {explained:.2f} of the variance, more than {LARGEST_EXPLAINED}: do not believe sizes."
        )
    if min(part, 1 - part) < LEAST_SHARE:
        caveats.append(f"{part:.3f} of the patients have {y}: for shares this near 0 or 1 do not believe sizes.")
    return Analysis(
        f"Logistic regression of {y}, approximate (discriminant analysis)",
        release,
        draws.names,
        tables_of(draws, lambda draws: _tables(least_squares(draws, y, x))),
        caveats=tuple(caveats),
        facts={"share": f"{part:.4g} have {y}", "R-squared": f"{explained:.3g} of the linear fit"},
    )


def _tables(linear: LeastSquares) -> dict[str, Estimates]:
    share = linear.variance  # of a 0/1 variable: pi (1 - pi)
    correction = 1 / (share * (1 - linear.explained))
    beta, errors = linear.coef * correction[:, None], linear.errors() * correction[:, None]
    pi = linear.outcome_mean
    start = np.log(pi / (1 - pi)) - (beta * linear.feature_mean).sum(axis=1)
    start -= (0.5 - pi) * linear.explained * correction
    slopes = Estimates(linear.features, beta, errors)
    return {
        "coefficients": slopes,
        "intercept": Estimates(("intercept",), start[:, None]),
        "odds ratios": replace(slopes, link="log"),
    }
