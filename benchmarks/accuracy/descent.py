"""Gradient descent under differential privacy: a curator who holds all rows fits one outcome by full-batch steps.

T steps go down the sum over rows of gradients clipped to length c. A replaced row moves that sum by 2 c, so noise of
2 c sqrt(T) / mu on every coordinate makes all steps together mu-GDP, exactly. (A public script for this method takes
T log(1/delta) c^2 / epsilon^2 for the variance, which at (1, 1e-6) is epsilon = 2.4 under replace-one.)

T, c, the length of a step and whether the second half of the path is averaged are chosen by an oracle that sees R^2 on the
private rows; the longest stable step is read off the private rows too. Neither is charged: an advantage for the method.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.accuracy.problem import Problem
from dprelease.arrays import Floats

_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Descent:
    """What gradient descent leaves open.

    Attributes:
        steps: T.
        clip: c, scaled units.
        rate: length of a step in units of the largest that is stable, 1 / lambda_max of X^T X / n.
        averaged: whether the second half of the steps is averaged.
    """

    steps: int
    clip: float
    rate: float
    averaged: bool


STEPS = (6, 12, 25, 50, 100, 200)
CLIPS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
RATES = (0.5, 1.0, 1.8)


def descend(
    problem: Problem,
    target: str,
    mu: float,
    steps: int,
    clips: Floats,
    rates: Floats,
    random: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Last models and averages over the second half of the steps, each (B, d+1), mu-GDP each.

    Args:
        problem: the table.
        target: its outcome, clipped.
        mu: budget of all steps.
        steps: T >= 2.
        clips: (B,) c of each run.
        rates: (B,) as of `Descent`.
        random: of the noise.
    """
    regression = problem.regression(target, problem.variables)
    columns = [index - 1 for index in regression.features]
    x = np.column_stack([np.ones(problem.rows), problem.variables.rows[:, columns]]).astype(np.float32)
    y = problem.variables.rows[:, regression.index - 1].astype(np.float32)
    lengths = np.linalg.norm(x, axis=1)
    stable = rates / np.linalg.eigvalsh(regression.gram)[-1] / problem.rows
    models, sums = np.zeros((2, len(clips), x.shape[1]))
    for step in range(steps):
        gradient = _clipped_gradient(x, y, lengths, models, clips)
        noise = (2 * clips * math.sqrt(steps) / mu)[:, None] * random.normal(size=models.shape)
        models = models + stable[:, None] * (gradient + noise)
        if 2 * step >= steps:
            sums += models
    return models, sums / (steps - (steps + 1) // 2)


def _clipped_gradient(
    x: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    lengths: npt.NDArray[np.float32],
    models: Floats,
    clips: Floats,
) -> Floats:
    """(B, d+1) sums over rows of residual times row, each at most c long."""
    found = np.empty_like(models)
    most = (clips[None, :] / lengths[:, None]).astype(np.float32)
    together = max(1, _AT_ONCE // len(x))
    for start in range(0, len(models), together):
        part = slice(start, start + together)
        residuals = y[:, None] - x @ models[part].T.astype(np.float32)
        found[part] = (x.T @ np.clip(residuals, -most[:, part], most[:, part])).T
    return found


def tuned_descent(
    problem: Problem, target: str, mu: float, most: int, tries: int, random: np.random.Generator
) -> Descent:
    """The choices with the best median R^2 on the private rows: an oracle's, which no curator has.

    Args:
        problem: the table.
        target: its outcome.
        mu: budget.
        most: T at most.
        tries: runs of every choice.
        random: of the noise.
    """
    regression = problem.regression(target, problem.variables)
    pairs = list(itertools.product(CLIPS, RATES))
    clips, rates = (np.repeat([pair[part] for pair in pairs], tries) for part in (0, 1))
    found: dict[Descent, float] = {}
    for steps in (steps for steps in STEPS if steps <= most):
        for averaged, models in enumerate(descend(problem, target, mu, steps, clips, rates, random)):
            medians = np.median(regression.score(models).reshape(len(pairs), tries), axis=1)
            found |= {
                Descent(steps, clip, rate, bool(averaged)): float(median)
                for (clip, rate), median in zip(pairs, medians, strict=True)
            }
    return max(found, key=lambda choice: found[choice])
