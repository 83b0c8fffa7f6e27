"""View of a release of a synthetic control: noisy weights and donors, the public target, and the path that they leave.

The posterior of the path of one hospital's donors, scaled units, from what noisy weights and noisy donors add up to.

c_t = s m_t + h_t: `dprelease.estimators.counterfactual` says what these are, what is believed of them, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.data.columns import Number, numbers
from dprelease.errors import IntegrityError
from dprelease.mechanisms.synthetic_control.ridge import WEIGHT_BITS, Law, root_up
from dprelease.mechanisms.synthetic_control.terms import SyntheticControlTerms, norm2_of
from dprelease.mechanisms.view import View
from dprelease.spec_base import SpecBase

EVEN = 1 / 3
"""Variance of a number that is spread evenly over [-1, 1]."""
TOTAL = (1.0, 1.0)
"""Mean and variance of the sum of weights before the release."""

SURE = 64
"""Noise scales that a noise never exceeds, but for a probability below e^-2000."""
SURE_LAPLACE = 2048
"""The same of Laplace noise."""

NO_FIT = (
    "a release of a synthetic control has weights and donors' series for one target, and nothing to fit on or export. "
    "`coordinator plan REQUEST` says what to expect of one, `learner counterfactual` and `learner report` show its effect"
)


@dataclass(frozen=True, eq=False)
class Panel(View):
    """Noisy weights and donors of one hospital, beside the public target.

    Attributes:
        columns: the times, in order.
        before: T0.
        penalty: lambda.
        target: (T,) in original units.
        weights: (n,) ridge weights and noise.
        weight_sd: of the noise of a weight.
        donors: (n, T - T0) values from the intervention on and noise, scaled units.
        donor_sd: of the noise of a donor's value.
        norm2_bound: the largest |f|^2 that any donors could have, |y|^2/(2 lambda).
        law: of the noise.
        kind: what there is to read.
        clipping: none beside that to the bounds.
        coded: nothing is.
    """

    columns: tuple[Number, ...]
    before: int
    penalty: float
    target: Floats
    weights: Floats
    weight_sd: float
    donors: Floats
    donor_sd: float
    norm2_bound: float
    law: Law = "gaussian"
    kind: ClassVar[Literal["panel"]] = "panel"
    clipping: ClassVar[None] = None
    coded: ClassVar[tuple[()]] = ()
    no_fit: ClassVar[str] = NO_FIT

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the times."""
        return tuple(column.name for column in self.columns)

    @property
    def after(self) -> tuple[Number, ...]:
        """The times from the intervention on."""
        return self.columns[self.before :]

    def scale(self) -> tuple[Floats, Floats]:
        """(T - T0,) midpoints and half-widths of the times from the intervention on, original units."""
        ends = [(column.midpoint, column.half_width) for column in self.after]
        return np.array([each[0] for each in ends]), np.array([each[1] for each in ends])


def read(spec: SpecBase, terms: SyntheticControlTerms, weights: Integers, donors: Integers) -> Panel:
    """The panel of a release.

    Args:
        spec: the spec.
        terms: its terms.
        weights: (n, 1) noisy weights.
        donors: (n, T - T0) noisy codes.

    Raises:
        IntegrityError: a number is larger than any that the donors could give.
    """
    for integers, most in zip((weights, donors), largest(spec, terms), strict=True):
        if np.any((integers > most) | (integers < -most)):
            raise IntegrityError("a noisy number is larger than any that the declared bounds and noise could give")
    problem, (weight_sd, donor_sd) = terms.problem(spec), terms.deviations(spec.grid_bits)
    norm2 = norm2_of(problem.codes(spec.grid_bits), spec.grid_bits)
    return Panel(
        columns=numbers(spec.columns),
        before=problem.before,
        penalty=float(Fraction(terms.penalty)),
        target=np.array(terms.series),
        weights=weights[:, 0].astype(np.float64) * 2.0**-WEIGHT_BITS,
        weight_sd=weight_sd,
        donors=donors.astype(np.float64) * 2.0**-spec.grid_bits,
        donor_sd=donor_sd,
        norm2_bound=float(norm2 / (2 * Fraction(terms.penalty))),
        law=terms.law,
    )


def largest(spec: SpecBase, terms: SyntheticControlTerms) -> tuple[int, int]:
    """Largest absolute values of a weight and of a donor's code, noise included, in steps of their grids."""
    norm2 = norm2_of(terms.problem(spec).codes(spec.grid_bits), spec.grid_bits)
    weight = root_up(norm2 / (2 * Fraction(terms.penalty)) * 4**WEIGHT_BITS) + 1
    sure = SURE if terms.law == "gaussian" else SURE_LAPLACE
    return weight + sure * int(terms.weights_scale + 1), (1 << spec.grid_bits) + sure * int(terms.donors_scale + 1)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over weights and donors, noise included.

    Attributes:
        donors: n.
        total: sum of weights.
        means: (T1,) of donors.
        u2: |u|^2, weights without their mean.
        gram: (T1, T1) e'e, donors without their means.
        product: (T1,) u'e.
        weight_sd: of the noise of a weight.
        donor_sd: of the noise of a donor's value.
        norm2_bound: the largest |f|^2 that any donors could have.
    """

    donors: int
    total: float
    means: Floats
    u2: float
    gram: Floats
    product: Floats
    weight_sd: float
    donor_sd: float
    norm2_bound: float


def posterior(sums: Sums) -> tuple[Floats, Floats]:
    """(T1,) mean and (T1, T1) covariance of the path."""
    n, times = sums.donors, len(sums.means)
    f_noise, x_noise = sums.weight_sd**2, sums.donor_sd**2
    largest_u = _squares(sums.u2, n - 1, f_noise, sums.norm2_bound)
    largest_e = _squares(float(np.trace(sums.gram)), (n - 1) * times, x_noise, n * times) / times
    believed = TOTAL[1] / (TOTAL[1] + n * f_noise)
    s, s_variance = TOTAL[0] + believed * (sums.total - TOTAL[0]), believed * n * f_noise
    believed = EVEN / (EVEN + x_noise / n)
    m, m_variance = believed * sums.means, believed * x_noise / n
    spread = largest_e / (largest_e + (n - 1) * x_noise)  # of e'e, what is no noise
    moved = f_noise * (spread**2 * sums.gram + (1 - spread) * largest_e * np.ones((times, times)))
    noise = moved + x_noise * (largest_u + (n - 1) * f_noise) * np.eye(times)
    prior = largest_u * largest_e * (np.eye(times) + 1) / 2
    h_believed = np.linalg.solve(noise + prior, prior).T
    covariance = s_variance * np.outer(m, m) + (s**2 + s_variance) * m_variance * np.eye(times) + h_believed @ noise
    return s * m + h_believed @ sums.product, (covariance + covariance.T) / 2


def _squares(seen: float, freedom: int, noise: float, most: float) -> float:
    """A sum of squares without its noise, one standard error above its estimate, and at most what is possible."""
    return float(min(max(seen - freedom * noise, 0.0) + np.sqrt(2 * freedom) * noise + 2 * np.sqrt(seen * noise), most))
