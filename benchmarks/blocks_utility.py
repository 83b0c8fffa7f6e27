"""Error of block releases on the paper's synthetic data: the default against RMGM as published and the zero vector.

The data are those of "Differentially Private Multi-Party Data Release for Linear Regression", section 5: ten features
uniform on [-1, 1], five parties of two and the outcome's. S0 has the paper's exact outcomes, weights uniform on +-1/10; S1
has noisy ones, weights uniform on +-0.3 and residual variance 0.1, half of the outcome's. Both methods keep the same
(epsilon, delta) for every party's block:

    rmgm     classic sigma, noise for the widest party everywhere, k = round(sqrt(n) / sigma), no intercept, no anchor;
    default  what `coordinator release create` would propose for mechanism ``mixed``, and `fit` makes of it.

Rows of B D / sqrt(k) are drawn from the normal law with the covariance D^T D / k, which explicit +-1 matrices follow
closely (docs/methods.md). Error is |w - w_ols|, w_ols being least squares on the private rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.common.block_releases import Blocks, least_squares, mixed, squared_error
from benchmarks.common.exact_releases import declared
from benchmarks.common.report import Results, main
from dprelease.arrays import Floats
from dprelease.estimators.baselines.plain import mixed_least_squares

FEATURES = 10
PARTIES = declared((2, 2, 2, 2, 2, 1), -1.0)
"""Columns 0 to 9 are features, two at each party; the outcome is alone."""
PER_TABLE = 25
"""Vectors of weights for each table of features drawn."""
MOST_DRAWN = 3_000_000
"""Rows of the largest table that is drawn row by row."""


@dataclass(frozen=True)
class Setting:
    """How data are drawn.

    Attributes:
        name: of the family.
        weight: weights are uniform on +- this.
        residual: standard deviation of the outcome about its regression.
    """

    name: str
    weight: float
    residual: float


S0, S1 = Setting("S0", 1 / FEATURES, 0.0), Setting("S1", 0.3, math.sqrt(0.1))
EPSILONS = (1.0, 0.3, 0.1)
PATIENTS, MORE_PATIENTS = (10_000, 100_000, 1_000_000), (300_000, 3_000_000)
REACH = {(S0, 1_000_000, 1.0): 1 / 1.4, (S1, 1_000_000, 1.0): 1 / 1.55}


@dataclass(frozen=True)
class Errors:
    """One cell: errors in the weights, one entry for each draw, and excess squared errors of predictions over least squares.

    Attributes:
        default: of the default.
        rmgm: of RMGM as published.
        zero: of the zero vector.
        excess: squared error of the default's predictions less that of least squares.
        constant_excess: the same of the mean of the private outcomes.
    """

    default: Floats
    rmgm: Floats
    zero: Floats
    excess: Floats
    constant_excess: Floats


def run(quick: bool) -> Results:
    """Error of the default on blocks against RMGM as published and the zero vector, 1000 draws a cell (200 when quick)."""
    results = Results()
    draws = 200 if quick else 1000
    worst = worst_excess = 0.0
    cells = []
    patients = sorted(PATIENTS if quick else PATIENTS + MORE_PATIENTS)
    for setting, epsilon, n in itertools.product((S0, S1), EPSILONS, patients):
        errors = measure(setting, n, epsilon, draws)
        means = {name: float(values.mean()) for name, values in vars(errors).items()}
        name = f"{setting.name}, epsilon = {epsilon:g}, n = {n:,}"
        reach = REACH.get((setting, n, epsilon))
        results.add(f"{name}: error over that of RMGM as published", means["default"] / means["rmgm"], reach)
        results.add(f"{name}: error over that of the zero vector", means["default"] / means["zero"], 1.15)
        worst = max(worst, means["default"] / means["zero"])
        worst_excess = max(worst_excess, means["excess"] / means["constant_excess"])
        spread = {f"{key}_se": float(values.std() / math.sqrt(draws)) for key, values in vars(errors).items()}
        cells.append({"setting": setting.name, "n": n, "epsilon": epsilon, "draws": draws, **means, **spread})
    results.add("worst error over that of the zero vector", worst, 1.15)
    results.add("worst excess squared error of predictions over that of the mean predictor", worst_excess, 1.15)
    results.details["cells"] = cells
    return results


def measure(setting: Setting, n: int, epsilon: float, draws: int, seed: int = 20260101) -> Errors:
    """Errors of `draws` releases of n patients."""
    random = np.random.default_rng([seed, n, round(epsilon * 1000), round(setting.residual * 1000)])
    blocks = Blocks(n, PARTIES, epsilon)
    found = []
    for moments, true in tables(setting, n, draws, random):
        model = blocks.default(moments, random)
        rmgm_rows = mixed(moments, n, blocks.published_outputs, 0.0, blocks.published_variance, random)
        rmgm = mixed_least_squares(rmgm_rows.normal_equations(intercept=False)).weights[:, 0]
        own = model.weights[:, 0]
        best = squared_error(moments, *least_squares(moments))
        found.append(
            (
                np.linalg.norm(own - true),
                np.linalg.norm(rmgm - true),
                np.linalg.norm(true),
                squared_error(moments, float(model.offsets[0]), own) - best,
                squared_error(moments, float(moments[0, -1]), 0 * own) - best,
            )
        )
    return Errors(*np.array(found, dtype=np.float64).T)


def tables(setting: Setting, n: int, draws: int, random: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
    """Private moments (1/n) [1 X y]^T [1 X y] and least squares on them, for one table and vector of weights after another."""
    for draw in range(draws):
        if draw % PER_TABLE == 0:
            gram = raw_moments(n, random)
        weights = random.uniform(-setting.weight, setting.weight, FEATURES)
        turn = np.eye(FEATURES + 2)
        turn[1:-1, -1], turn[-1, -1] = weights, setting.residual
        moments = turn.T @ gram @ turn
        yield moments, least_squares(moments)[1]


def raw_moments(n: int, random: np.random.Generator) -> Floats:
    """(1/n) [1 X r]^T [1 X r] of n rows, r standard normal; above `MOST_DRAWN` rows by the central limit theorem.

    Sums of products of two different columns, and of a square, are uncorrelated with one another here.
    """
    if n > MOST_DRAWN:
        expected = np.diag([1.0, *[1 / 3] * FEATURES, 1.0])
        variance = np.outer(np.diag(expected), np.diag(expected))
        variance[np.diag_indices(FEATURES + 2)] = [0.0, *[1 / 5 - 1 / 9] * FEATURES, 2.0]
        noise = np.triu(random.normal(size=variance.shape))
        limit: Floats = expected + np.sqrt(variance / n) * (noise + np.triu(noise, 1).T)
        return limit
    features, residuals = random.uniform(-1, 1, (n, FEATURES)), random.normal(size=(n, 1))
    raw = np.hstack([np.ones((n, 1)), features, residuals])
    return raw.T @ raw / n


if __name__ == "__main__":
    main("blocks_utility", run)
