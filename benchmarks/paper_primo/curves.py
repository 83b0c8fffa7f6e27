"""R^2 of every method against the number of outcomes l, and log-ratios of squared errors against n."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.paper_primo import noise as noises
from benchmarks.paper_primo.data import Features, Single, Sums, growing
from benchmarks.paper_primo.descent import public, repeated, tuned
from benchmarks.paper_primo.fits import Release, by_leverage, naive
from benchmarks.paper_primo.noise import Noise
from benchmarks.paper_primo.projection import project, project_jointly
from dprelease.arrays import Floats
from dprelease.estimators.moments.public_columns import PublicSide
from dprelease.privacy.gaussian import mu_of

METHODS = {
    "ols": ("OLS", "not private"),
    "naive p": ("naive SSP, l times", "full DP"),
    "gauss p": ("ReuseCov-Gauss", "full DP"),
    "gauss feature p": ("ReuseCov-Gauss", "feature-DP"),
    "proj p": ("ReuseCov-Proj", "feature-DP"),
    "proj box p": ("ReuseCov-Proj, radius n R² for √n R", "feature-DP"),
    "proj label p": ("ReuseCov-Proj", "label-DP"),
    "naive": ("naive SSP, l times", "full DP"),
    "descent": ("DP gradient descent, l times, oracle's choices", "full DP"),
    "descent plain": ("DP gradient descent, l times, public choices", "full DP"),
    "gauss": ("ReuseCov-Gauss", "full DP"),
    "gauss ours": ("ReuseCov-Gauss, our ridge", "full DP"),
    "gauss feature": ("ReuseCov-Gauss", "feature-DP"),
    "proj": ("ReuseCov-Proj", "feature-DP"),
    "proj columns": ("projection, every column within its own bound", "feature-DP"),
    "proj ours": ("ours: evidence within bounds, our ridge", "feature-DP"),
    "gauss label": ("ReuseCov-Gauss", "label-DP"),
    "proj label": ("ReuseCov-Proj", "label-DP"),
    "label ours": ("ours: XᵀY, evidence within bounds", "label-DP"),
    "leverage": ("ours: QᵀY, evidence within bounds", "label-DP"),
}
"""Title and guarantee of each; names that end in p are at the paper's noise, the others at corrected noise."""

LOOKED_AT = 8
"""Outcomes of a release that are fitted by the methods that fit one at a time."""
ONE_BY_ONE = frozenset({"naive p", "naive", "descent", "descent plain"})
"""These methods."""
MANY = 1000
"""l beyond which releases share their outcomes, and are half as many."""


@dataclass(frozen=True)
class Target:
    """epsilon and delta of all outcomes together."""

    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        """The budget."""
        return mu_of(self.epsilon, self.delta)


