"""Coefficients about all rows out of clipped ones: what clipping may have taken is a bias of known size.

Columns a and b keep the parts s_a and s_b of slopes on them. If a relation is the same in the tails as elsewhere, clipping takes at
most D_ab = |C_ab| (1/(s_a s_b) - 1) from the covariance C_ab, an estimate. Slopes v = C_xx^-1 C_xy move by
C_xx^-1 (dC_xy - dC_xx v), to first order. Neither signs nor sizes of the dC_ab within D_ab are known, and none follows from
another. So w is the root of the sum of their squared effects, in which C_kl = C_lk is one. With S = C_xx^-1,

    w_j^2 = sum_k (S_jk D_ky)^2 + sum_k (S_jk D_kk v_k)^2 + sum_{k<l} D_kl^2 (S_jk v_l + S_jl v_k)^2.

Features that go together move one another's slopes, and D_jy alone, |v_j| (1/(s_y s_j) - 1), misses that. The sum of the
effects' sizes would be a bound if the D_ab are. It makes intervals longer by a third, and is not needed (docs/methods.md,
"Reach"). Parts s_a s_b below `LEAST_KEPT` count as `LEAST_KEPT`. If s_y s_j itself is below it, or the tail of y
or x_j is in no count, Cauchy's inequality bounds the slope:

    |slope| <= sd(y) / sd(x given the other features),

so that w is |v| and this bound. Clipping makes spreads smaller, so the x of clipped rows errs on the long side. So does
sd(y) as clipped over s_y; of a y in whose tail nothing is seen it is the spread that counts and public bounds leave open.

An intercept is off by what clipping moves the means of y and of the features, the latter times their slopes, and by what it takes
from slopes times these means.

Source: `dprelease.release.reaches`; `dprelease.estimators.intervals.estimates` has the intervals around such a bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.design import Design
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.one_line import listed
from dprelease.release.reaches import LEAST_KEPT, Reach

WIDER = "intervals are wider by what clipping may take, which is estimated"
MISSED = (
    "The estimate misses slopes that change in the tail, and extreme values of so few patients that noise hides them."
)
HIDDEN = "counts and public bounds alone bound what depends on it, by a wide interval"


def taken(
    estimates: Floats,
    names: Design,
    view: NoisyMoments,
    reaches: Mapping[str, Reach],
    points: Floats,
    *,
    intercept: bool,
) -> tuple[Floats, Floats]:
    """(l, d) w of slopes and (m, l) of the fit at points; NaN where nothing was learned.

    Args:
        estimates: (l, d) slopes as clipped, original units.
        names: targets and features.
        view: moments of them.
        reaches: number to how far it reaches.
        points: (m, d) in original units; an intercept is the fit at 0.
        intercept: whether there is one.
    """
    columns = (names.targets, names.features)
    outcome, feature = (np.array([reaches[name].kept if name in reaches else 1.0 for name in each]) for each in columns)
    spreads = np.array([reaches[name].spread if name in reaches else np.inf for name in names.targets])
    unit = names.target_half_width[:, None] / names.feature_half_width
    of = Clipped.of(view, names.target_index, names.feature_index, intercept=intercept)
    wider = np.abs(unit) * of.lost(estimates / unit, outcome, feature, spreads / np.abs(names.target_half_width))
    means = [np.array([_mean(view, name) for name in each]) for each in columns]
    moved = [
        np.array([moved_by(reaches.get(name), mean) for name, mean in zip(each, own, strict=True)])
        for each, own in zip(columns, means, strict=True)
    ]
    return wider, moved[0] + np.abs(estimates) @ moved[1] + np.abs(points - means[1]) @ wider.T


def lost(estimates: Floats, outcomes: Floats, features: Floats, most: Floats) -> Floats:
    """(l, d) what clipping may have taken from covariances or slopes one by one; NaN where they are.

    Args:
        estimates: (l, d) of clipped rows.
        outcomes: (l,) kept parts.
        features: (d,) kept parts.
        most: (l, d) sizes that Cauchy's inequality allows, in the same units.
    """
    few = np.outer(outcomes, features) < LEAST_KEPT
    return np.where(few, np.abs(estimates) + most, _cut(estimates, outcomes, features))


def _cut(estimates: Floats, outcomes: Floats, features: Floats) -> Floats:
    parts = np.maximum(np.outer(outcomes, features), LEAST_KEPT)
    return np.abs(estimates) * (1 / parts - 1)


@dataclass(frozen=True, eq=False)
class Clipped:
    """Covariances of clipped rows, in scaled units: (d, d) among features, (l, d) of targets with them, (l,) targets' variances."""

    among: Floats
    across: Floats
    own: Floats

    @classmethod
    def of(cls, view: NoisyMoments, targets: Sequence[int], features: Sequence[int], *, intercept: bool) -> Clipped:
        """Covariances of l targets and d features, by their places in the matrix; about 0 without an intercept."""
        mean = view.gram / view.rows
        if intercept:
            mean = mean - np.outer(mean[0], mean[0])
        return cls(mean[np.ix_(features, features)], mean[np.ix_(targets, features)], mean[targets, targets])

    @cached_property
    def inverse(self) -> Floats:
        """(d, d) of the features' covariances."""
        return np.asarray(np.linalg.pinv(self.among, hermitian=True), dtype=np.float64)

    def lost(self, slopes: Floats, outcomes: Floats, features: Floats, spreads: Floats) -> Floats:
        """(l, d) w of slopes; NaN where they are.

        Args:
            slopes: (l, d) of clipped rows.
            outcomes: (l,) kept parts.
            features: (d,) kept parts.
            spreads: (l,) the largest root mean square distances of the targets from 0.
        """
        with_outcomes, among = _cut(self.across, outcomes, features) ** 2, _cut(self.among, features, features) ** 2
        others = among - np.diag(among.diagonal())
        twice = np.array([(((path := self.inverse * own) @ others) * path).sum(axis=1) for own in slopes])
        squares = (with_outcomes + slopes**2 @ among) @ self.inverse**2 + twice
        carried = np.sqrt(np.maximum(squares, 0.0))
        few = np.outer(outcomes, features) < LEAST_KEPT
        return np.where(few, np.abs(slopes) + self.steepest(outcomes, spreads), carried)

    def steepest(self, outcomes: Floats, spreads: Floats) -> Floats:
        """(l, d) bounds of the slopes' sizes; NaN where the features cannot be told from noise.

        Args:
            outcomes: (l,) kept parts.
            spreads: (l,) the largest root mean square distances of the targets from 0.
        """
        seen = np.sqrt(np.maximum(self.own, 0.0)) / np.maximum(outcomes, LEAST_KEPT)
        alone = self.inverse.diagonal()
        return np.outer(np.where(outcomes < LEAST_KEPT, spreads, seen), np.sqrt(np.where(alone > 0, alone, np.nan)))


