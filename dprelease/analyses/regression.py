"""Linear regression beside its coefficients: standardised ones, variance inflation, and F tests of nested models.

Coefficients with intervals that need no prior are those of `dprelease.estimators.fit`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.analyses.draws import draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.least_squares import least_squares, on_covariance
from dprelease.analyses.result import Analysis
from dprelease.analyses.score_test import are_zero
from dprelease.errors import InvalidInput
from dprelease.release.release import Release


def regression(release: Release, outcome: str, on: Sequence[str], without: Sequence[str] = ()) -> Analysis:
    """Linear regression of one column on others, and whether some of them can be left out.

    Tables: ``coefficients`` and ``standardised coefficients`` (in standard deviations of outcome and feature, which are taken as
    known; noise and sampling), ``variance inflation`` and ``explained`` (R^2, and the part of it that `without` adds; noise only).
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
    rest = [name for name in x if name not in tested]
    model = least_squares(draws, y, x)
    spread = np.sqrt(np.einsum("tii->ti", draws.covariance))
    inner = draws.places(x)
    ratio = spread[:, inner] / spread[:, draws.places([y])]
    standard = Estimates(x, model.coef * ratio, model.errors() * ratio, model.degrees, tested=True)
    inflation = np.einsum("tii->ti", model.inverse) * spread[:, inner] ** 2
    explained = {"R-squared": model.explained}
    tests = {"all coefficients are 0": are_zero(draws, y, x, x)}
    if tested:
        smaller = on_covariance(draws.mean, draws.covariance, 0, draws.places(rest), tuple(rest), draws.patients)
        explained[f"of it, by {', '.join(tested)}"] = model.explained - smaller.explained
        tests[f"the coefficients of {', '.join(tested)} are 0"] = are_zero(draws, y, x, tested)
    return Analysis(
        f"Linear regression of {y}",
        release,
        {
            "coefficients": model.slopes(),
            "standardised coefficients": standard,
            "variance inflation": Estimates(x, inflation),
            "explained": Estimates(tuple(explained), np.column_stack(list(explained.values()))),
        },
        tests,
        (
            *draws.caveats,
            "A test after features were chosen on this release finds too much.",
        ),
    )
