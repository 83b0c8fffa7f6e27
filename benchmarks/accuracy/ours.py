"""Fits on both kinds of release of a table, joint moments and blocks, simulated from its second moments.

Mixed rows are drawn from the normal law with these, which explicit +-1 mixing follows closely (docs/methods.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.accuracy.problem import Problem, Regression
from benchmarks.common.block_releases import mixed
from benchmarks.common.fits import fit_moments
from benchmarks.common.moment_releases import noisy_moments
from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn, squared_sensitivity
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.mechanisms.noisy_rows.calibration import plan_mixing
from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target


def by_moments(
    problem: Problem, targets: Sequence[str], mu: float, draws: int, random: np.random.Generator
) -> dict[str, Floats]:
    """R^2 of `shrinkage`, target to (draws,). Every draw is one release that all targets share."""
    regressions = {target: problem.regression(target, problem.variables) for target in targets}
    exact, found = problem.variables.gram, {target: np.empty(draws) for target in targets}
    for draw in range(draws):
        moments = noisy_moments(exact, problem.rows, mu, len(problem.table.parties), random, problem.layout.columns)
        for target, regression in regressions.items():
            found[target][draw] = r_squared(moments, regression)
    return found


def r_squared(moments: NoisyMoments, regression: Regression) -> float:
    """R^2 of `shrinkage` on one release."""
    fit = fit_moments(moments, regression.features, [regression.index], intercept=True)
    return float(regression.score(np.append(fit.offsets, fit.weights[:, 0])[None])[0])


def by_blocks(
    problem: Problem, target: str, epsilon: float, delta: float, draws: int, random: np.random.Generator
) -> Floats:
    """(draws,) R^2 of `calibrated` on mixed blocks with a joint target, k and the anchor's weight by the planner's rules."""
    parties, coding = dict(problem.table.parties), problem.released
    plan = plan_mixing(problem.rows, parties, Target(scope="joint", epsilon=epsilon, delta=delta))
    regression = problem.regression(target, coding)
    order = [0, *regression.features, regression.index]
    exact = coding.gram[np.ix_(order, order)] / problem.rows
    variance = squared_sensitivity(problem.layout.columns) / mu_of(epsilon, delta) ** 2
    categories = {
        name for each in problem.layout.columns if isinstance(each, CategoricalColumn) for name in each.released
    }
    lower = np.array([0.0 if coding.names[index - 1] in categories else -1.0 for index in regression.features])
    models = []
    for _ in range(draws):
        noise = np.full(len(order) - 1, variance)
        rows = mixed(exact, problem.rows, plan.outputs, float(plan.anchor_weight), noise, random)
        found = calibrated(rows, lower, np.array([-1.0]), intercept=True)
        models.append(np.append(found.offsets, found.weights[:, 0]))
    return regression.score(np.array(models))
