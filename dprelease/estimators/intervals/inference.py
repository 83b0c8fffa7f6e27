"""Standard errors and confidence intervals of the population's least-squares coefficients.

The target of estimation is the population's least squares, clipped to the public bounds as the released values are. Errors
have three sources, all of them known: patients are a sample, they are mixed with random signs, and privacy noise is added.
`of_rows` and `of_moments` add them up for either kind of release. The estimate in the middle of an interval is
free of the attenuation by noise, to second order. It is not the default model, which shrinks to predict well and is therefore
biased, and has no interval of its own.

If the features' signal is below a threshold (`PopulationFit`) nothing was learned about any coefficient, and nothing is
claimed. Further up, intervals have their nominal coverage, near the threshold a little more (`PopulationFit` has the
numbers). An interval is the set of values that a test at the same level does not reject (`ProfiledEstimates`). The test of a
value takes the variance that the estimate would have if that value were true. So an interval is longer on the side of steeper
slopes, and may have no end there.

If a level that hardly anybody has is all that hides the features, it is counted with the reference level (`sparse_levels`).

Residual variances are taken to be the same everywhere, as released numbers do not tell more. If they are not, the part of an
error that is due to sampling is wrong, and intervals can be too short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.document.cells import LEVEL
from dprelease.estimators.design import Design, design
from dprelease.estimators.intervals.clipped import notes, taken
from dprelease.estimators.intervals.estimates import LIMIT, Inferred, PopulationFit, ProfiledEstimates
from dprelease.estimators.intervals.of_moments import learned_from_moments
from dprelease.estimators.intervals.of_rows import learned_from_rows
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.one_line import listed
from dprelease.release.reaches import Reach
from dprelease.release.release import Release

EQUAL_SPREAD = (
    "Errors, intervals and P assume equal residual spread; the release cannot check this. A long tail of the outcome makes unequal "
    "spread likely."
)
"""Said with every slope that has an error: sums of squared residuals times products of features are of fourth order."""
Predicted = Literal["confidence", "prediction"]
"""Kind of an interval of a prediction: of the mean of patients with such features, or of one of them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Inference(Inferred):
    """Population least squares of l targets on d features: their coefficients, (l, d), and what goes with them.

    Attributes:
        intercepts: (l,) the same of the intercepts.
        identified: (l,) whether the features' signal is above the threshold.
        noise_to_signal: how far noise moves the features' second moments in the worst direction, as a part of them.
        unidentified: features to leave out for the coefficients of the others to be identified; empty where all are.
        at: (m, l) the fit at points that were asked for.
        residual: (2, l) variance of the outcomes about the population's least squares, and the standard error of it.
        reaches: how far each private number reaches, and what slopes keep of it; empty in public bounds.
        merged: features that are counted with the reference of their category, and its values; nothing is known of their own
            coefficients, and the others are those of a fit without them.
    """

    intercepts: Inferred
    identified: npt.NDArray[np.bool_]
    noise_to_signal: float
    unidentified: tuple[str, ...]
    at: Inferred
    residual: Floats
    reaches: tuple[Reach, ...] = ()
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def predicted(self, interval: Predicted, level: float = LEVEL) -> tuple[Floats, Floats, Floats]:
        """(fit, lower, upper) at the points that were asked for, each (m, l).

        ``confidence`` holds the mean of patients with such features, where that is linear in them. ``prediction`` holds one such
        patient. Its ends are those of the mean, moved out by the spread of residuals: sqrt(a^2 + b^2) with a the distance of an
        end of the mean, and b^2 = t^2 (s^2 + (t^2 + 1) e^2 / 4 s^2) for a quantile t and the estimate s^2 of their variance, whose
        error is e. The second part makes up for that error to second order, as Student's quantiles do.

        Source: Zou and Donner (2008, Stat. Med. 27, 1693), for sums whose parts have intervals; Satterthwaite (1946).

        Raises:
            InvalidInput: the level does not lie between 0 and 1.
        """
        fit, (lower, upper) = self.at.estimate, self.at.interval(level)
        if interval == "prediction":
            squared, (variance, error) = self._quantile(level) ** 2, self.residual
            more = np.divide((squared + 1) / 4 * error**2, variance, out=np.zeros_like(error), where=variance > 0)
            spread = np.sqrt(squared * (variance + more))
            lower, upper = fit - np.hypot(fit - lower, spread), fit + np.hypot(upper - fit, spread)
        return fit, lower, upper

    @property
    def bounded(self) -> npt.NDArray[np.bool_]:
        """(l, d) whether the intervals at `LEVEL` have two ends; they have none where nothing was learned."""
        lower, upper = self.interval()
        return ~(np.isinf(lower) | np.isinf(upper))

    @property
    def statement(self) -> str:
        """Empty where something was learned, else what was not, in plain words, and what would help."""
        if self.identified.all():
            return ""
        if len(self.unidentified) == self.estimate.shape[1]:
            return (
                "No coefficient is identified: the privacy noise is too large compared with the variation in the features. "
                "More patients, a larger epsilon or narrower public bounds would help."
            )
        what = "it" if len(self.unidentified) == 1 else "them"
        return (
            "Individual coefficients are not identified: the privacy noise is too large compared with the variation in "
            f"{listed(self.unidentified)}. The others can be estimated without {what}, and are then not adjusted for {what}."
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences on what is counted with a reference level, and on what errors assume; none where there is neither."""
        pairs = [f"{name} with {' and '.join(reference)}" for name, reference in self.merged.items()]
        told = "Counted together, as one of the two has too few patients for the noise"
        return (
            *([f"{told}: {', '.join(pairs)}."] if pairs else []),
            *([EQUAL_SPREAD] if self.identified.any() else []),
        )

    @property
    def clipping_notes(self) -> tuple[str, ...]:
        """Effects of clipping on the coefficients, in sentences; none in public bounds."""
        return notes(self.reaches)

    def among(self, features: Sequence[str], kept: Sequence[str], merged: Mapping[str, tuple[str, ...]]) -> Inference:
        """The same in a fit of more features, of whose own coefficients nothing is known."""
        places = [features.index(name) for name in kept]

        def spread(values: Floats) -> Floats:
            found = np.full((len(values), len(features)), np.nan)
            found[:, places] = values
            return found

        profiled = ProfiledEstimates(*(spread(each) for each in vars(self.profiled).values()))
        return replace(self, profiled=profiled, wider=None if self.wider is None else spread(self.wider), merged=merged)


def infer(release: Release, names: Design, *, intercept: bool, points: Floats | None = None) -> Inference:
    """Inference about some regressions from a release, whatever method fits them.

    Args:
        release: a verified release.
        names: targets and features.
        intercept: whether there is one; without it models pass through the midpoints of the public ranges.
        points: (m, d) features of patients to predict for, original units; None for nobody.
    """
    points = np.zeros((0, len(names.features))) if points is None else points
    found = _of_features(release, names, points, intercept=intercept)
    if found.identified.all() or not intercept:
        return found
    for merged in sparse_levels(release, names):
        kept = [name for name in names.features if name not in merged]
        if merged and kept:
            places = [names.features.index(name) for name in kept]
            others = _of_features(release, design(release, names.targets, kept), points[:, places], intercept=intercept)
            if others.identified.all():
                return others.among(names.features, kept, merged)
    return found


def _of_features(release: Release, names: Design, points: Floats, *, intercept: bool) -> Inference:
    learned = _learned(release, names, points, intercept=intercept)
    found = in_units(learned, names)
    # What an estimate at a point differs by from the estimated line is of the order of what both leave out.
    line = points @ found.estimate.T + found.intercepts.estimate
    at = replace(found.at, profiled=replace(found.at.profiled, value=line))
    if not release.reaches:
        return replace(found, at=at)
    reaches = {each.name: each for each in release.reaches}
    points = np.vstack([np.zeros(points.shape[1]), points])
    wider, moved = taken(found.estimate, names, release.moments(), reaches, points, intercept=intercept)
    intercepts, at = replace(found.intercepts, wider=moved[0]), replace(at, wider=moved[1:])
    return replace(found, wider=wider, intercepts=intercepts, at=at, reaches=release.reaches)


def _learned(release: Release, names: Design, points: Floats, *, intercept: bool) -> PopulationFit:
    view, repeats = release.regressable, release.spec.rows_per_subject
    x, y, middle, half_width = names.feature_index, names.target_index, names.feature_midpoint, names.feature_half_width
    at = (np.vstack([np.zeros(points.shape[1]), points]) - middle) / half_width
    if isinstance(view, NoisyRows):
        rows = RegressionRows.of(view, x, y, mixed=view.mixed, engine=release.engine)
        return learned_from_rows(rows, view.rows, at, intercept=intercept, repeats=repeats)
    return learned_from_moments(view, x, y, at, intercept=intercept, repeats=repeats)


def in_units(learned: PopulationFit, names: Design) -> Inference:
    """From scaled to original units; below the threshold numbers are withheld, lest somebody uses them."""
    identified, width = learned.noise_ratio < LIMIT, names.target_half_width
    blank = 1.0 if identified else np.nan
    intercepts, at = (each.in_units(blank * width, names.target_midpoint) for each in (learned.offsets, learned.at))
    return Inference(
        learned.weights.transposed.in_units(blank * (width[:, None] / names.feature_half_width)),
        learned.degrees,
        intercepts=Inferred(intercepts, learned.degrees),
        identified=np.full(len(names.targets), identified),
        noise_to_signal=learned.noise_ratio,
        unidentified=tuple(names.features[place] for place in learned.dropped),
        at=Inferred(at, learned.degrees),
        residual=blank * width**2 * learned.residual,
    )


HIDDEN = 3.0
"""Standard deviations of its noise up to which a share of patients is taken to be hidden."""
MOST = 0.1
"""Share of the patients that a level reaches at most, two standard deviations of noise above what is seen."""
_LEAST = 1e-12
Levels = tuple[str, ...]


def sparse_levels(release: Release, names: Design) -> Iterator[dict[str, Levels]]:
    """Features to count with the reference level of their category, and the values that are its reference, in steps.

    The indicator of a level that nobody has is 0, and the indicators of all levels but a reference that nobody has add up to 1.
    Noise leaves neither so, and then no coefficient of the fit is known, although those of all other features are what they would
    be without the level. The same is nearly so of a level that hardly anybody has: counted with the reference, few patients move.

    First all rare levels whose share noise hides, then one more after another, the next in standard deviations of its
    noise. If the reference itself is rare, the commonest level takes its place.

    Args:
        release: a verified release.
        names: the features of a fit with an intercept.
    """
    columns = (release.column(name) for name in names.features)
    shares: dict[Levels, tuple[float, float]] = {}
    groups: list[tuple[Levels, list[Levels]]] = []
    for column in dict.fromkeys(columns):
        reference = tuple(name for name in column.released if name not in names.features)
        own: list[Levels] = [(name,) for name in column.released if name in names.features]
        if reference:
            groups.append((reference, own))
            shares |= {level: _share(release, level) for level in (reference, *own)}
    seen = {level: share / max(sd, _LEAST) for level, (share, sd) in shares.items() if share + 2 * sd <= MOST}
    ordered = sorted(seen, key=lambda level: seen[level])
    for count in range(sum(each <= HIDDEN for each in seen.values()), len(ordered) + 1):
        rare, merged = set(ordered[:count]), dict[str, Levels]()
        for reference, own in groups:
            replaced = max(own, key=lambda level: shares[level]) if reference in rare else ()
            merged |= {level[0]: reference for level in own if level in rare or level == replaced}
        yield merged


def _share(release: Release, names: Levels) -> tuple[float, float]:
    """(released share of the patients who have one of these values, standard deviation of its noise)."""
    view = release.regressable
    index, midpoint, half_width = map(np.array, zip(*map(view.lookup, names), strict=True))
    mean, noise_sd = (each[index] for each in view.means())
    return float((midpoint + half_width * mean).sum()), float(np.hypot.reduce(half_width * noise_sd))
