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
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import hyp2f1

from dprelease.arrays import Floats
from dprelease.mechanisms.stream.factorization import coefficients

Times = npt.NDArray[np.int64]
HALF = Fraction(1, 2)
DECAY, SHIFT = 0.43, 0.6
"""g and s of `unbounded`: about the best for the worst ratio of its errors to those with T known."""

_AT_ONCE = 256
_TERMS = 1 << 12


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
    forward = coefficients(HALF, length)

    def rows(times: Times) -> Floats:
        lags = times[:, None] - 1 - np.arange(length)
        return np.where(lags >= 0, forward[np.maximum(lags, 0)], 0.0)

    return Factorization(length, float(np.linalg.norm(forward)), rows, lambda: _toeplitz(forward))


def normalised(length: int) -> Factorization:
    """The same with every column of the T x T matrix C scaled to norm 1, which gives early steps less of the noise."""
    norms = np.sqrt(np.cumsum(coefficients(HALF, length) ** 2))[::-1]
    return _scaled(length, np.ones(length), norms)


def unbounded(length: int) -> Factorization:
    """The first T steps of a factorisation for a stream of any length, which nobody needs to know.

        C_ti = c_(t - i) ((i + s)/(t + s))^g / n_i,     n_i^2 = sum_(k >= 0) c_k^2 (1 + k/(i + s))^-2g,     g = .43, s = .6,

    with the coefficients c of the square root. Every column of the infinite matrix has norm 1. For lags below its own step a column
    is as the square root, beyond them it falls faster, so that early steps do not pay for a far future. After K terms what
    is left of n_i^2 is taken for its upper bound by c_k^2 < 1/(pi k), an integral.

    The problem is that of Jacobsen and Fawaz (2025), Private continual counting of unbounded streams, whose factor is Toeplitz.
    """
    place = np.arange(1, length + 1, dtype=np.float64) + SHIFT
    squares, k = coefficients(HALF, _TERMS) ** 2, np.arange(_TERMS)
    norms = np.array([float(squares @ (1 + k / each) ** (-2 * DECAY)) for each in place])
    beyond = (_TERMS - 1) / place
    norms += beyond ** (-2 * DECAY) * hyp2f1(2 * DECAY, 2 * DECAY, 1 + 2 * DECAY, -1 / beyond) / (2 * DECAY * math.pi)
    outer: Floats = place**-DECAY
    return _scaled(length, outer, np.sqrt(norms) * outer)


def _scaled(length: int, outer: Floats, inner: Floats) -> Factorization:
    """C = diag(outer) S diag(1/inner) with the Toeplitz square root S, of sensitivity 1."""
    forward, inverse = coefficients(HALF, length), coefficients(-HALF, length)

    def rows(times: Times) -> Floats:
        """Row t of A diag(inner) S^-1 diag(1/outer): a correlation of the first t of `inner` with the coefficients of S^-1."""
        kept = np.where(np.arange(length) < times[:, None], inner, 0.0)
        size = 1 << (2 * length - 1).bit_length()
        product = np.fft.rfft(kept, size) * np.conj(np.fft.rfft(inverse, size))
        found: Floats = np.fft.irfft(product, size)[:, :length] / outer
        return found

    return Factorization(length, 1.0, rows, lambda: outer[:, None] * _toeplitz(forward) / inner)


def _ones(length: int) -> Floats:
    return np.tril(np.ones((length, length)))


def _toeplitz(column: Floats) -> Floats:
    lags = np.subtract.outer(np.arange(len(column)), np.arange(len(column)))
    return np.where(lags >= 0, column[np.maximum(lags, 0)], 0.0)
