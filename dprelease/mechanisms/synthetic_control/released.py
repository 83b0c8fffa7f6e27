"""View of a release of a synthetic control: noisy weights and donors, and the public target beside them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.data.columns import Number, numbers
from dprelease.errors import IntegrityError
from dprelease.mechanisms.synthetic_control.check import largest
from dprelease.mechanisms.synthetic_control.sensitivity import WEIGHT_BITS
from dprelease.mechanisms.synthetic_control.terms import Law, SyntheticControlTerms, norm2_of
from dprelease.spec_base import SpecBase

NO_FIT = (
    "a release of a synthetic control has weights and donors' series for one target, and nothing to fit on or export. "
    "`coordinator plan REQUEST` says what to expect of one, `learner counterfactual` and `learner report` show its effect"
)


@dataclass(frozen=True, eq=False)
class Panel:
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
    kind: Literal["panel"] = "panel"

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
