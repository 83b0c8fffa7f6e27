"""Noise scales of PRIMO's algorithms: as published, and as their guarantee needs them.

As published (classical sigma, epsilon/2 + epsilon/2, delta/2 + delta/2, sums over rows), c = 2 sqrt(2 ln(2.5/delta)) / epsilon:

    X^T X   c R^2 on every entry of the upper triangle           X^T Y   c R S

S is sqrt(l) for labels within [-1, 1], max |y_i| where outcomes are public. The covariance of a ball moves by sqrt(2) R^2 and
the association by 2 R S, not R S, and yet both together keep less than epsilon = 1: the split and the classical sigma waste
more than that (`kept_mu`). Where features are public X^T X needs no noise, and X^T Y gets all of (epsilon, delta).

Corrected: `_primo_calibration.scales`, one exact calibration for both. Noise is continuous here, in double precision, which
is for simulations only; a release's is discrete and exact, and its grid adds nothing that could be seen.

Source: PRIMO (2023), Algorithms 1 and 2; docs/guarantees.md, "Where the papers differ".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.paper_primo.calibration import Body, covariance_ball, covariance_box, scales
from benchmarks.paper_primo.data import Features
from dprelease.arrays import Floats
from dprelease.mechanisms.moments.calibration import joint, split
from dprelease.mechanisms.moments.sensitivity import association_bound

_UNIT = Fraction(2) ** 48
"""Squared grid units of one, so fine that the grid's own variance vanishes."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the noise.

    Attributes:
        covariance: of an entry of X^T X off its diagonal; 0 where features are public.
        diagonal: of one on it.
        association: of an entry of X^T Y.
    """

    covariance: float
    diagonal: float
    association: float

    def add(self, xx: Floats, random: np.random.Generator) -> Floats:
        """X^T X, or a stack of them, with symmetric noise."""
        error = np.triu(random.normal(size=xx.shape) * self.covariance, 1)
        places = np.arange(xx.shape[-1])
        found: Floats = xx + error + np.swapaxes(error, -1, -2)
        found[..., places, places] += self.diagonal * random.normal(size=xx.shape[:-1])
        return found


def published(radius2: float, outcome2: float, epsilon: float, delta: float) -> Noise:
    """As the paper has it.

    Args:
        radius2: R^2.
        outcome2: S^2.
        epsilon: of the target.
        delta: of the target.
    """
    unit = classical(epsilon / 2, delta / 2)
    return Noise(unit * radius2, unit * radius2, unit * math.sqrt(radius2 * outcome2))


def corrected(features: Features, outcomes: int, outcome2: float, mu: float) -> Noise:
    """What mu needs, split by `moments.calibration.split`.

    Args:
        features: whose bounds count.
        outcomes: l.
        outcome2: S^2.
        mu: budget.
    """
    width, radius2 = features.x.shape[1], Fraction(features.radius2)
    second = association_bound(radius2, Fraction(outcome2))
    found = scales(
        covariance2(features.body, radius2, width) * _UNIT,
        second * _UNIT,
        Fraction(mu) ** 2,
        split(width, outcomes),
        features.body,
    )
    grid = math.sqrt(_UNIT)
    return Noise(found.off_diagonal / grid, found.diagonal / grid, found.association / grid)


def covariance2(body: Body, radius2: Fraction, width: int) -> Fraction:
    """Delta_1^2; columns of a box share R^2 evenly."""
    if body == "ball":
        return covariance_ball(radius2, width)
    return covariance_box((radius2 / width,) * width)


def kept_mu(body: Body, radius2: float, outcome2: float, width: int, noise: Noise) -> float:
    """mu of X^T X and X^T Y released with uniform noise on the upper triangle.

    A ball with noise sd on every entry of the triangle moves as far, in units of the noise, as with sd / sqrt(2) off the
    diagonal (docs/guarantees.md, "Where the papers differ").
    """
    radius = Fraction(radius2)
    first = covariance2(body, radius, width) / Fraction(noise.diagonal) ** 2
    second = association_bound(radius, Fraction(outcome2)) / Fraction(noise.association) ** 2
    return math.sqrt(joint(first, second))


def classical(epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25/delta)) / epsilon: the paper's standard deviation for a sensitivity of 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
