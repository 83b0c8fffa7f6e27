"""Data-free rules for what a proposal leaves open: the number of mixing rows k and the anchor's weight rho.

Everything here is a function of n, the columns' public ranges and the privacy target: choosing k or rho by looking at
results would be a query of its own (privacy.md 2.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dprelease.columns import Column, released_names, squared_sensitivity
from dprelease.gaussian import mu_of
from dprelease.spec import Target


@dataclass(frozen=True)
class MixingPlan:
    """k and rho with the inputs they came from.

    Attributes:
        outputs: k, mixing rows.
        anchor_weight: rho, a rational in (0, 0.3].
        rows: n.
        columns: p, released columns.
        noise_variance: s2bar, mean noise variance of a released column in [-1, 1] units.
    """

    outputs: int
    anchor_weight: Fraction
    rows: int
    columns: int
    noise_variance: float

    def explain(self) -> str:
        """One line that shows the rule's inputs."""
        return (
            f"k = {self.outputs}, rho = {self.anchor_weight} from n = {self.rows}, p = {self.columns}, "
            f"mean noise variance = {self.noise_variance:.4g} (scaled units squared)"
        )


def plan_mixing(
    rows: int, parties: dict[str, tuple[Column, ...]], target: Target, rows_per_subject: int = 1
) -> MixingPlan:
    """k and rho by the rules of utility.md section 5.

        nu = n / s2bar,  k = min(n, max(3(d+1), ceil(sqrt((0.1 nu)^2 + (d+1) nu)))),  rho = min(0.3, max(0.02, 300 s2bar / n^2))

    Args:
        rows: n.
        parties: party to declared columns.
        target: privacy target.
        rows_per_subject: q.
    """
    mu = mu_of(target.epsilon, target.delta)
    contrast = {party: squared_sensitivity(columns) * rows_per_subject**2 for party, columns in parties.items()}
    widths = {party: len(released_names(columns)) for party, columns in parties.items()}
    p = sum(widths.values())
    whole = sum(contrast.values())
    variance = {party: (whole if target.scope == "joint" else contrast[party]) / mu**2 for party in parties}
    mean = sum(variance[party] * widths[party] for party in parties) / p
    nu = rows / mean
    outputs = min(rows, max(3 * p, math.ceil(math.sqrt((0.1 * nu) ** 2 + p * nu))))
    weight = min(0.3, max(0.02, 300 * mean / rows**2))
    return MixingPlan(outputs, Fraction(round(weight * 1000), 1000), rows, p, mean)
