"""Expected prediction error of a linear regression on a release, from public numbers and an assumed regression alone.

Scaled units throughout. The regression y = x w + e is assumed as R^2 = `AssumedModel.signal` of the outcome's variance v_y, to
which d features contribute equally; lambda_i is the variance of feature i that the other features leave free (1 / (C^-1)_ii
for a covariance C), so that w_i^2 lambda_i = R^2 v_y / d. An *error* is what a fit's predictions are off from those of
least squares on the private rows, squared and averaged over patients: (w' - w)^T C (w' - w) for its weights.

**Rows** (formula (1) of docs/methods.md, for features that differ). Let k released rows have the signal of n patients spread over
them, N = n (1 - rho), and noise of variance s_i^2 in an entry of feature i, theta_i = k s_i^2 / (N lambda_i) of its signal.
De-biased least squares are off by w' - w = C^-1 r with r = (1/N) [X^T (residuals) + k S w], a sum over k rows, so that

    error = tr(C^-1 Cov r) = k/(k-d-1) 1/N [ sum_i (1 + theta_i) (N tau^2 / k + s_y^2 + sum_i w_i^2 s_i^2)
                                             + sum_i theta_i w_i^2 s_i^2 ],   tau^2 = (1 - R^2) v_y.                (1)

The last sum, of higher order, comes from noise that is in features and residuals alike. If C were known
up to a factor, one would regress on the best guess of a row's signal, from which its own noise differs by s_i^2 / (1 +
theta_i) only: that takes the place of s_i^2 in the first line, and the second falls away. Method ``calibrated`` draws C's
spectrum together by as much as the rows allow and lies between the two, near the second for features as even as assumed,
near the first for related ones: `UNKNOWN` = half of each is taken. They differ much only where s_y^2 and tau^2 are
small. Without a mixing matrix k = n, and (1) contains the sampling error d tau^2 / n of the private rows, on the safe side.

**Moments.** Released are G + N, every entry of N with standard deviation s but for own entries: variance s^2 / v for numbers, 0
for binaries. With u = (-b_0, -w, 1) the least-squares equations of the true moments say G u = 0 in the rows of (1, x), so
those of the noisy ones are off by r = N u / n, and to first order w' - w = -C^-1 (r_i - m_i r_0)_i with m the features'
means. Entries of N are independent, and weights of any sign are equally likely, of which b_0 = m_y - sum m_i w_i consists, so

    error = sum_i Var(r_i - m_i r_0) / lambda_i
    Var(r_i - m_i r_0) = (s/n)^2 [ b_0^2 + (1 + m_i^2) |w|^2 - (1 - h_i) w_i^2 ] + (s_y/n)^2 (1 + m_i^2),            (2)

h_i = 1/v + 2 m_i^2 for numbers, 2 m_i^2 for binaries. For L dummies of a category h_i = 2 - L - 4 m_i + 2 m_i^2: the entries
between them are exact, and N_ii = N_i0. s_y is s, or what the association has where the outcome is an outcome only.
For even features around 0 this is the error (s / (n lambda))^2 (d + (d - 1 + 1/v) |w|^2) of the weights: it falls like 1/n.
Second order counts when 2 s sqrt(d) nears n lambda, where inverting G + N explodes; but then nothing is left unshrunk.

**Shrinking.** In coordinates in which C is I, both are d numbers theta + N(0, error/d), of which |theta|^2 = R^2 v_y is
signal. A Bayesian ridge, theta ~ N(0, (e/d) I) with e log-uniform on [1e-4, 1/3], multiplies what it sees by a factor in
[0, 1] that depends on its length alone; its risk is an integral over two numbers, the part along theta and the length of
the rest. `kept` is one minus this risk over the signal: below the threshold it is about 0, above it tends to
1 - error/signal. The prior is that of method ``calibrated``; ``shrinkage`` on moments comes to nearly the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv

from dprelease.arrays import Floats
from dprelease.data.column import EVEN_SPREAD

EXPLAINED = np.geomspace(1e-4, EVEN_SPREAD, 25)
"""Variances of an outcome, scaled units, that a fit's prior believes its features to explain."""

UNKNOWN = 0.5
"""How far the features' covariance counts as unknown, between 0 and 1."""

HALF = 0.5
"""Part of the signal that a useful fit keeps at least."""

_NODES = 24


@dataclass(frozen=True, eq=False)
class AssumedModel:
    """A regression as it is assumed, scaled units.

    Attributes:
        signal: R^2 of least squares on the private rows, in (0, 1].
        free: (d,) lambda_i.
        mean: (d,) m_i.
        outcome_variance: v_y.
        outcome_mean: m_y.
    """

    signal: float
    free: Floats
    mean: Floats
    outcome_variance: float
    outcome_mean: float

    @property
    def explained(self) -> float:
        """R^2 v_y."""
        return self.signal * self.outcome_variance

    @property
    def residual(self) -> float:
        """tau^2."""
        return self.outcome_variance - self.explained

    @property
    def squares(self) -> Floats:
        """(d,) w_i^2."""
        return self.explained / (len(self.free) * self.free)


