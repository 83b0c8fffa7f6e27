"""Streams of rows with |x| <= 1 and |y| <= 1, and how far weights are from the best of a set on every prefix.

The paper has theorems and no data, so streams are made up:

    dense     x even on the unit sphere, y = <x, w> + noise with |w|_2 = 1 in the L2 ball of radius 1
    sparse    x with k entries of 1/sqrt(k) up to sign, columns drawn like 1/rank; w has three weights on the most frequent
              columns, in the L1 ball of radius 1. The widths of both sets are small.
    labels    x as in dense, y = +-1 by a logistic model

Noise of y has standard deviation .1. Excess risk is what the paper bounds: the sum of losses over the prefix less the least one
in the set, at its largest over the steps looked at.

Source: Kasiviswanathan, Nissim and Jin (2017), definition 1 and section 5.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.paper_incremental.factors import Times
from dprelease.arrays import Floats
from dprelease.estimators.baselines.constrained import ConvexSet, minimum

RESIDUAL = 0.1
BACK = 32
"""Steps are looked at from T/32 on."""
STILL = 1e-9


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows in the order of their steps.

    Attributes:
        name: of the kind.
        x: (T, d).
        y: (T,).
        within: set of the weights.
    """

    name: str
    x: Floats
    y: Floats
    within: ConvexSet

    @property
    def length(self) -> int:
        """T."""
        return len(self.x)

    @property
    def width(self) -> int:
        """d."""
        return int(self.x.shape[1])

    @cached_property
    def times(self) -> Times:
        """(K,) the steps looked at: powers of two, where a tree errs least, and one step before them, where it errs most."""
        powers = [1 << k for k in range(self.length.bit_length()) if self.length // BACK <= 1 << k <= self.length]
        found = {each for power in powers for each in (power - 1, power) if each}
        return np.array(sorted({*found, self.length}), np.int64)

    @cached_property
    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Sums of x x', (K, d, d), of x y, (K, d), and of y^2, (K,), over the prefixes looked at."""
        return moments_at(self.x, self.y, self.times)

    @cached_property
    def least(self) -> Floats:
        """(K,) the least sum of squared errors within the set."""
        xx, xy, _ = self.moments
        best = [minimum(matrix, across, self.within, STILL) for matrix, across in zip(xx, xy, strict=True)]
        return self.squared_errors(np.array(best))

    def squared_errors(self, weights: Floats) -> Floats:
        """(K,) sums of squared errors of weights, (K, d), one for each prefix looked at."""
        xx, xy, yy = self.moments
        found: Floats = np.einsum("kd,kde,ke->k", weights, xx, weights) - 2 * (weights * xy).sum(axis=1) + yy
        return found

    def excess(self, weights: Floats) -> float:
        """Largest excess risk over the prefixes looked at, squared loss."""
        return float((self.squared_errors(weights) - self.least).max())


def moments_at(x: Floats, y: Floats, times: Times) -> tuple[Floats, Floats, Floats]:
    """Sums of x x', x y and y^2 over prefixes."""
    edges = [0, *times]
    parts = [slice(start, stop) for start, stop in zip(edges, times, strict=False)]
    xx = np.cumsum([x[part].T @ x[part] for part in parts], axis=0)
    xy = np.cumsum([x[part].T @ y[part] for part in parts], axis=0)
    yy = np.cumsum([y[part] @ y[part] for part in parts], axis=0)
    return xx, xy, yy


def dense(length: int, width: int, random: np.random.Generator) -> Stream:
    """Rows of full width in the L2 ball."""
    x, (truth,) = _sphere(length, width, random), _sphere(1, width, random)
    y = np.clip(x @ truth + RESIDUAL * random.normal(size=length), -1, 1)
    return Stream("dense, L2 ball", x, y, ConvexSet("l2", 1.0))


def labels(length: int, width: int, random: np.random.Generator) -> Stream:
    """Labels of +-1 for logistic regression in the L2 ball of radius 4."""
    x, (truth,) = _sphere(length, width, random), _sphere(1, width, random)
    likely = 1 / (1 + np.exp(-4 * (x @ truth)))
    return Stream("labels, L2 ball", x, np.where(random.random(length) < likely, 1.0, -1.0), ConvexSet("l2", 4.0))


def sparse(length: int, width: int, entries: int, random: np.random.Generator) -> Stream:
    """Rows with few entries in the L1 ball."""
    frequency = np.log(1 / np.arange(1, width + 1)) + random.gumbel(size=(length, width))
    chosen = np.argpartition(-frequency, entries - 1, axis=1)[:, :entries]
    x = np.zeros((length, width))
    signs = random.choice([-1.0, 1.0], (length, entries))
    np.put_along_axis(x, chosen, signs / math.sqrt(entries), axis=1)
    truth = np.zeros(width)
    truth[:3] = 0.5, -0.3, 0.2
    y = np.clip(x @ truth + RESIDUAL * random.normal(size=length), -1, 1)
    return Stream("sparse, L1 ball", x, y, ConvexSet("l1", 1.0))


def outside(stream: Stream, share: float, random: np.random.Generator) -> Stream:
    """The same with part of its rows replaced by dense ones that contradict it: y = -1 in the direction of the first column."""
    x, y, replaced = stream.x.copy(), stream.y.copy(), random.random(stream.length) < share
    wild = _sphere(int(replaced.sum()), stream.width, random)
    wild[:, 0] = np.abs(wild[:, 0])
    x[replaced], y[replaced] = wild, -1.0
    return Stream(f"{stream.name}, {share:.0%} of rows outside", x, y, stream.within)


def _sphere(count: int, width: int, random: np.random.Generator) -> Floats:
    found = random.normal(size=(count, width))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