def moved_by(reach: Reach | None, mean: float) -> float:
    """How far clipping may have moved a mean: the root mean square of what both rounds leave open.

    The first round says that it is the centre less the mean, with an error. Before it is heard, a move has the mean 0 and the
    standard deviation `Reach.shift`, or as much more as the rounds disagree beyond that error.
    """
    if reach is None:
        return 0.0
    apart, noise = reach.centre - mean, reach.error**2
    before = max(reach.shift**2, apart**2 - noise)
    told = before / (before + noise) if before else 0.0
    return math.hypot(told * apart, math.sqrt(told * noise)) + (reach.spread if reach.hidden else 0.0)


def _mean(view: NoisyMoments, name: str) -> float:
    """Mean of a released column as clipped, original units."""
    place, middle, half_width = view.lookup(name)
    return float(middle + half_width * view.gram[0, place] / view.rows)


def notes(reaches: Sequence[Reach]) -> tuple[str, ...]:
    """Sentences on which rows coefficients are about; none in public bounds."""
    if not reaches:
        return ()
    return (
        f"Coefficients describe all rows; {WIDER}.",
        "z, t and P test the estimate less that width. z is not the estimate over its error, and P is not twice the tail beyond z.",
        *tails(reaches),
        "Variance explained and mean squared errors describe clipped rows.",
        MISSED,
    )


def tails(reaches: Sequence[Reach]) -> tuple[str, ...]:
    """Sentences on what is not known of how much clipping may take, beside `MISSED`."""
    hidden = [each.name for each in reaches if each.hidden]
    return (
        *([f"Noise hides the tail of {listed(hidden)}: {HIDDEN}."] if hidden else []),
        *(
            ["Tails are guessed from means and spreads, because this release has no counts of its own."]
            if not all(each.counted for each in reaches)
            else []
        ),
    )
