"""The paper's synthetic data (its Figures 2 and 3a), and the same with noisy outcomes: errors of every method's weights.

S0 and S1 are those of `blocks_utility`. BGM, DGM and RMGM are as published, with the paper's k; BGM and DGM read one
release. Blocks keep (epsilon, delta) for each party's block; moments keep it for the whole row, which is the stronger promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.blocks_utility import EPSILONS, FEATURES, PARTIES, S0, Setting, tables
from benchmarks.common import exact_releases as exact
from benchmarks.common.block_releases import DELTA, Blocks, least_squares, squared_error
from benchmarks.common.fits import fit_moments
from benchmarks.common.moment_releases import noisy_moments
from dprelease.arrays import Floats
from dprelease.estimators.baselines.plain import debiased, mixed_least_squares
from dprelease.estimators.baselines.plain import least_squares as biased
from dprelease.estimators.normal_equations import NormalEquations, Solution
from dprelease.privacy.gaussian import mu_of

METHODS = ("ols", "bgm", "dgm", "rmgm", "default", "moments")
FAR = (0.1, 0.3, 1.0)
"""beta of P(|w - w*| > beta)."""
WIDTHS = (2, 2, 2, 2, 2, 1)


@dataclass
class Cell:
    """What happened at one n and epsilon.

    Attributes:
        setting: S0 or S1.
        blocks: shape and epsilon of the releases.
        distances: method, or ``zero`` for the zero vector, to |w - w_ols| of each draw; fewer draws for moments.
        excess: squared error of the default's predictions beyond that of least squares.
        constant_excess: the same of the mean of the private outcomes.
        hessians: method to (smallest |eigenvalue| of the Hessian, distance) of each draw.
    """

    setting: str
    blocks: Blocks
    distances: dict[str, list[float]] = field(default_factory=dict)
    excess: list[float] = field(default_factory=list)
    constant_excess: list[float] = field(default_factory=list)
    hessians: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, moments: Floats, true: Floats, random: np.random.Generator, *, joint: bool) -> None:
        """One more draw of every method; `joint` for moments too."""
        blocks = self.blocks
        for name, solution in published(blocks, moments, blocks.published_outputs, random).items():
            distance = self._note(name, solution.weights[:, 0], true)
            self.hessians.setdefault(name, []).append((smallest_eigenvalue(solution), distance))
        model = blocks.default(moments, random)
        weights, best = model.weights[:, 0], squared_error(moments, *least_squares(moments))
        self._note("default", weights, true)
        self.excess.append(squared_error(moments, float(model.offsets[0]), weights) - best)
        self.constant_excess.append(squared_error(moments, float(moments[0, -1]), 0 * weights) - best)
        self._note("zero", 0 * true, true)
        self._note("ols", ridge(moments), true)
        if joint:
            self._note("moments", joint_model(moments, self.patients, len(PARTIES), self.epsilon, random)[1], true)

    @property
    def patients(self) -> int:
        """n."""
        return self.blocks.patients

    @property
    def epsilon(self) -> float:
        """Of the releases."""
        return self.blocks.epsilon

    def mean(self, method: str) -> float:
        """Mean distance."""
        return float(np.mean(self.distances[method]))

    def error(self, method: str) -> float:
        """Mean distance, for DGM the median: its law has no mean to speak of."""
        return float(np.median(self.distances[method])) if method == "dgm" else self.mean(method)

    def beyond(self, method: str, far: float) -> float:
        """Part of the draws further off than `far`."""
        return float(np.mean(np.array(self.distances[method]) > far))

    def ratio(self, method: str, other: str) -> tuple[float, float]:
        """Mean distance over that of another method, and its standard error (the draws are paired)."""
        return ratio(np.array(self.distances[method]), np.array(self.distances[other]))

    def against_mean(self) -> float:
        """The default's excess squared error over that of the mean of the private outcomes."""
        return float(np.mean(self.excess) / np.mean(self.constant_excess))

    def plain(self) -> dict[str, object]:
        """JSON-ready."""
        methods = {
            name: described(values) | {f"beyond {far:g}": self.beyond(name, far) for far in FAR}
            for name, values in self.distances.items()
        }
        excess = {"excess": float(np.mean(self.excess)), "constant_excess": float(np.mean(self.constant_excess))}
        return {"setting": self.setting, "n": self.patients, "epsilon": self.epsilon, **excess, "methods": methods}

    def _note(self, method: str, found: Floats, true: Floats) -> float:
        distance = float(np.linalg.norm(found - true))
        self.distances.setdefault(method, []).append(distance)
        return distance


