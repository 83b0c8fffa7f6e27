"""PrivIncERM: a private batch fit on the whole prefix every tau steps, and the last fit's weights in between.

It needs the rows of one holder, and is not what the product releases. A row is in l = floor(T/tau) fits at most, so each of
them gets mu/sqrt(l) (`_incremental_noise.fit_mu`). Two private solvers, both for losses of <x, w> and y with |x| <= 1:

    descent       projected gradient steps on the whole prefix with Gaussian noise, mu/sqrt(r) for each of r. Its Lipschitz bound K
                  holds because rows are clipped and weights stay in the set; replacing a row moves a gradient by 2 K.
    frank-wolfe   over an L1 ball: the end +-R e_j towards which the loss falls fastest, by the exponential mechanism on 2 d
                  scores. Its epsilon_0 costs rho = epsilon_0^2/8 of zero-concentrated privacy.

How many steps, and how long, follows from public numbers: steps until the solver errs as little as its noise lets it.

Source: Kasiviswanathan, Nissim and Jin (2017), algorithm 1 and theorem 3.1; Bassily, Smith and Thakurta (2014); Talwar,
Thakurta and Zhang (2015), Nearly optimal private LASSO; Cesar and Rogers (2021), Bounding, concentrating, and truncating, for
the rho of the exponential mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from benchmarks.paper_incremental.stream import Stream
from dprelease.arrays import Floats
from dprelease.estimators.baselines.constrained import ConvexSet

MOST = 100
"""Steps of a solver."""


@dataclass(frozen=True)
class Loss:
    """A loss j(<x, w>, y) of one row.

    Attributes:
        name: of it.
        value: (<x, w>, y), each (n,), to (n,) losses.
        slope: the same to (n,) derivatives in <x, w>.
        steepest: for |<x, w>| up to this, the largest |slope|.
        bend: largest second derivative.
    """

    name: str
    value: Callable[[Floats, Floats], Floats]
    slope: Callable[[Floats, Floats], Floats]
    steepest: Callable[[float], float]
    bend: float


SQUARED = Loss("squared", lambda z, y: (y - z) ** 2, lambda z, y: 2 * (z - y), lambda most: 2 * (1 + most), 2.0)
LOGISTIC = Loss(
    "logistic", lambda z, y: np.logaddexp(0, -y * z), lambda z, y: -y * expit(-y * z), lambda most: 1.0, 0.25
)


def clipped(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Rows with |x| <= 1 and |y| <= 1: longer ones are shortened."""
    lengths = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    return x / lengths, np.clip(y, -1, 1)


Solver = Callable[[Floats, Floats, np.random.Generator], Floats]
"""Rows of a prefix to weights, (d,)."""


def descent_noise(loss: Loss, within: ConvexSet, mu: float, n: int, d: int) -> tuple[int, float]:
    """(r, standard deviation of the noise of a coordinate of a gradient) of noisy descent on n rows."""
    unit = 2 * loss.steepest(within.radius) / mu
    steps = min(max(math.ceil(loss.bend * n * within.radius / (unit * math.sqrt(d))), 1), MOST)
    return steps, unit * math.sqrt(steps)


def descent(loss: Loss, within: ConvexSet, mu: float) -> Solver:
    """Noisy projected gradient descent, mu-GDP; the mean of its iterates."""

    def solve(x: Floats, y: Floats, random: np.random.Generator) -> Floats:
        x, y = clipped(x, y)
        n, d = x.shape
        steps, sd = descent_noise(loss, within, mu, n, d)
        length = min(1 / (loss.bend * n), within.radius / (sd * math.sqrt(d * steps)))
        weights = within.project(np.zeros(d))
        total = np.zeros(d)
        for _ in range(steps):
            gradient = x.T @ loss.slope(x @ weights, y) + sd * random.normal(size=d)
            weights = within.project(weights - length * gradient)
            total += weights
        mean: Floats = total / steps
        return mean

    return solve


def ends_noise(loss: Loss, within: ConvexSet, rho: float, n: int, d: int) -> tuple[int, float]:
    """(r, epsilon_0 of a step) of private Frank-Wolfe on n rows."""
    curved = loss.bend * n * (2 * within.radius) ** 2
    unsure = 4 * loss.steepest(within.radius) * within.radius * math.log(2 * d) / math.sqrt(8 * rho)
    steps = min(max(math.ceil((curved / unsure) ** (2 / 3)), 1), MOST)
    return steps, math.sqrt(8 * rho / steps)


def frank_wolfe(loss: Loss, within: ConvexSet, rho: float) -> Solver:
    """Private Frank-Wolfe over an L1 ball, rho-zCDP."""
    moved = 2 * loss.steepest(within.radius) * within.radius

    def solve(x: Floats, y: Floats, random: np.random.Generator) -> Floats:
        x, y = clipped(x, y)
        n, d = x.shape
        steps, epsilon = ends_noise(loss, within, rho, n, d)
        weights = np.zeros(d)
        for step in range(steps):
            gradient = within.radius * (x.T @ loss.slope(x @ weights, y))
            scores = np.concatenate([-gradient, gradient]) * epsilon / (2 * moved) + random.gumbel(size=2 * d)
            end = int(scores.argmax())
            towards = np.zeros(d)
            towards[end % d] = within.radius if end < d else -within.radius
            weights += 2 / (step + 2) * (towards - weights)
        return weights

    return solve


def privincerm(stream: Stream, solver: Solver, every: int, random: np.random.Generator) -> Floats:
    """Weights at the steps that a stream is looked at, (K, d); before the first fit, the point of the set nearest to 0.

    Args:
        stream: its rows.
        solver: with the privacy of one of floor(T/tau) fits.
        every: tau.
        random: of the noise.
    """
    fits: dict[int, Floats] = {0: stream.within.project(np.zeros(stream.width))}
    for time in stream.times:
        last = int(time) // every * every
        if last not in fits:
            fits[last] = solver(stream.x[:last], stream.y[:last], random)
    return np.array([fits[int(time) // every * every] for time in stream.times])


def every_for_descent(length: int, width: int, epsilon: float) -> int:
    """tau of theorem 3.1, part 1."""
    found: float = (length * width) ** (1 / 3) / epsilon ** (2 / 3)
    return math.ceil(found)


def every_for_frank_wolfe(length: int, width: int, loss: Loss, within: ConvexSet, epsilon: float) -> int:
    """tau of theorem 3.1, part 3, with the Gaussian width R sqrt(2 ln 2d) of an L1 ball."""
    spread = within.radius * math.sqrt(2 * math.log(2 * width))
    curved = loss.bend * (2 * within.radius) ** 2
    ratio: float = (curved / (loss.steepest(within.radius) * within.radius)) ** 0.25
    return math.ceil(math.sqrt(length * spread) * ratio / math.sqrt(epsilon))
