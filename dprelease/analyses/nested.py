"""F tests of nested linear models, the share of variance that features add, and variance inflation.

Coefficients and their intervals are those of `dprelease.estimators.fit`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.least_squares import least_squares, on_covariance
from dprelease.analyses.result import Analysis, repeatable
from dprelease.analyses.score_test import are_zero
from dprelease.errors import InvalidInput
from dprelease.estimators.intervals.inference import EQUAL_SPREAD
from dprelease.release.release import Release


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
        (
            *draws.caveats,
            EQUAL_SPREAD,
            "A test after features were chosen on this release finds too much.",
        ),
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
