"""Moments before clipping, out of moments of clipped rows, were the rows normal: the inverse of radial clipping.

Let t ~ N(m, S) be d numbers of a patient, in units in which they are clipped to the unit ball: c = t min(1, 1/|t|). With
S = U diag(l) U' and |m| small beside the ball, E c c' has the same eigenvectors, for a ball does not mind rotations. With Q the
sum of l_b u_b^2 over independent standard normal u,

    cov(c) = U diag(l k) U',       k_a = E u_a^2 min(1, 1/Q),
    E c = G m,  G = U diag(h) U',  h_a = E u_a^2 min(1, 1/sqrt(Q)),
    cov(c, v) = G cov(t, v)        for v jointly normal with t,

the last two by Stein's lemma: G is the mean slope of c. Along these eigenvectors a covariance between the balls of t and v keeps,
nearly,

    h_a h_b + corr(|t|^2, |v|^2) cov(f_a, f_b),      corr = tr(S_tv S_vt) / sqrt(tr S_tt^2 tr S_vv^2),

with f_a = min(1, 1/sqrt(Q)) under the law that has mean h_a, and cov where the Q of both balls rise together: h_a h_b where t and v
are independent, and k_a where they are the same numbers, as are those of one ball. A mean loses of its distance from the range's
centre alone, and a correlation another part than a spread.

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
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dprelease.arrays import Floats
from dprelease.data.ranges import REACH
from dprelease.mechanisms.moments.clipping import Ball
from dprelease.mechanisms.moments.released import Moments
from dprelease.privacy.public_stream import PublicNormals

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_LEVELS, _SHARES = (_NODES + 1) / 2, _WEIGHTS / 2
_TURNS = 12
"""Turns after which what is kept no longer moves: each takes off two thirds of the error at least."""
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

    @classmethod
    def of(cls, moments: Moments, published: Mapping[str, tuple[float, float]]) -> PublishedSpreads:
        """The spreads that a first round published; of other numbers those that their ranges are made of, as if exact.

        Args:
            moments: of rows in ranges.
            published: number to its standard deviation and the error of that, original units.
        """
        found = cls(np.full(len(moments.names), 1 / REACH), np.zeros(len(moments.names)))
        for each in moments.ranges:
            index, _, half_width = moments.lookup(each.name)
            told = published.get(each.name, (each.deviation * half_width, 0.0))
            found.deviation[index - 1], found.error[index - 1] = told[0] / half_width, told[1] / half_width
        return found

    def total(self, ball: Ball) -> tuple[float, float]:
        """Sum of a ball's variances in units of its radii, and how much its logarithm grows with one error of it."""
        chosen, radii = np.array(ball.places) - 1, np.array(ball.radii)
        deviation, error = self.deviation[chosen] / radii, self.error[chosen] / radii
        total, grown = float((deviation**2).sum()), (deviation + error) ** 2 - deviation**2
        return total, math.log1p(float(np.sqrt((grown**2).sum())) / total)


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
    whole, slopes = _inverted(draws, balls, published)
    mean = whole[:, 0, 1:]
    products = mean[:, :, None] * mean[:, None, :]
    whole[:, 1:, 1:] = products + _feasible(whole[:, 1:, 1:] - products)
    return BeforeClipping(whole, slopes)


def _inverted(draws: Floats, balls: Sequence[Ball], published: PublishedSpreads) -> BeforeClipping:
    """`before_clipping`, positive semidefinite or not."""
    scores = PublicNormals(_LABEL).normal(len(draws), len(balls)) if len(draws) > 1 else np.zeros((1, len(balls)))
    mean = draws[:, 0, 1:]
    clipped = draws[:, 1:, 1:] - mean[:, :, None] * mean[:, None, :]
    turn = np.broadcast_to(np.eye(mean.shape[1]), clipped.shape).copy()
    back, h, factors = turn.copy(), np.ones_like(mean), np.ones((*mean.shape, len(_LEVELS)))
    member = np.zeros((len(balls), mean.shape[1]))
    for number, (ball, score) in enumerate(zip(balls, scores.T, strict=True)):
        chosen, radii = np.array(ball.places) - 1, np.array(ball.radii)
        places = np.ix_(np.arange(len(draws)), chosen, chosen)
        values, vectors = np.linalg.eigh(clipped[places] / np.outer(radii, radii))
        total, error = published.total(ball)
        at = _eigenvalues(np.maximum(values, _NOTHING), total * np.exp(error * score[:, None]))
        turn[places], back[places] = vectors / radii[:, None], vectors.mT * radii
        h[:, chosen], factors[:, chosen], member[number, chosen] = _kept(at, 0.5), _factors(at), 1.0
    turned = turn.mT @ clipped @ turn
    covariance = back.mT @ (turned / _kept_together(turned, h, factors, member)) @ back
    slopes = back.mT @ (turn.mT / h[:, :, None])
    x = np.concatenate([np.ones((len(draws), 1)), np.einsum("tij,tj->ti", slopes, mean)], axis=1)
    whole = x[:, :, None] * x[:, None, :]
    whole[:, 1:, 1:] += covariance
    return BeforeClipping(whole, slopes)


