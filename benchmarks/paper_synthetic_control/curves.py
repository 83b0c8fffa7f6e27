"""Errors of private synthetic control against lambda and epsilon, as published, in bounds, and with tight noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.paper_synthetic_control.data import Panel
from benchmarks.paper_synthetic_control.published import (
    Objective,
    Pool,
    published_after,
    published_objective,
    published_output,
    ridge,
    tight_output,
    tight_sds,
)
from dprelease.arrays import Floats
from dprelease.data.columns import NumericColumn
from dprelease.estimators.counterfactual import path_of
from dprelease.mechanisms.synthetic_control import released

DELTA = 1e-6
METHODS: Mapping[str, str] = {
    "ridge": "without privacy",
    "out": "output perturbation as published, Laplace",
    "obj": "objective perturbation as published, Laplace: NOT PRIVATE",
    "obj gauss": "objective perturbation as published, Gaussian: NOT PRIVATE",
    "tight laplace": "output perturbation, tight, Laplace",
    "tight": "output perturbation, tight, Gaussian, one calibration",
    "posterior": "the same, read as `learner counterfactual` reads it",
}
PUBLISHED = ("ridge", "out", "obj", "obj gauss")


@dataclass(frozen=True)
class Point:
    """Errors of all methods at one place.

    Attributes:
        data: name of the panel.
        before: T0.
        donors: n.
        frame: ``raw`` as the paper runs it, ``bounds`` in public bounds.
        penalty: lambda.
        epsilon: of weights and donors together.
        rmse: method to root mean square error after the intervention, original units.
        errors: its standard error over runs.
    """

    data: str
    before: int
    donors: int
    frame: str
    penalty: float
    epsilon: float
    rmse: Mapping[str, float]
    errors: Mapping[str, float]

    def plain(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    def ahead(self, one: str, other: str) -> bool:
        """Whether a method is better than another by more than two standard errors."""
        return self.rmse[one] + 2 * math.hypot(self.errors[one], self.errors[other]) < self.rmse[other]


def point(sets: Sequence[Panel], frame: str, penalty: float, epsilon: float, runs: int, seed: int) -> Point:
    """Errors over several data sets of one setting.

    Args:
        sets: with a known signal.
        frame: as of `Point`.
        penalty: lambda.
        epsilon: epsilon_1 + epsilon_2, equal halves.
        runs: for each data set.
        seed: of the noise.
    """
    rng = np.random.default_rng([20230324, seed])
    found: dict[str, list[Floats]] = {}
    for panel in sets:
        pool = panel.raw() if frame == "raw" else panel.scaled()
        unit, middle = (1.0, 0.0) if frame == "raw" else (panel.half, panel.middle)
        for method, path in _paths(pool, frame, penalty, epsilon, runs, rng).items():
            off = middle + unit * path - panel.truth
            found.setdefault(method, []).append(np.sqrt(np.mean(off**2, axis=1)))
    errors = {method: np.concatenate(each) for method, each in found.items()}
    first = sets[0]
    return Point(
        data=first.name,
        before=first.before,
        donors=len(first.donors),
        frame=frame,
        penalty=penalty,
        epsilon=epsilon,
        rmse={method: float(each.mean()) for method, each in errors.items()},
        errors={method: float(each.std() / math.sqrt(len(each))) for method, each in errors.items()},
    )


def _paths(
    pool: Pool, frame: str, penalty: float, epsilon: float, runs: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Method to (runs, T1) predicted paths."""
    half = epsilon / 2
    weights = {
        "out": published_output(pool, penalty, half, runs, rng),
        "obj": published_objective(pool, penalty, half, 0.0, runs, rng),
        "obj gauss": published_objective(pool, penalty, half, DELTA, runs, rng),
    }
    paths = {method: _product(f, published_after(pool, half, runs, rng)) for method, f in weights.items()}
    paths["ridge"] = (pool.after.T @ ridge(pool, penalty))[None, :]
    if frame == "bounds":
        paths["tight laplace"] = _product(*tight_output(pool, penalty, epsilon, 0.0, runs, rng))
        noisy = tight_output(pool, penalty, epsilon, DELTA, runs, rng)
        paths["tight"] = _product(*noisy)
        paths["posterior"] = np.array(
            [posterior_path(pool, penalty, epsilon, DELTA, *each) for each in zip(*noisy, strict=True)]
        )
    return paths


def _product(weights: Floats, after: Floats) -> Floats:
    return np.asarray(np.einsum("rn,rnt->rt", weights, after))


def posterior_path(pool: Pool, penalty: float, epsilon: float, delta: float, weights: Floats, after: Floats) -> Floats:
    """(T1,) what a reader makes of one release; arguments as of `tight_output`, and its (n,) and (n, T1) numbers."""
    weight_sd, donor_sd = tight_sds(pool, penalty, epsilon, delta)
    norm2 = float(pool.target @ pool.target)
    columns: tuple[NumericColumn, ...] = ()
    seen = released.Panel(
        columns, len(pool.target), penalty, pool.target, weights, weight_sd, after, donor_sd, norm2 / (2 * penalty)
    )
    return path_of(seen)[0]


def published_bound(panel: Panel, penalty: float, epsilon: float, method: str) -> float:
    """RMSE that the paper's Theorems 3.2 and 3.5 allow, on the raw values, with the f of least length that gives the signal.

    Args:
        panel: synthetic.
        penalty: lambda.
        epsilon: of both steps together.
        method: ``out`` or ``obj``, Laplace noise.
    """
    pool, (donors, times) = panel.raw(), (len(panel.donors), panel.donors.shape[1] - panel.before)
    found, half = ridge(pool, penalty), epsilon / 2
    slopes = pool.donors[:, -1] / panel.before
    true = slopes * (panel.truth[-1] / panel.donors.shape[1]) / float(slopes @ slopes)
    if method == "out":
        noise = 4 * panel.before * math.sqrt(8 + donors) / penalty / half
    else:
        how = Objective.of(donors, panel.before, penalty, half, 0.0)
        noise = 2 / (penalty + how.extra) * how.scale
        if how.extra:
            noise += (1 / penalty + 1 / (penalty + how.extra)) * 2 * panel.before**2 * math.sqrt(donors)
    signal = float(np.linalg.norm(pool.after, 2)) / math.sqrt(times)
    rest = math.sqrt(donors * 0.1) + math.sqrt(2) / half
    off = float(np.linalg.norm(found - true))
    return signal * (off + noise) + rest * (math.sqrt(donors) * float(np.abs(found).max()) + noise)
