"""What many regressions with projection cost beside the matrix products and factorisations that nobody can do without.

ReuseCov-Proj on one curator's table, in floating point: X^T X once, X^T Y, noise, the public side's decomposition, the
projection, and all l regressions by one factorisation. The same calls of BLAS and LAPACK are then made bare, on the same arrays.
Seconds are the processor's, of all threads. Noise is continuous here; a release's is discrete, by an exact sampler.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from benchmarks.common.report import Results, main
from benchmarks.paper_primo.calibration import covariance_box, scales
from benchmarks.paper_primo.projection import project
from dprelease.arrays import Floats
from dprelease.estimators.moments.public_columns import PublicSide
from dprelease.estimators.normal_equations import solve
from dprelease.mechanisms.moments.calibration import split
from dprelease.mechanisms.moments.sensitivity import association_bound
from dprelease.privacy.gaussian import mu_of

EPSILON, DELTA = 1.0, 1e-5
GRID_BITS = 12
ENOUGH = 0.3
"""Seconds by the clock on the wall after which a call is not repeated."""

Public = Literal["outcomes", "features"]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Cost:
    """One run.

    Attributes:
        rows: n.
        features: d.
        outcomes: l.
        public: the side that is public.
        steps: processor seconds of each step.
        needed: processor seconds of the bare calls.
    """

    rows: int
    features: int
    outcomes: int
    public: Public
    steps: dict[str, float]
    needed: dict[str, float]

    @property
    def ratio(self) -> float:
        """Time over that of the bare calls."""
        return sum(self.steps.values()) / sum(self.needed.values())


def run(quick: bool) -> Results:
    """Many regressions on one noisy covariance with projection: time over that of the unavoidable calls, by step."""
    results = Results()
    cases = [(626, 100, 1250), (12_500, 25, 125)] if quick else [(5008, 800, 10_000), (100_000, 100, 1000)]
    for rows, features, outcomes in cases:
        for public in ("outcomes", "features"):
            cost = measure(rows, features, outcomes, public)
            name = f"n = {rows:,}, d = {features}, l = {outcomes:,}, {public} public"
            results.add(f"{name}: time over that of bare BLAS and LAPACK calls", cost.ratio, None if quick else 2.0)
            total = sum(cost.steps.values())
            results.add(f"{name}: processor seconds", total)
            for step, seconds in cost.steps.items():
                results.add(f"{name}: share of {step}", seconds / total)
            results.details[name] = asdict(cost)
    return results


def measure(rows: int, features: int, outcomes: int, public: Public, seed: int = 0) -> Cost:
    """One table of columns within [-1, 1], all steps and then all bare calls.

    Args:
        rows: n.
        features: d.
        outcomes: l.
        public: the side that is public.
        seed: of table and noise.
    """
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (rows, features))
    y = x @ generator.normal(0, 0.3 / math.sqrt(features), (features, outcomes))
    y += generator.uniform(-0.4, 0.4, y.shape)
    np.clip(y, -1, 1, out=y)
    side, other = (y, x) if public == "outcomes" else (x, y)
    covariance_sd, association_sd = noise_sd(x, y, public)
    steps, needed = _Watch(), _Watch()

    gram = steps.time("X^T X", lambda: x.T @ x)
    across = steps.time("X^T Y", lambda: side.T @ other)
    noisy = steps.time("noise", lambda: across + association_sd * generator.normal(size=across.shape))
    if public == "outcomes":
        error = covariance_sd * generator.normal(size=gram.shape)
        gram = gram + np.triu(error) + np.triu(error, 1).T
    decomposed = steps.time("the public side's decomposition", lambda: PublicSide.of_rows(side))
    projected = steps.time("the projection", lambda: project(decomposed, noisy, math.sqrt(rows)))
    right = projected.T if public == "outcomes" else projected
    ridge = 2 * covariance_sd * math.sqrt(features)
    steps.time("all regressions", lambda: solve(gram, right, ridge))

    needed.time("X^T X", lambda: x.T @ x)
    needed.time("X^T Y", lambda: side.T @ other)
    needed.time("the public side's decomposition", lambda: _bare_decomposition(side))
    along = needed.time("to the decomposition's coordinates", lambda: decomposed.right.T @ noisy)
    needed.time("and back", lambda: decomposed.right @ along)
    definite = x.T @ x + ridge * np.eye(features)
    needed.time("all regressions", lambda: cho_solve(cho_factor(definite), right))
    return Cost(rows, features, outcomes, public, steps.seconds, needed.seconds)


def noise_sd(x: Floats, y: Floats, public: Public) -> tuple[float, float]:
    """Standard deviations of the noise of an entry of X^T X, 0 where X is public, and of X^T Y."""
    mu2 = Fraction(mu_of(EPSILON, DELTA)) ** 2
    (_, features), (_, outcomes) = x.shape, y.shape
    unit = Fraction(4) ** (2 * GRID_BITS)
    if public == "features":
        second = association_bound(Fraction(float((x**2).sum(axis=1).max())), Fraction(outcomes))
        return 0.0, math.sqrt(second / mu2)
    first = covariance_box((Fraction(1),) * features)
    second = association_bound(Fraction(features), Fraction(float((y**2).sum(axis=1).max())))
    found = scales(first * unit, second * unit, mu2, split(features, outcomes), "box")
    return found.diagonal / 4.0**GRID_BITS, found.association / 4.0**GRID_BITS


class _Watch:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, step: str, call: Callable[[], Found]) -> Found:
        """What a call gives; its processor seconds are noted, the least of several calls where it is short."""
        least, end = math.inf, time.monotonic() + ENOUGH  # the processor's clock may stand still within a short call
        while True:
            started = time.process_time()
            found = call()
            least = min(least, time.process_time() - started)
            if time.monotonic() >= end:
                break
        self.seconds[step] = least
        return found


def _bare_decomposition(side: Floats) -> object:
    if side.shape[0] < side.shape[1]:
        return np.linalg.svd(side.T, full_matrices=False)
    return np.linalg.svd(np.linalg.qr(side, mode="r"), full_matrices=False)


if __name__ == "__main__":
    main("primo_speed", run)
