"""Correlations and partial correlations of several columns, given others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import stdtr

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.before_clipping import standardised
from dprelease.release.release import Release


@dataclass(frozen=True, eq=False)
class Correlations(Estimates):
    """Correlations on Fisher's scale; p-values by Student's law of r sqrt(f / (1 - r^2)), exact for normal columns.

    Attributes:
        residual: f, degrees of freedom of that.
    """

    residual: int = 0

    def _tail(self, location: Floats, scale: Floats) -> Floats:
        del scale
        # r / sqrt(1 - r^2), which far ends of Fisher's scale do not overflow.
        found: Floats = stdtr(self.residual, np.sqrt(self.residual) * np.sinh(np.clip(location, -_FAR, _FAR)))
        return found


@repeatable
def correlations(release: Release, columns: Sequence[str], given: Sequence[str] = ()) -> Analysis:
    """Correlations of every two of some columns, given others.

    Table: ``correlations``; noise, and sampling by Fisher's z.

    Args:
        release: a verified release of joint moments.
        columns: two or more numbers or indicators.
        given: what is held fixed: correlations are those of residuals on these.

    Raises:
        InvalidInput: an unknown name, fewer than two columns, no moments, or noise hides how they vary.
    """
    names = tuple(number(release, name) for name in columns)
    fixed = features(release, given) if given else ()
    if len(names) < 2:
        raise InvalidInput("a correlation needs at least two columns")
    draws = draws_of(release, (*names, *fixed))
    fixed = draws.present(fixed)
    for name in names:
        draws.check_seen([name])
    if fixed:
        draws.check_seen(fixed)
    return Analysis(
        "Partial correlations" if fixed else "Correlations",
        release,
        draws.names,
        tables_of(draws, lambda draws: {"correlations": _between(draws, names, fixed)}),
        caveats=(
            *draws.caveats,
            "Fisher's law is for normal columns: of skewed ones, and of indicators, intervals may be too short.",
            "If noise hides a correlation, it falls towards 0: a small one with a wide interval is not a proof of none.",
        ),
        facts={"given": ", ".join(fixed)} if fixed else {},
    )


def _between(draws: Draws, names: Sequence[str], fixed: Sequence[str]) -> Correlations:
    inner, outer = draws.places(names), draws.places(fixed)
    covariance = draws.covariance[:, inner][:, :, inner]
    if fixed:
        across = draws.covariance[:, inner][:, :, outer]
        within = draws.covariance[:, outer][:, :, outer]
        covariance = covariance - across @ np.linalg.solve(within, across.transpose(0, 2, 1))
    matrix = np.clip(standardised(covariance)[0], -_CLOSE, _CLOSE)
    pairs = list(combinations(range(len(names)), 2))
    location = np.arctanh(np.column_stack([matrix[:, i, j] for i, j in pairs]))
    scale = np.full_like(location, 1 / np.sqrt(draws.patients - len(fixed) - 3))
    shown = tuple(f"{names[i]}, {names[j]}" for i, j in pairs)
    return Correlations(shown, location, scale, link="fisher", tested=True, residual=draws.patients - len(fixed) - 2)


_CLOSE = 1 - 1e-12
_FAR = 700.0
