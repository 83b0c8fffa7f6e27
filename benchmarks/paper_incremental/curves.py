"""Excess risk of private incremental regression on made-up streams, at the paper's noise and at corrected noise.

Methods end in " p" at the paper's noise. Where nothing else is said a corrected one has the normalised square root for its
prefix sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.paper_incremental.erm import (
    LOGISTIC,
    SQUARED,
    Loss,
    Solver,
    descent,
    every_for_descent,
    every_for_frank_wolfe,
    frank_wolfe,
    privincerm,
)
from benchmarks.paper_incremental.factors import normalised, tree
from benchmarks.paper_incremental.noise import concentrated, corrected, fit_mu, published, published_fit
from benchmarks.paper_incremental.regression import belonging, privincreg1, privincreg2
from benchmarks.paper_incremental.stream import Stream, outside
from dprelease.arrays import Floats
from dprelease.privacy.gaussian import mu_of

EPSILON, DELTA = 1.0, 1e-5
METHODS = {
    "trivial": "weights 0",
    "reg1 p": "Reg1, tree, paper's noise",
    "reg1 tree": "Reg1, tree",
    "reg1": "Reg1, normalised square root",
    "reg2 p": "Reg2, tree, paper's noise",
    "reg2": "Reg2",
    "erm p": "ERM by descent, paper's noise",
    "erm": "ERM by descent",
    "every p": "fit at every step, paper's noise",
    "every": "fit at every step",
    "fw p": "ERM by Frank-Wolfe, paper's noise",
    "fw": "ERM by Frank-Wolfe",
}
Fit = Callable[[np.random.Generator], Floats]


@dataclass
class Point:
    """Excess risks on one stream.

    Attributes:
        data: name of the stream.
        length: T.
        width: d.
        excess: method to the excess risk of every release.
    """

    data: str
    length: int
    width: int
    excess: dict[str, list[float]] = field(default_factory=dict)

    def mean(self, method: str) -> float:
        """Mean over releases."""
        return float(np.mean(self.excess[method]))

    def error(self, method: str) -> float:
        """Its standard error; 0 of one release."""
        found = self.excess[method]
        return float(np.std(found, ddof=1) / math.sqrt(len(found))) if len(found) > 1 else 0.0

    def ahead(self, better: str, worse: str) -> bool:
        """Whether one errs less than another by more than two standard errors."""
        gap = self.mean(worse) - self.mean(better)
        return gap > 2 * math.hypot(self.error(better), self.error(worse))

    def plain(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "data": self.data,
            "T": self.length,
            "d": self.width,
            "excess": {name: [float(f"{value:.4g}") for value in found] for name, found in self.excess.items()},
        }


def point(stream: Stream, fits: Mapping[str, Fit], releases: int, seed: int) -> Point:
    """Excess risks of some methods.

    Args:
        stream: its rows.
        fits: method to one release's weights, (K, d).
        releases: how many of each.
        seed: of the noise.
    """
    found = Point(stream.name, stream.length, stream.width)
    found.excess["trivial"] = [stream.excess(np.tile(_nothing(stream), (len(stream.times), 1)))]
    for place, (name, fit) in enumerate(fits.items()):
        random = np.random.default_rng([seed, place])
        found.excess[name] = [stream.excess(fit(random)) for _ in range(releases)]
    return found


def regression(stream: Stream) -> dict[str, Fit]:
    """PrivIncReg1 by trees and by the normalised square root."""
    by_tree, by_root = tree(stream.length), normalised(stream.length)
    scales = {
        "reg1 p": (by_tree, published(stream.length, EPSILON, DELTA)),
        "reg1 tree": (by_tree, corrected(by_tree.sensitivity, mu_of(EPSILON, DELTA))),
        "reg1": (by_root, corrected(by_root.sensitivity, mu_of(EPSILON, DELTA))),
    }
    return {name: partial(privincreg1, stream, *used) for name, used in scales.items()}


def batch(stream: Stream) -> dict[str, Fit]:
    """PrivIncERM by noisy descent, every tau steps and at every step."""
    every = every_for_descent(stream.length, stream.width, EPSILON)
    return {
        f"{name}{mark}": partial(privincerm, stream, _descent(SQUARED, stream, step, paper=bool(mark)), step)
        for name, step in (("erm", every), ("every", 1))
        for mark in (" p", "")
    }


def sparse_methods(stream: Stream, rows: int) -> dict[str, Fit]:
    """PrivIncReg2 with m rows of Phi, PrivIncReg1 and PrivIncERM by Frank-Wolfe."""
    return regression(stream) | projecting(stream, rows) | _by_frank_wolfe(stream)


def projecting(stream: Stream, rows: int) -> dict[str, Fit]:
    """PrivIncReg2 with m rows of Phi."""
    by_tree, by_root = tree(stream.length), normalised(stream.length)
    paper, ours = published(stream.length, EPSILON, DELTA), corrected(by_root.sensitivity, mu_of(EPSILON, DELTA))
    return {
        "reg2 p": partial(privincreg2, stream, by_tree, paper, rows),
        "reg2": partial(privincreg2, stream, by_root, ours, rows),
    }


def _by_frank_wolfe(stream: Stream) -> dict[str, Fit]:
    every = every_for_frank_wolfe(stream.length, stream.width, SQUARED, stream.within, EPSILON)
    fits = stream.length // every
    costs = {"fw p": concentrated(*published_fit(fits, EPSILON, DELTA)), "fw": concentrated(EPSILON, DELTA) / fits}
    return {
        name: partial(privincerm, stream, frank_wolfe(SQUARED, stream.within, rho), every)
        for name, rho in costs.items()
    }


def robust(stream: Stream, share: float, entries: int, rows: int, releases: int, seed: int) -> tuple[Point, Point]:
    """Excess risk on the rows of G, where all are in G and where a part of the stream is not, by a test of sparsity."""
    spoilt = belonging(
        outside(stream, share, np.random.default_rng([seed, 1])), lambda x: (x != 0).sum(axis=1) <= entries
    )
    clean = point(stream, projecting(stream, rows), releases, seed)
    found = point(spoilt, projecting(spoilt, rows), releases, seed)
    found.data = f"{stream.name}, {share:.0%} of rows outside G"
    return clean, found


def logistic(stream: Stream, releases: int, seed: int) -> Point:
    """Excess risk of PrivIncERM for the logistic loss, at the end of the stream."""
    every = every_for_descent(stream.length, stream.width, EPSILON)
    best = _without_noise(LOGISTIC, stream)
    least = _total(LOGISTIC, stream, best)
    found = Point(stream.name, stream.length, stream.width)
    found.excess["trivial"] = [_total(LOGISTIC, stream, np.zeros(stream.width)) - least]
    for place, name in enumerate(("erm p", "erm")):
        random, solver = (
            np.random.default_rng([seed, place]),
            _descent(LOGISTIC, stream, every, paper=name.endswith(" p")),
        )
        weights = [privincerm(stream, solver, every, random)[-1] for _ in range(releases)]
        found.excess[name] = [_total(LOGISTIC, stream, each) - least for each in weights]
    return found


def _descent(loss: Loss, stream: Stream, every: int, *, paper: bool) -> Solver:
    return descent(loss, stream.within, fit_mu(stream.length // every, EPSILON, DELTA, paper=paper))


def _without_noise(loss: Loss, stream: Stream) -> Floats:
    weights, length = np.zeros(stream.width), 1 / (loss.bend * stream.length)
    for _ in range(10_000):
        gradient = stream.x.T @ loss.slope(stream.x @ weights, stream.y)
        after = stream.within.project(weights - length * gradient)
        if np.linalg.norm(after - weights) <= 1e-9:
            break
        weights = after
    return weights


def _total(loss: Loss, stream: Stream, weights: Floats) -> float:
    return float(loss.value(stream.x @ weights, stream.y).sum())


def _nothing(stream: Stream) -> Floats:
    return stream.within.project(np.zeros(stream.width))


def bound_of_regression(length: int, width: int, radius: float) -> float:
    """Theorem 4.2 with the constant 1 and beta = .05."""
    logarithm = math.log(length) ** 1.5 * math.sqrt(math.log(1 / DELTA))
    found: float = logarithm * radius**2 * (math.sqrt(width) + math.sqrt(math.log(length / 0.05))) / EPSILON
    return found


def bound_of_batch(length: int, width: int, steepest: float, radius: float) -> float:
    """Theorem 3.1, part 1, with the constant 1 and without its power of log(T/beta)."""
    scale: float = (length * width) ** (1 / 3) * math.log(1 / DELTA) ** 2.5 / EPSILON ** (2 / 3)
    return min(scale, length) * steepest * radius


def rows_of_projection(length: int, width: int, entries: int) -> float:
    """m of algorithm 3 with the constant 1 and beta = .05, for rows with few entries and the L1 ball of radius 1."""
    spread = math.sqrt(2 * entries * math.log(width / entries)) + math.sqrt(2 * math.log(2 * width))
    found: float = (length / spread) ** (2 / 3) * max(spread**2, math.log(length / 0.05))
    return found
