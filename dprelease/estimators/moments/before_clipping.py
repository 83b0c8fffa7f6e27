"""Moments before clipping, out of moments of clipped rows, were the rows normal: the inverse of radial clipping.

Let t ~ N(m, S) be d numbers of a patient, in units in which they are clipped to the unit ball: c = t min(1, 1/|t|). With
S = U diag(l) U' and |m| small beside the ball, E c c' has the same eigenvectors, for a ball does not mind rotations. With Q the
sum of l_b u_b^2 over independent standard normal u,

    cov(c) = U diag(l k) U',       k_a = E u_a^2 min(1, 1/Q),
    E c = G m,  G = U diag(h) U',  h_a = E u_a^2 min(1, 1/sqrt(Q)),
    cov(c, v) = G cov(t, v)        for v jointly normal with t,

the last two by Stein's lemma: G is the mean slope of c. Between two balls both sides have their G, to first order in the
covariance between them. A mean loses of its distance from the range's centre alone, and a correlation another part than a spread.

The expectations are those of min(1, 1/Q) where u_a^2 has three degrees of freedom. The law of that Q is taken for a scaled chi^2
of the same mean and variance (Satterthwaite 1946, Biometrics Bulletin 2:110). It is exact where all l are equal or one is
alone, and within half a percent of a spread elsewhere.

The sum of the l at which k and h are worked out is that of the published spreads, which are about unclipped rows. Only their
proportions come from the clipped covariance. To let clipped moments say the sum as well takes long tails for small spreads and
short ones for large spreads, at up to three times the error (docs/methods.md, "Clipped rows").

A number of a norm is also clipped to its range, which takes at most half a percent of its variance and is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dprelease.estimators.moments.public_normals import PublicNormals
from dprelease.mechanisms.moments.clipping_bias import Ball
from dprelease.release.release import Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_LEVELS, _SHARES = (_NODES + 1) / 2, _WEIGHTS / 2
_TURNS = 12
"""Turns after which the proportions of the l no longer move: each takes off two thirds of the error at least."""
_NOTHING = 1e-12
_LABEL = hashlib.sha256(b"dprelease before clipping 1").digest()


class PublishedSpreads(NamedTuple):
    """Standard deviations of unclipped rows, as ranges say them.

    Attributes:
        deviation: (p,) in scaled units; read for numbers in balls alone.
        error: (p,) its own standard deviation.
    """

    deviation: Floats
    error: Floats

    def total(self, ball: Ball) -> tuple[float, float]:
        """Sum of a ball's variances in units of its radii, and the standard deviation of the logarithm of that."""
        chosen, radii = np.array(ball.places) - 1, np.array(ball.radii)
        deviation, error = self.deviation[chosen] / radii, self.error[chosen] / radii
        total = float((deviation**2).sum())
        return total, 2 * float(np.sqrt(((deviation * error) ** 2).sum())) / total


class BeforeClipping(NamedTuple):
    """Draws of moments before clipping.

    Attributes:
        draws: (T, p+1, p+1) of (1/n) sum x x^T; positive semidefinite.
        slopes: (T, p, p) what the means of clipped rows, from their centres, were multiplied by.
    """

    draws: Floats
    slopes: Floats


def before_clipping(draws: Floats, balls: Sequence[Ball], published: PublishedSpreads) -> BeforeClipping:
    """Moments that normal rows had, given their moments after clipping.

    Args:
        draws: (T, p+1, p+1) of (1/n) sum x x^T of clipped rows, in scaled units, in which ranges have centre 0.
        balls: what rows were clipped to.
        published: spreads before clipping, whose errors are drawn along.
    """
    scores = PublicNormals(_LABEL).normal(len(draws), len(balls)) if len(draws) > 1 else np.zeros((1, len(balls)))
    mean = draws[:, 0, 1:]
    clipped = draws[:, 1:, 1:] - mean[:, :, None] * mean[:, None, :]
    slopes = np.broadcast_to(np.eye(mean.shape[1]), clipped.shape).copy()
    blocks = []
    for ball, score in zip(balls, scores.T, strict=True):
        radii = np.array(ball.radii)
        places = np.ix_(np.arange(len(draws)), np.array(ball.places) - 1, np.array(ball.places) - 1)
        unit = np.outer(radii, radii)
        values, vectors = np.linalg.eigh(clipped[places] / unit)
        values = np.maximum(values, _NOTHING)
        total, error = published.total(ball)
        found = _eigenvalues(values, total * np.exp(error * score[:, None]))
        slope = (vectors / _kept(found.at, 0.5)[:, None, :]) @ vectors.mT
        slopes[places] = slope * (radii[:, None] / radii)
        blocks.append((places, (vectors * found.unclipped[:, None, :]) @ vectors.mT * unit))
    covariance = slopes @ clipped @ slopes.mT
    for places, block in blocks:
        covariance[places] = block
    shifted = np.einsum("tij,tj->ti", slopes, mean)
    x = np.concatenate([np.ones((len(draws), 1)), shifted], axis=1)
    matrices = x[:, :, None] * x[:, None, :]
    matrices[:, 1:, 1:] += _feasible(covariance)
    return BeforeClipping(matrices, slopes)


class _Eigenvalues(NamedTuple):
    """Of covariances before clipping.

    Attributes:
        unclipped: (T, d).
        at: (T, d) those at which k and h are worked out.
    """

    unclipped: Floats
    at: Floats


def _eigenvalues(clipped: Floats, total: Floats) -> _Eigenvalues:
    """From eigenvalues of the clipped covariance, (T, d), and the sums that ranges say, (T, 1)."""
    unclipped = clipped
    for _ in range(_TURNS):
        at = unclipped * (total / unclipped.sum(axis=1, keepdims=True))
        unclipped = clipped / _kept(at, 1.0)
    return _Eigenvalues(unclipped, at)


def _kept(eigenvalues: Floats, power: float) -> Floats:
    """(T, d) E u_a^2 min(1, Q^-power): k for power 1, h for power 1/2.

    An integral over s of P(min(1, Q^-power) > s), with P that of Q with three degrees of freedom for u_a.
    """
    from scipy.special import gammainc  # slow to load

    mean = eigenvalues.sum(axis=1, keepdims=True) + 2 * eigenvalues
    half = (eigenvalues**2).sum(axis=1, keepdims=True) + 2 * eigenvalues**2
    degrees, reach = mean**2 / half, mean / half
    below: Floats = gammainc(degrees[..., None] / 2, reach[..., None] * _LEVELS ** (-1 / power) / 2)
    return below @ _SHARES


def _feasible(covariance: Floats) -> Floats:
    """Covariances, (T, p, p), with the same variances and correlations made positive semidefinite by cutting off eigenvalues."""
    deviation = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
    scale = deviation[:, :, None] * deviation[:, None, :]
    values, vectors = np.linalg.eigh(np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0))
    cut = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.mT
    own = np.sqrt(np.diagonal(cut, axis1=1, axis2=2))
    unit = own[:, :, None] * own[:, None, :]
    found: Floats = scale * np.divide(cut, unit, out=np.zeros_like(cut), where=unit > 0)
    return found
