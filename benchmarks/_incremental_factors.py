"""Factorisations A = B C of the prefix sums of T steps, for continual release with Gaussian noise: B (C x + z).

A is lower triangular with ones, C is lower triangular, and z has independent entries of standard deviation |C| Delta/mu, |C| being
the largest norm of a column of C and Delta how far one step of x moves: then everything released together is mu-GDP. In
units of Delta/mu prefix t errs by |C| |row t of B|.

The discrete Gaussian of a release needs an integer C; here numbers are floats, for simulations only.

Sources: Dwork, Naor, Pitassi and Rothblum (2010) and Chan, Shi and Song (2011) for the tree; Henzinger, Upadhyay and Upadhyay
(2023), Almost tight error bounds on differentially private continual counting, for the square root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.release.release import Floats

Times = npt.NDArray[np.int64]
_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Factorization:
    """A factorisation of the prefix sums of T steps.

    Attributes:
        length: T.
        sensitivity: |C|.
        rows: (K,) steps, counted from 1, to (K, T) rows of B.
        encode: the whole C, (T, T).
    """

    length: int
    sensitivity: float
    rows: Callable[[Times], Floats]
    encode: Callable[[], Floats]

    @cached_property
    def deviations(self) -> Floats:
        """(T,) standard deviation of every prefix sum's error, in units of Delta/mu."""
        found = np.empty(self.length)
        for start in range(0, self.length, _AT_ONCE):
            times = np.arange(start + 1, min(start + _AT_ONCE, self.length) + 1)
            found[times - 1] = np.linalg.norm(self.rows(times), axis=1)
        return self.sensitivity * found

    @property
    def worst(self) -> float:
        """Largest of `deviations`."""
        return float(self.deviations.max())

    @property
    def root_mean_square(self) -> float:
        """Root of the mean of their squares."""
        return math.sqrt(float((self.deviations**2).mean()))

    def noise(self, times: Times, width: int, random: np.random.Generator) -> Floats:
        """(K, width) errors of some prefix sums for noise of standard deviation 1 in every entry of C x + z."""
        rows = self.rows(times)
        root = np.linalg.cholesky(rows @ rows.T)
        found: Floats = root @ random.normal(size=(len(times), width))
        return found


def levels(length: int) -> int:
    """L = floor(log2 T) + 1: in how many nodes of the tree a step is, at most."""
    return length.bit_length()


def coefficients(length: int, order: float = 0.5) -> Floats:
    """(length,) coefficients of (1 - x)^-order: c_0 = 1, c_k = c_(k-1) (k - 1 + order)/k."""
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((k - 1 + order) / k)])


def fresh(length: int) -> Factorization:
    """Every prefix sum by itself: C = A and B = I."""
    return Factorization(length, math.sqrt(length), lambda times: np.eye(length)[times - 1], lambda: _ones(length))


def tree(length: int) -> Factorization:
    """The binary tree: step t ends the node of the steps (t - lowest bit of t, t], and a prefix is the sum of at most L nodes."""

    def rows(times: Times) -> Floats:
        found = np.zeros((len(times), length))
        for place, time in enumerate(times):
            left = int(time)
            while left:
                found[place, left - 1] = 1.0
                left &= left - 1
        return found

    def encode() -> Floats:
        ends = np.arange(1, length + 1)
        starts, steps = ends - (ends & -ends), np.arange(length)
        return ((steps >= starts[:, None]) & (steps < ends[:, None])).astype(np.float64)

    return Factorization(length, math.sqrt(levels(length)), rows, encode)


def square_root(length: int) -> Factorization:
    """B = C, the Toeplitz square root of A: (1 - x)^-1/2 in powers of the shift."""
    return fractional(length, 0.5, length)


def fractional(length: int, order: float, ceiling: int | None = None) -> Factorization:
    """C = (1 - x)^-order and B = (1 - x)^-(1 - order), Toeplitz; with an order below 1/2 for streams of any length.

    The squares of all coefficients add up to Gamma(1 - 2 order)/Gamma(1 - order)^2, which is infinite from 1/2 on.

    Args:
        length: how many steps to look at.
        order: of C.
        ceiling: a public bound on T that the sensitivity is for; None for none.
    """
    if ceiling is None:
        squared = math.gamma(1 - 2 * order) / math.gamma(1 - order) ** 2
    else:
        squared = float((coefficients(ceiling, order) ** 2).sum())
    back = coefficients(length, 1 - order)

    def rows(times: Times) -> Floats:
        lags = times[:, None] - 1 - np.arange(length)
        return np.where(lags >= 0, back[np.maximum(lags, 0)], 0.0)

    return Factorization(length, math.sqrt(squared), rows, lambda: _toeplitz(coefficients(length, order)))


def normalised(length: int, order: float = 0.5) -> Factorization:
    """The same with every column of the T x T matrix C scaled to norm 1, which gives early steps less of the noise."""
    forward = coefficients(length, order)
    norms = np.sqrt(np.cumsum(forward**2))[::-1]
    inverse = coefficients(length, -order)

    def rows(times: Times) -> Floats:
        """Row t of A diag(norms) (1 - x)^order: a correlation of the first t norms with the coefficients of the latter."""
        kept = np.where(np.arange(length) < times[:, None], norms, 0.0)
        size = 1 << (2 * length - 1).bit_length()
        product = np.fft.rfft(kept, size) * np.conj(np.fft.rfft(inverse, size))
        found: Floats = np.fft.irfft(product, size)[:, :length]
        return found

    return Factorization(length, 1.0, rows, lambda: _toeplitz(forward) / norms)


def _ones(length: int) -> Floats:
    return np.tril(np.ones((length, length)))


def _toeplitz(column: Floats) -> Floats:
    lags = np.subtract.outer(np.arange(len(column)), np.arange(len(column)))
    return np.where(lags >= 0, column[np.maximum(lags, 0)], 0.0)