def measure(setting: Setting, n: int, draws: int, joint_draws: int, seed: int = 20260201) -> list[Cell]:
    """One cell for every epsilon, on the same tables.

    Args:
        setting: S0 or S1.
        n: patients.
        draws: tables' weights and releases.
        joint_draws: how many of them moments are released of, too.
        seed: of everything.
    """
    random = np.random.default_rng([seed, n, round(setting.residual * 1000)])
    cells = [Cell(setting.name, Blocks(n, PARTIES, epsilon)) for epsilon in EPSILONS]
    for draw, (moments, true) in enumerate(tables(setting, n, draws, random)):
        for cell in cells:
            cell.add(moments, true, random, joint=draw < joint_draws)
    return cells


def published(blocks: Blocks, moments: Floats, outputs: int, random: np.random.Generator) -> dict[str, Solution]:
    """BGM, DGM and RMGM on releases as published."""
    rows = blocks.published_rows(moments, random)
    mix = blocks.published_mix(moments, outputs, random)
    return {"bgm": biased(rows), "dgm": debiased(rows), "rmgm": mixed_least_squares(mix)}


def ridge(moments: Floats) -> Floats:
    """OLS as published: no intercept, lambda = 1e-5 on the Hessian."""
    features, target = list(range(1, len(moments) - 1)), [len(moments) - 1]
    equations = NormalEquations.of_moments(moments, features, target, intercept=False)[0]
    return mixed_least_squares(equations).weights[:, 0]


def joint_model(
    moments: Floats, n: int, parties: int, epsilon: float, random: np.random.Generator
) -> tuple[float, Floats, float]:
    """(intercept, weights, constant predictor) of the default on joint moments, scaled units."""
    noisy = noisy_moments(n * moments, n, mu_of(epsilon, DELTA), parties, random)
    found = fit_moments(noisy, range(1, len(moments) - 1), [len(moments) - 1], intercept=True)
    return float(found.offsets[0]), found.weights[:, 0], float(found.constant[0])


def smallest_eigenvalue(solution: Solution) -> float:
    """Least |eigenvalue| of the Hessian that was inverted."""
    return float(1 / np.linalg.norm(solution.inverse, 2))


def described(values: Sequence[float]) -> dict[str, float]:
    """JSON-ready."""
    mean, error = np.mean(values), np.std(values) / math.sqrt(len(values))
    return {"draws": len(values), "mean": float(mean), "mean_se": float(error), "median": float(np.median(values))}


def ratio(values: Floats, others: Floats) -> tuple[float, float]:
    """Ratio of means and its standard error, to first order, of paired draws."""
    found = float(values.mean() / others.mean())
    return found, float((values - found * others).std() / others.mean() / math.sqrt(len(values)))


def exact_check(n: int, draws: int, seed: int = 20260202) -> dict[str, float]:
    """How far one release by the library itself is from simulated ones of the same table, epsilon = 1, for each method.

    In standard errors of a single draw's log distance.
    """
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (n, FEATURES + 1))
    true = random.uniform(-S0.weight, S0.weight, FEATURES)
    rows[:, -1] = rows[:, :-1] @ true
    one = np.column_stack([np.ones(n), rows])
    cell = Cell(S0.name, Blocks(n, PARTIES, 1.0))
    for _ in range(draws):
        cell.add(one.T @ one / n, true, random, joint=True)
    parties = exact.declared(WIDTHS, -1.0)
    bgm, dgm = exact.published_models(rows, parties, 1.0, ["bgm", "dgm"])
    (rmgm,) = exact.published_models(rows, parties, 1.0, ["rmgm"], Blocks(n, parties, 1.0).published_outputs)
    models = {"bgm": bgm, "dgm": dgm, "rmgm": rmgm}
    models["default"] = exact.default_model(rows, parties, 1.0)
    models["moments"] = exact.moments_model(rows, parties, 1.0)
    return {
        name: standardised(float(np.linalg.norm(model[1] - true)), cell.distances[name])
        for name, model in models.items()
    }


def standardised(value: float, draws: list[float]) -> float:
    """How far the logarithm of a value is from those of simulated draws, in standard errors of the difference."""
    logarithms = np.log(draws)
    spread = float(logarithms.std(ddof=1)) * math.sqrt(1 + 1 / len(draws))
    return (math.log(value) - float(logarithms.mean())) / spread
