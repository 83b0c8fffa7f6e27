"""Coefficients about all rows out of clipped ones: intervals are wider by what clipping may take.

A slope v of y on x whose columns keep the parts s_y and s_x may be off by w = |v| (1/(s_y s_x) - 1). A tail that no count shows, or
of which less is kept than `LEAST_KEPT`, leaves an interval no end. An intercept is off by what clipping moves the means of y
and of the features, the latter times their slopes, and by what it takes from slopes times these means. Source:
`dprelease.release.reaches`, docs/methods.md, "Reach".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dprelease.estimators.design import Design
from dprelease.estimators.intervals.fieller import Estimates
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.one_line import listed
from dprelease.release.reaches import LEAST_KEPT, Reach
from dprelease.release.release import Floats

WIDER = "intervals are wider by w on either side for what clipping may take, an estimate"
MISSED = (
    "w misses a slope that is another one in the tail, and extreme values of so few patients that noise hides them."
)


def taken(estimates: Floats, names: Design, view: NoisyMoments, reaches: Mapping[str, Reach]) -> tuple[Floats, Floats]:
    """(l, d) w of slopes, infinite where nothing bounds them, and (l,) of intercepts; NaN where nothing was learned.

    Args:
        estimates: (l, d) slopes as clipped, original units.
        names: targets and features.
        view: moments of them.
        reaches: number to how far it reaches.
    """
    columns = (names.targets, names.features)
    outcome, feature = (np.array([reaches[name].kept if name in reaches else 1.0 for name in each]) for each in columns)
    slopes, wider = np.abs(estimates), lost(estimates, outcome, feature)
    means = [np.array([_mean(view, name) for name in each]) for each in columns]
    moved = [
        np.array(
            [abs(reaches[name].centre - mean) if name in reaches else 0.0 for name, mean in zip(each, own, strict=True)]
        )
        for each, own in zip(columns, means, strict=True)
    ]
    return wider, moved[0] + slopes @ moved[1] + wider @ np.abs(means[1])


def lost(estimates: Floats, outcomes: Floats, features: Floats) -> Floats:
    """(l, d) w of slopes; NaN where they are.

    Args:
        estimates: (l, d) slopes as clipped.
        outcomes: (l,) kept parts.
        features: (d,) kept parts.
    """
    parts = np.outer(outcomes, features)
    taken = np.divide(1.0, parts, out=np.full_like(parts, np.inf), where=parts >= LEAST_KEPT) - 1
    found: Floats = np.where(np.isinf(taken), np.inf, np.abs(estimates) * np.where(np.isinf(taken), 0.0, taken))
    return found + 0 * estimates


def _mean(view: NoisyMoments, name: str) -> float:
    """Mean of a released column as clipped, original units."""
    place, middle, half_width = view.lookup(name)
    return float(middle + half_width * view.gram[0, place] / view.rows)


def less(of: Estimates, wider: Floats | None) -> Floats:
    """Ratios of estimates that are nearer to 0 by w."""
    if wider is None:
        return of.ratio
    size = np.abs(of.value)
    left: Floats = np.divide(np.maximum(size - wider, 0.0), size, out=np.zeros_like(size), where=size > 0)
    return of.ratio * left


def ends(of: Estimates, quantile: float, wider: Floats | None) -> tuple[Floats, Floats]:
    """Ends of intervals, wider by w on either side."""
    lower, upper = of.interval(quantile)
    return (lower, upper) if wider is None else (lower - wider, upper + wider)


def notes(reaches: Sequence[Reach]) -> tuple[str, ...]:
    """Sentences on which rows coefficients are about; none in public bounds."""
    if not reaches:
        return ()
    hidden = [each.name for each in reaches if each.hidden]
    return (
        f"All of this is about all rows; {WIDER}.",
        MISSED,
        *([f"Nothing bounds slopes on or of {listed(hidden)}: noise hides the tail."] if hidden else []),
        *(
            ["Tails are guessed from means and spreads, as this release has no counts of its own."]
            if not all(each.counted for each in reaches)
            else []
        ),
        "Shares of variance explained are those of rows as clipped.",
    )