def _kept_together(turned: Floats, h: Floats, factors: Floats, member: Floats) -> Floats:
    """(T, p, p) part that each covariance keeps.

    Args:
        turned: (T, p, p) clipped covariances along eigenvectors of balls.
        h: (T, p) of these, 1 outside of balls.
        factors: (T, p, 24) likewise, of `_factors`.
        member: (B, p) 1 where an eigenvector is one of a ball, 0 elsewhere.
    """
    apart = h[:, :, None] * h[:, None, :]
    centred = factors - factors @ _SHARES[:, None]
    together, kept = (centred * _SHARES) @ centred.mT, apart
    for _ in range(_TURNS):
        squares = member @ (turned / kept) ** 2 @ member.T
        own = np.sqrt(np.diagonal(squares, axis1=1, axis2=2))
        most = own[:, :, None] * own[:, None, :]
        alike = np.minimum(np.divide(squares, most, out=np.zeros_like(squares), where=most > 0), 1.0)
        kept = apart + together * (member.T @ alike @ member)
    return kept


def _eigenvalues(clipped: Floats, total: Floats) -> Floats:
    """(T, d) eigenvalues at which k and h are worked out, from those after clipping, and (T, 1) sums that ranges say."""
    corrected = at = clipped
    for _ in range(_TURNS):
        at = corrected * (total / corrected.sum(axis=1, keepdims=True))
        corrected = clipped / _kept(at, 1.0)
    return at


def _kept(eigenvalues: Floats, power: float) -> Floats:
    """(T, d) E u_a^2 min(1, Q^-power): k for power 1, h for power 1/2.

    An integral over s of P(min(1, Q^-power) > s), with P that of Q with three degrees of freedom for u_a.
    """
    from scipy.special import gammainc  # slow to load

    degrees, reach = _law(eigenvalues)
    below: Floats = gammainc(degrees / 2, reach * _LEVELS ** (-1 / power) / 2)
    return below @ _SHARES


def _factors(eigenvalues: Floats) -> Floats:
    """(T, d, 24) min(1, Q^-1/2) at quantiles of the same Q."""
    from scipy.special import gammaincinv

    degrees, reach = _law(eigenvalues)
    found: Floats = np.minimum(1.0, np.sqrt(reach / (2 * gammaincinv(degrees / 2, _LEVELS))))
    return found


def _law(eigenvalues: Floats) -> tuple[Floats, Floats]:
    """Degrees of freedom of Q, and what it is multiplied by to be a chi^2 of these, (T, d, 1) each."""
    mean = eigenvalues.sum(axis=1, keepdims=True) + 2 * eigenvalues
    half = (eigenvalues**2).sum(axis=1, keepdims=True) + 2 * eigenvalues**2
    return (mean**2 / half)[..., None], (mean / half)[..., None]


def _feasible(covariance: Floats) -> Floats:
    """Covariances, (T, p, p), with the same variances and correlations made positive semidefinite by cutting off eigenvalues."""
    correlations, deviations = standardised(covariance)
    values, vectors = np.linalg.eigh(correlations)
    cut = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.mT
    return deviations[:, :, None] * deviations[:, None, :] * standardised(cut)[0]


def standardised(covariance: Floats) -> tuple[Floats, Floats]:
    """Correlations (..., p, p) of covariances, 0 of what has no variance, and standard deviations (..., p)."""
    deviations = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
    products = deviations[..., :, None] * deviations[..., None, :]
    return np.divide(covariance, products, out=np.zeros_like(covariance), where=products > 0), deviations
