"""Noise of private incremental regression: as published, and as its promise needs it.

Neighbours are streams of the same public length T that differ in the row of one step, with |x| <= 1 and |y| <= 1. One row moves
x y by 2 and x x' by sqrt(2), where the paper has 2 for both; both together, with one standard deviation s, are sqrt(4.5)/s-GDP
(docs/guarantees.md, "Where the papers differ", both at once). A matrix has noise of standard deviation s on its diagonal and
s/sqrt(2) off it, which is what independent noise on all of its d^2 entries leaves when it is made symmetric.

    tree, published    log(T) 2 sqrt(2 ln(2/delta'))/epsilon' for every node, (epsilon', delta') = (epsilon, delta)/2 for each
                       of two trees. A step is in up to L = floor(log2 T) + 1 nodes: the noise is none at T = 1, too small at T
                       = 2 and far too large later. The paper does not say which logarithm; the natural one is taken unless said
                       otherwise.
    corrected          sqrt(4.5) |C|/mu for any factorisation, |C| = sqrt(L) for the tree
    batch fits         published: epsilon/(2 sqrt(2 l ln(2/delta))), delta/(2 l) for each of l; corrected: mu/sqrt(l)

Source: Kasiviswanathan, Nissim and Jin (2017), algorithms 1, 2 and 4; zero-concentrated privacy by Bun and Steinke (2016), its
(epsilon, delta) by Canonne, Kamath and Steinke (2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from scipy.optimize import brentq, minimize_scalar

from benchmarks.paper_incremental.factors import levels
from benchmarks.paper_primo.calibration import covariance_ball
from dprelease.mechanisms.moments.calibration import joint
from dprelease.mechanisms.moments.sensitivity import association_bound
from dprelease.privacy.gaussian import epsilon_of, mu_of

LEAF = math.sqrt(4.5)
"""By how much one row moves x x' and x y together, in standard deviations that are the same for both."""


@dataclass(frozen=True)
class Scales:
    """Standard deviations of the noise in the steps of C x.

    Attributes:
        matrix: of an entry on the diagonal of x x'; sqrt(2) times that of one off it.
        vector: of an entry of x y.
    """

    matrix: float
    vector: float

    def mu(self, sensitivity: float) -> float:
        """What both together keep, for columns of C of norm `sensitivity`; infinite without noise."""
        if not self.matrix or not self.vector:
            return math.inf
        first, second = (Fraction(sensitivity / sd) ** 2 for sd in (self.matrix, self.vector))
        one = Fraction(1)
        return math.sqrt(joint(first * covariance_ball(one, 2), second * association_bound(one, one)))


def published_node(
    length: int, moved: float, epsilon: float, delta: float, log: Callable[[float], float] = math.log
) -> float:
    """The paper's standard deviation of a node of a tree over T steps.

    Args:
        length: T.
        moved: Delta_2 of one step.
        epsilon: of this tree.
        delta: of this tree.
        log: base of the logarithm of T.
    """
    return log(length) * moved * math.sqrt(2 * math.log(2 / delta)) / epsilon


def published(length: int, epsilon: float, delta: float) -> Scales:
    """The paper's two trees, half of (epsilon, delta) each."""
    node = published_node(length, 2.0, epsilon / 2, delta / 2)
    return Scales(node, node)


def corrected(sensitivity: float, mu: float) -> Scales:
    """One calibration of both for columns of C of norm `sensitivity`."""
    scale = LEAF * sensitivity / mu
    return Scales(scale, scale)


def kept_by_tree(length: int, moved: float, node: float, delta: float) -> float:
    """epsilon that a tree over T steps keeps at delta; infinite without noise."""
    return epsilon_of(math.sqrt(levels(length)) * moved / node, delta) if node else math.inf


def published_fit(fits: int, epsilon: float, delta: float) -> tuple[float, float]:
    """(epsilon', delta') of each of l batch fits on the same rows, by advanced composition as in the paper."""
    return epsilon / (2 * math.sqrt(2 * fits * math.log(2 / delta))), delta / (2 * fits)


def fit_mu(fits: int, epsilon: float, delta: float, *, paper: bool) -> float:
    """mu of each of l batch fits on the same rows."""
    return mu_of(*published_fit(fits, epsilon, delta)) if paper else mu_of(epsilon, delta) / math.sqrt(fits)


def concentrated(epsilon: float, delta: float) -> float:
    """rho such that rho-zCDP implies (epsilon, delta), for mechanisms whose noise is not Gaussian."""
    found: float = brentq(lambda rho: _log_delta(rho, epsilon) - math.log(delta), 1e-12, max(epsilon, 1.0), xtol=1e-15)
    return found


def _log_delta(rho: float, epsilon: float) -> float:
    """Least over alpha of ln[exp((alpha - 1)(alpha rho - epsilon))/(alpha - 1) (1 - 1/alpha)^alpha]."""

    def at(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return (alpha - 1) * (alpha * rho - epsilon) - log_excess + alpha * math.log1p(-1 / alpha)

    return float(minimize_scalar(at, bounds=(-10, 20), method="bounded", options={"xatol": 1e-12}).fun)