@dataclass
class Point:
    """What came out at one l and one n.

    Attributes:
        data: of the rows.
        rows: n.
        outcomes: l.
        r_squared: method to the mean R^2 over outcomes of each release.
        looked_at: the same over the outcomes that methods fit one at a time: what they are compared on.
        ratio: method to the mean squared error of each release over that of OLS.
        choice: what the oracle of gradient descent chose.
    """

    data: str
    rows: int
    outcomes: int
    r_squared: dict[str, list[float]] = field(default_factory=dict)
    looked_at: dict[str, list[float]] = field(default_factory=dict)
    ratio: dict[str, list[float]] = field(default_factory=dict)
    choice: dict[str, object] = field(default_factory=dict)

    def note(self, method: str, sums: Sums, weights: Floats) -> None:
        """One release more."""
        explained = sums.r_squared(weights)
        self.r_squared.setdefault(method, []).append(float(explained.mean()))
        self.looked_at.setdefault(method, []).append(float(explained[:LOOKED_AT].mean()))
        ratio = float(sums.mse(weights).mean() / sums.mse(sums.least_squares()).mean())
        self.ratio.setdefault(method, []).append(ratio)

    def mean(self, method: str) -> float:
        """Mean R^2."""
        return float(np.mean(self.r_squared[method]))

    def log_ratio(self, method: str) -> float:
        """log of the mean squared error over that of OLS."""
        return math.log(float(np.mean(self.ratio[method])))

    def pair(self, method: str, other: str) -> tuple[Floats, Floats]:
        """R^2 of two methods in each release, on the same outcomes."""
        on = self.looked_at if ONE_BY_ONE & {method, other} else self.r_squared
        return np.array(on[method]), np.array(on[other])

    def gap(self, method: str, other: str) -> tuple[float, float]:
        """By how much a method's mean R^2 is larger, and the standard error; what is fitted to one release is paired."""
        one, two = self.pair(method, other)
        return float((one - two).mean()), _error(one - two) or 0.0

    def log_gap(self, method: str, other: str) -> tuple[float, float]:
        """By how much a method's log-ratio is larger, and the standard error (delta method) given the outcomes."""
        one, two = (np.array(self.ratio[name]) / np.mean(self.ratio[name]) for name in (method, other))
        return self.log_ratio(method) - self.log_ratio(other), _error(one - two) or 0.0

    def ahead(self, method: str, other: str) -> bool:
        """Whether a method's mean R^2 is larger by more than two standard errors."""
        gap, error = self.gap(method, other)
        return gap > 2 * error

    def plain(self) -> dict[str, object]:
        """JSON-ready."""
        found = {
            method: {
                "R2": self.mean(method),
                "se": _error(np.array(values)),
                "R2, outcomes looked at": float(np.mean(self.looked_at[method])),
                "log ratio": self.log_ratio(method),
            }
            for method, values in self.r_squared.items()
        }
        shape = {"data": self.data, "n": self.rows, "l": self.outcomes, "releases": len(self.r_squared["ols"])}
        return {**shape, "oracle's choice": self.choice, "methods": found}


