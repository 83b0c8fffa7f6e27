"""Data-free rules for what a proposal leaves open: the number of mixing rows k and the anchor's weight rho.

Everything here is a function of n, the columns' public ranges and the privacy target: choosing k or rho by looking at
private results would be a query of its own (docs/guarantees.md 9, "No selection").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.data.columns import Column, private_weights, released_names, squared_sensitivity, weights_of
from dprelease.errors import InvalidInput
from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target


@dataclass(frozen=True)
class MixingPlan:
    """k and rho with the inputs they came from.

    Attributes:
        outputs: k, mixing rows.
        anchor_weight: rho, a rational in (0, 0.3].
        rows: n.
        columns: p, released columns.
        noise_variance: s2bar, mean noise variance of a released private column in [-1, 1] units.
    """

    outputs: int
    anchor_weight: Fraction
    rows: int
    columns: int
    noise_variance: float

    def explain(self) -> str:
        """One line that shows the rule's inputs."""
        return (
            f"k = {self.outputs}, rho = {self.anchor_weight} from n = {self.rows:,}, p = {self.columns}, "
            f"mean noise variance = {self.noise_variance:.4g} (scaled units squared)"
        )


def plan_mixing(
    rows: int,
    parties: dict[str, tuple[Column, ...]],
    target: Target,
    rows_per_subject: int = 1,
    weights: Mapping[str, int] | None = None,
) -> MixingPlan:
    """k near the least expected error of least squares, and rho so that means are hardly noisy (docs/methods.md, "k and rho").

        nu = n / s2bar,  k = min(n, max(3(d+1), ceil(sqrt((0.1 nu)^2 + (d+1) nu)))),  rho = min(0.3, max(0.02, 1500 s2bar / n^2))

    A mean has noise of variance s2bar / (n^2 rho): at most 1/1500 unless rho is capped, 0.2 % of the variance of a column
    that is even on its range. With 300 in place of 1500 it is 1 %, and excess errors of predictions for an outcome that varies
    little came out at 1.17 times those of its mean where 1.15 was allowed (benchmarks/blocks_utility.py).

    Args:
        rows: n.
        parties: party to declared columns.
        target: privacy target.
        rows_per_subject: q.
        weights: column to weight, where it is not 1: the noise variance of its released columns is divided by the square.

    Raises:
        InvalidInput: every column is public.
    """
    mu = mu_of(target.epsilon, target.delta)
    weighed = {party: weights_of(columns, weights or {}) for party, columns in parties.items()}
    contrast = {
        party: squared_sensitivity(columns, weighed[party]) * rows_per_subject**2 for party, columns in parties.items()
    }
    noise = {party: 1.0 / private_weights(columns, weighed[party]) ** 2 for party, columns in parties.items()}
    p = sum(len(released_names(columns)) for columns in parties.values())
    noisy = sum(map(len, noise.values()))
    if not noisy:
        raise InvalidInput("every column is public, so there is nothing to protect; publish them without noise")
    whole = sum(contrast.values())
    variance = {party: (whole if target.scope == "joint" else contrast[party]) / mu**2 for party in parties}
    mean = float(sum(variance[party] * noise[party].sum() for party in parties)) / noisy
    nu = rows / mean
    outputs = min(rows, max(3 * p, math.ceil(math.sqrt((0.1 * nu) ** 2 + p * nu))))
    weight = min(0.3, max(0.02, 1500 * mean / rows**2))
    return MixingPlan(outputs, Fraction(round(weight * 1000), 1000), rows, p, mean)
