"""AdaSSP (Wang, UAI 2018, Algorithm 2): a curator who holds all rows fits one outcome, by a ridge on noisy moments.

It spends a part of its budget on the least eigenvalue of X^T X and adds a ridge that the estimate says is needed:

    lambda = max(0, sqrt(d log(2 d^2 / rho)) s - l),   l = max(0, lambda_min + s_l (Z - sqrt(log(6/delta))))

with s the noise of X^T X and s_l that of the eigenvalue. As published s = s_l = sqrt(log(6/delta)) |X|^2 / (epsilon/3), which
is loose. Two ways to mend that:

    recalibrated   the same three releases, a third of mu^2 each, with what a replaced row moves them by at most: the
                   eigenvalue by |X|^2 (Weyl), the upper triangle of X^T X by |X|^2, X^T y by 2 |X| |y|
    joint          stronger than what was published: the part `share` of mu^2 goes to the eigenvalue, and the rest to the
                   Gram matrix of (1, x, y) at once with the sensitivity of `sensitivity`, smaller noise
                   on squares and exact entries included: the same noise that joint moments have at t = 0

Bounds are public: rows (1, x) of squared norm at most the number of declared columns in scaled units, outcomes within
[-1, 1]. Neighbours replace one whole row, outcome included. Gaussian noise composes exactly: mu^2 adds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.problem import Problem, Regression
from dprelease.arrays import Floats
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.privacy.gaussian import epsilon_of

FAILURE = 0.05
"""rho: chance that the ridge is too small."""


def squared_norm(layout: Layout, target: str) -> int:
    """|X|^2, the largest squared norm of a row (1, x): 1 for the constant and every declared column but the outcome."""
    return 1 + sum(column.name != target for column in layout.columns)


@dataclass(frozen=True)
class Ridge:
    """What joint AdaSSP leaves open.

    Attributes:
        share: part of mu^2 for the least eigenvalue.
        intercept: whether the ridge shrinks the intercept too, as published.
    """

    share: float
    intercept: bool


RIDGES = tuple(Ridge(*pair) for pair in itertools.product((1 / 3, 0.1, 0.02), (True, False)))


def adassp(problem: Problem, target: str, mu: float, delta: float, draws: int, random: np.random.Generator) -> Floats:
    """(draws, d+1) models of recalibrated AdaSSP, mu-GDP each.

    Args:
        problem: the table.
        target: its outcome.
        mu: budget.
        delta: of the published bound on the eigenvalue's noise.
        draws: models.
        random: of the noise.
    """
    regression, layout = problem.regression(target, problem.variables), problem.layout
    norm2, part = squared_norm(layout, target), mu / math.sqrt(3)
    sd, cross_sd = norm2 / part, 2 * math.sqrt(norm2) / part
    crossed = (layout.rows == regression.index) | (layout.cols == regression.index)
    gram = problem.variables.gram + _noise(layout, np.where(crossed, cross_sd, sd), draws, random)
    return _ridged(gram, problem.variables.gram, regression, sd, sd, delta, True, random)


def joint_adassp(
    problem: Problem, target: str, mu: float, delta: float, ridge: Ridge, draws: int, random: np.random.Generator
) -> Floats:
    """(draws, d+1) models of joint AdaSSP, mu-GDP each.

    Args:
        problem: the table.
        target: its outcome.
        mu: budget.
        delta: of the published bound on the eigenvalue's noise.
        ridge: choices.
        draws: models.
        random: of the noise.
    """
    regression, layout = problem.regression(target, problem.variables), problem.layout
    found = sensitivity(layout.variables)
    sd = math.sqrt(found.squared) / (mu * math.sqrt(1 - ridge.share))
    scales = np.where(layout.diagonal, sd / math.sqrt(found.diagonal_weight), sd)
    gram = problem.variables.gram + _noise(layout, scales, draws, random)
    eigenvalue_sd = squared_norm(layout, target) / (mu * math.sqrt(ridge.share))
    return _ridged(gram, problem.variables.gram, regression, sd, eigenvalue_sd, delta, ridge.intercept, random)


def published_adassp(
    problem: Problem, target: str, epsilon: float, delta: float, draws: int, random: np.random.Generator
) -> Floats:
    """(draws, d+1) models of AdaSSP as published."""
    regression, exact = problem.regression(target, problem.variables), problem.variables.gram
    norm2 = squared_norm(problem.layout, target)
    unit = math.sqrt(math.log(6 / delta)) * 3 / epsilon
    scales = np.full(exact.shape, norm2 * unit)
    scales[:, regression.index] = math.sqrt(norm2) * unit
    noise = np.triu(random.normal(size=(draws, *exact.shape)))
    noise += np.triu(noise, 1).transpose(0, 2, 1)
    own = norm2 * unit
    scales = np.minimum(scales, scales.T)
    return _ridged(exact + scales * noise, exact, regression, own, own, delta, True, random)


def published_mu(epsilon: float, delta: float) -> float:
    """mu of AdaSSP as published under replace-one.

    In units of its noise the eigenvalue moves by 1. X^T X and X^T y together move by (|X|^2 + w^2) / |X|^2 with w^2 = |X|^2 the
    squared ratio of their noises (the outcome is a column of bound w; docs/guarantees.md 11), that is by 2. Noise on the entries
    within a category, which it adds as well, would raise this by less than a thousandth.
    """
    return math.sqrt(5) * epsilon / (3 * math.sqrt(math.log(6 / delta)))


def published_epsilon(epsilon: float, delta: float) -> float:
    """What AdaSSP as published at (epsilon, delta) really keeps under replace-one, at the same delta."""
    return epsilon_of(published_mu(epsilon, delta), delta)


def _noise(layout: Layout, scales: Floats, draws: int, random: np.random.Generator) -> Floats:
    """(draws, p+1, p+1) of the layout's entries; what they determine has theirs, what is known has none."""
    noise = np.zeros((draws, len(layout.variables) + 1, len(layout.variables) + 1))
    noise[:, layout.rows, layout.cols] = scales * random.normal(size=(draws, layout.entries))
    noise[:, layout.cols, layout.rows] = noise[:, layout.rows, layout.cols]
    for index, variable in enumerate(layout.variables, 1):
        if variable.level:
            noise[:, index, index] = noise[:, 0, index]
    return noise


def _ridged(
    gram: Floats,
    exact: Floats,
    regression: Regression,
    sd: float,
    eigenvalue_sd: float,
    delta: float,
    intercept: bool,
    random: np.random.Generator,
) -> Floats:
    used = [0, *regression.features]
    d = len(used)
    least = float(np.linalg.eigvalsh(exact[np.ix_(used, used)])[0])
    seen = least + eigenvalue_sd * (random.normal(size=len(gram)) - math.sqrt(math.log(6 / delta)))
    wanted = math.sqrt(d * math.log(2 * d**2 / FAILURE)) * sd
    added = np.maximum(0, wanted - np.maximum(seen, 0))
    held = np.eye(d)
    held[0, 0] = float(intercept)
    xx = gram[:, used][:, :, used] + added[:, None, None] * held
    return np.asarray(np.linalg.solve(xx, gram[:, used, regression.index][..., None])[..., 0], np.float64)