def rows_error(
    assumed: AssumedModel, patients: float, outputs: int, noise: Floats, outcome_noise: float, unknown: float = UNKNOWN
) -> float:
    """Formula (1); infinite with too few rows.

    Args:
        assumed: the regression.
        patients: N.
        outputs: k, or n without a mixing matrix.
        noise: (d,) s_i^2.
        outcome_noise: s_y^2.
        unknown: 1 for de-biased least squares, 0 for a covariance of the features that is known up to a factor.
    """
    d = len(assumed.free)
    if outputs <= d + 1:
        return math.inf
    theta = outputs * noise / (patients * assumed.free)
    own = assumed.squares * noise
    within = assumed.residual * patients / outputs + outcome_noise + own @ (unknown + (1 - unknown) / (1 + theta))
    return float(outputs / (outputs - d - 1) * ((1 + theta).sum() * within + unknown * (theta @ own)) / patients)


def moments_error(assumed: AssumedModel, noise: float, own: Floats, outcome_noise: float) -> float:
    """Formula (2).

    Args:
        assumed: the regression.
        noise: s/n.
        own: (d,) h_i.
        outcome_noise: s_y/n.
    """
    squares, ends = assumed.squares, 1 + assumed.mean**2
    offset = assumed.outcome_mean**2 + float(assumed.mean**2 @ squares)  # b_0^2 for weights of any signs
    within = offset + ends * float(squares.sum()) - (1 - own) * squares
    return float(((noise**2 * within + outcome_noise**2 * ends) / assumed.free).sum())


def kept(signal: float, error: float, features: int) -> float:
    """Part of the signal that is left after shrinking; about 0, and possibly a little below, where there is none to be seen.

    Args:
        signal: R^2 v_y > 0, scaled units.
        error: before shrinking, > 0.
        features: d.
    """
    if not math.isfinite(error):
        return 0.0
    variance, prior = error / features, EXPLAINED / features
    along, weight, quantiles = _quadrature(features)
    first = (math.sqrt(signal) + math.sqrt(variance) * along)[:, None]
    rest = variance * quantiles
    spread = (prior + variance)[:, None, None]
    likelihood = -0.5 * (features * np.log(spread) + (first**2 + rest) / spread)
    belief = np.exp(likelihood - likelihood.max(axis=0))
    factor = (belief * prior[:, None, None] / spread).sum(axis=0) / belief.sum(axis=0)
    risk = ((factor * first - math.sqrt(signal)) ** 2 + factor**2 * rest).mean(axis=1) @ weight / weight.sum()
    return float(1 - risk / signal)


@lru_cache(maxsize=16)
def _quadrature(features: int) -> tuple[Floats, Floats, Floats]:
    """Nodes and weights of a normal law; chi^2 with d - 1 degrees of freedom, by the middles of parts of equal probability."""
    quantiles = np.zeros(1)
    if features > 1:
        quantiles = 2 * gammaincinv((features - 1) / 2, (np.arange(_NODES) + 0.5) / _NODES)
    return *np.polynomial.hermite_e.hermegauss(_NODES), quantiles


def bounded(error: float, reach: float) -> float:
    """Error of an estimate once it is drawn to the middle of the range it is known to lie in.

    Args:
        error: variance of the estimate.
        reach: variance of a uniform number in that range.
    """
    return error * reach / (error + reach)


@dataclass(frozen=True)
class ReleasedNoise:
    """How noisy the numbers of a release are, from public numbers alone.

    Attributes:
        variance: party to the noise variance of a released number of weight 1, scaled units: of an entry of its rows, or
            for sums, of a sum, per patient.
        columns: column to the noise variance of its released numbers.
        shape: what is released, in a few words.
        unit: what a released number is.
        trust: what parties have to trust one another for beyond their own noise; empty if nothing.
        levels: how noisy the number of patients of a level is, a sentence; empty where none is released.
        in_ranges: whether ranges are the bounds of its numbers.
        reuse: what it takes of an earlier release and what that saves, a clause; empty where nothing.
    """

    variance: Mapping[str, float]
    columns: Mapping[str, float]
    shape: str
    unit: str
    trust: str = ""
    levels: str = ""
    in_ranges: bool = False
    reuse: str = ""


@dataclass(frozen=True)
class Forecast:
    """Expected worth of one fit.

    Attributes:
        signal: R^2 of least squares on the private rows, as assumed.
        error_ratio: error of the fit before shrinking, in what is explained; infinite with too few released rows.
        kept: part of what is explained that the default method keeps.
        r2: share of the outcome's variance that the fit explains on the private rows; below 0 it is worse than the exact mean.
        constant_r2: the same of the released mean, which noise moves.
    """

    signal: float
    error_ratio: float
    kept: float
    r2: float
    constant_r2: float

    @property
    def coefficient_error(self) -> float:
        """Root mean square error of all coefficients, each times its feature's standard deviation, in their own size."""
        return math.sqrt(max(1 - self.kept, 0.0))

    @property
    def useful(self) -> bool:
        """Tells whether half of the signal or more is kept and the exact mean beaten."""
        return self.kept >= HALF and self.r2 > 0


def expected(assumed: AssumedModel, error: float, *, constant: float, slopes: float) -> Forecast:
    """A forecast from errors.

    Args:
        assumed: the regression.
        error: of the slopes before shrinking.
        constant: of the released mean.
        slopes: what unshrunk slopes add to the latter.
    """
    left = kept(assumed.explained, error, len(assumed.free))
    offset = constant + max(left, 0.0) * slopes
    return Forecast(
        signal=assumed.signal,
        error_ratio=error / assumed.explained,
        kept=left,
        r2=assumed.signal * left - offset / assumed.outcome_variance,
        constant_r2=-constant / assumed.outcome_variance,
    )
