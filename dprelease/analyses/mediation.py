"""Mediation in linear models: how much of an effect runs through another column.

With a the coefficient of the exposure for the mediator, and b that of the mediator and c' that of the exposure for the outcome,
covariates in all models, the indirect effect is a b, the direct one c' and the total one a b + c'. The sampling error of a b is
Sobel's, (a^2 s_b^2 + b^2 s_a^2)^(1/2).

Source: Sobel 1982, Asymptotic confidence intervals for indirect effects, Sociological Methodology 13.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.least_squares import least_squares
from dprelease.analyses.result import Analysis, repeatable
from dprelease.release.release import Release


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
        tables_of(draws, lambda draws: _tables(draws, y, x, m, w)),
        caveats=(
            *draws.caveats,
            "An effect only if nothing that is left out acts on two of the three columns; no data show that.",
            "Exposure and mediator are taken not to interact: their product would have to be declared before the release.",
            "Sobel's interval is symmetric and errs on the long side where both paths are weak.",
        ),
        facts={"given": ", ".join(w)} if w else {},
    )


def _tables(draws: Draws, y: str, x: str, m: str, w: Sequence[str]) -> dict[str, Estimates]:
    first, second, whole = (least_squares(draws, *model) for model in ((m, (x, *w)), (y, (m, x, *w)), (y, (x, *w))))
    a, s_a, b, s_b = first.coef[:, 0], first.errors()[:, 0], second.coef[:, 0], second.errors()[:, 0]
    location = np.column_stack([a * b, second.coef[:, 1], whole.coef[:, 0]])
    scale = np.column_stack([np.hypot(a * s_b, b * s_a), second.errors()[:, 1], whole.errors()[:, 0]])
    paths = (f"{x} to {m}", f"{m} to {y}")
    return {
        "effects": Estimates(("indirect", "direct", "total"), location, scale, tested=True),
        "paths": Estimates(paths, np.column_stack([a, b]), np.column_stack([s_a, s_b]), tested=True),
    }