def against_outcomes(
    features: Features, outcomes: Single, counts: Sequence[int], target: Target, releases: int, seed: int
) -> list[Point]:
    """One point for each l; where l is small each release has other outcomes.

    Args:
        features: n rows.
        outcomes: (n, l) for the largest l.
        counts: l.
        target: of all outcomes together.
        releases: of each l up to `MANY`.
        seed: of the noise.
    """
    found = []
    for count in counts:
        random = np.random.default_rng([seed, count])
        point = Point(features.name, len(outcomes), count)
        drawn = releases if count <= MANY else max(2, releases // 2)
        blocks = min(releases if count <= MANY else 1, outcomes.shape[1] // count)
        parts = [outcomes[:, place * count : (place + 1) * count] for place in range(blocks)]
        shared = [Sums.of(features.x, part) for part in parts]
        for release in range(drawn):
            sums = shared[release % blocks]
            release_all(point, features, sums, target, random)
            release_labels(point, features, sums, target, random)
        one_by_one(point, features, [part[:, :LOOKED_AT] for part in parts], target, drawn, random)
        found.append(point)
    return found


def against_rows(
    features: Features, sizes: tuple[int, ...], count: int, target: Target, releases: int, seed: int
) -> list[Point]:
    """One point for each n, of methods that release all outcomes at once.

    Args:
        features: at least as many rows as the last size.
        sizes: n, rising.
        count: l.
        target: of all outcomes together.
        releases: of each n.
        seed: of outcomes and noise.
    """
    random, found = np.random.default_rng([seed, count]), []
    for sums in growing(features, sizes, count, np.random.default_rng([seed, count, 1])):
        point = Point(features.name, sums.rows, count)
        for _ in range(releases):
            release_all(point, features, sums, target, random)
        found.append(point)
    return found


def release_all(point: Point, features: Features, sums: Sums, target: Target, random: np.random.Generator) -> None:
    """Releases under full and feature privacy that cover all outcomes, one of each."""
    (width, count), radius2, rows = sums.xy.shape, features.radius2, sums.rows
    radius, side = math.sqrt(rows * radius2), sums.side()
    reach = radius * math.sqrt(width * float(sums.square.sum()))
    point.note("ols", sums, sums.least_squares())

    noise = noises.published(radius2, count, target.epsilon, target.delta)
    point.note("gauss p", sums, Release.draw(sums, noise, radius2, random).ridged())
    noise = noises.published(radius2, sums.largest2, target.epsilon, target.delta)
    release = Release.draw(sums, noise, radius2, random, public_outcomes=True)
    point.note("gauss feature p", sums, release.ridged())
    point.note("proj p", sums, release.projected(side, radius).ridged(reach))
    point.note("proj box p", sums, release.projected(side, rows * radius2).ridged(reach))

    noise = noises.corrected(features, count, count, target.mu)
    release = Release.draw(sums, noise, radius2, random)
    point.note("gauss", sums, release.ridged())
    point.note("gauss ours", sums, release.posterior())
    noise = noises.corrected(features, count, sums.largest2, target.mu)
    release = Release.draw(sums, noise, radius2, random, public_outcomes=True)
    point.note("gauss feature", sums, release.ridged())
    point.note("proj", sums, release.projected(side, radius).ridged(reach))
    if features.body == "box":
        columns = project(side, release.xy.T, math.sqrt(rows) * features.bound).T
        point.note("proj columns", sums, replace(release, xy=columns).ridged(reach))
    associated, left = release.associated(side, features.bound)
    point.note("proj ours", sums, associated.posterior(left))


def release_labels(point: Point, features: Features, sums: Sums, target: Target, random: np.random.Generator) -> None:
    """Releases under label privacy, one of each; X is public, and so are its lengths and leverages."""
    count, side = sums.xy.shape[1], PublicSide.of_gram(sums.xx)
    longest2 = float((features.x**2).sum(axis=1).max())
    leverage = float(np.linalg.norm(features.x @ (side.right / side.singular), axis=1).max())
    radius = math.sqrt(sums.rows * count)
    reach = radius * math.sqrt(count * float(np.trace(sums.xx)))

    def draw(unit: float) -> Release:
        return Release.draw(sums, Noise(0.0, 0.0, unit * math.sqrt(longest2 * count)), longest2, random)

    release = draw(noises.classical(target.epsilon, target.delta))
    point.note("proj label p", sums, replace(release, xy=project_jointly(side, release.xy, radius)).ridged(reach))
    release = draw(2 / target.mu)
    point.note("gauss label", sums, release.ridged())
    point.note("proj label", sums, replace(release, xy=project_jointly(side, release.xy, radius)).ridged(reach))
    point.note("label ours", sums, release.beside_features())
    point.note("leverage", sums, by_leverage(sums, 2 * leverage * math.sqrt(count) / target.mu, random))


def one_by_one(
    point: Point,
    features: Features,
    parts: Sequence[Single],
    target: Target,
    releases: int,
    random: np.random.Generator,
) -> None:
    """The baselines that spend 1/l of the budget on each outcome: they are the same for every outcome, and a few are looked at.

    Args:
        point: of one l.
        features: n rows.
        parts: (n, k) outcomes looked at, of the releases in turn; the oracle chooses by some of each.
        target: of all outcomes together.
        releases: how many.
        random: of the noise.
    """
    count, radius2, width = point.outcomes, features.radius2, parts[0].shape[1]
    sums = [Sums.of(features.x, part) for part in parts]
    published = noises.published(radius2, 1.0, target.epsilon / math.sqrt(count), target.delta / count)
    corrected = noises.corrected(features, 1, 1.0, target.mu / math.sqrt(count))
    for release in range(releases):
        of = sums[release % len(parts)]
        point.note("naive p", of, naive(of, published, radius2, random))
        point.note("naive", of, naive(of, corrected, radius2, random))
    mu, radius = target.mu / math.sqrt(count), math.sqrt(radius2)
    everything, few = np.hstack(parts), np.hstack([part[:, : math.ceil(LOOKED_AT / len(parts))] for part in parts])
    choice = tuned(features.x, few, Sums.of(features.x, few), mu, radius, random)
    point.choice = vars(choice)
    top = float(np.linalg.eigvalsh(sums[0].xx)[-1])
    plain = public(point.rows, len(sums[0].xx), top, mu, radius)
    draws = math.ceil(releases / len(parts))
    for method, chosen in (("descent", choice), ("descent plain", plain)):
        models = repeated(features.x, everything, sums[0], mu, radius, chosen, draws, random)
        for release in range(releases):
            draw, place = divmod(release, len(parts))
            point.note(method, sums[place], models[draw][:, place * width : (place + 1) * width])


def _error(values: Floats) -> float | None:
    """Standard error of a mean; None where there is one value."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
