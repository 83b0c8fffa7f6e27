"""Calibration of noisy rows: from a privacy target to k, rho and exact scales of discrete Gaussian noise on the integer grid.

Guarantee. Let neighbouring tables differ in all private cells of one patient (replace-one). A block's noisy part is the
integer anchor sum (if any) and the integer rows M = B Q of the private codes Q, where every column of B has squared norm c.
Replacing a patient moves the anchor by v and M by a matrix of Frobenius norm at most sqrt(c) |v|, with |v|^2 <= D2
(`NoisyRowsTerms.squared_sensitivity`). With

    s2 = D2 / mu_j^2,   sigma_anchor^2 >= (s2 + 4) / rho,   sigma_mixing^2 >= c (s2 + 4) / (1 - rho)

the released discrete Gaussian law satisfies

    mu^2 = D2 [ 1/(sigma_anchor^2 - 4) + c/(sigma_mixing^2 - 4) ] <= D2 [ rho/s2 + (1-rho)/s2 ] = mu_j^2,

because (s2 + 4)/rho - 4 >= s2/rho and c(s2 + 4)/(1-rho) - 4 >= c s2/(1-rho). The subtracted 4 is the price of the grid
(docs/guarantees.md 3). All of it is rational arithmetic; scales are doubles rounded up, whose exact squares are the variances.

In words: docs/guarantees.md 2, 3 and 6.

Data-free rules for what a proposal leaves open: the number of mixing rows k and the anchor's weight rho.

Everything here is a function of n, the columns' public ranges and the privacy target: choosing k or rho by looking at
private results would be a query of its own (docs/guarantees.md 9, "No selection").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dprelease.data.columns import Column, private_weights, released_names, squared_sensitivity, weights_of
from dprelease.errors import InvalidInput
from dprelease.mechanisms.noisy_rows.terms import LEAST_IN_BUCKET, Mixing, MixingKind, PartyNoise
from dprelease.privacy.calibration import least_scale, mu2_of_scales
from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target


def shares(
    total: Fraction, scope: Literal["joint", "per-party"], squared_sensitivities: Mapping[str, int]
) -> dict[str, Fraction]:
    """mu_j^2 for every party.

    A joint target is split in proportion to Delta_j^2, which gives every column of every party the same noise
    (docs/guarantees.md 6); a per-party target gives every party the whole of it. A party without a private column gets 0.

    Args:
        total: mu^2.
        scope: of the target.
        squared_sensitivities: party to (q Delta_int,j)^2.
    """
    if scope == "per-party":
        return {party: total if part else Fraction(0) for party, part in squared_sensitivities.items()}
    whole = sum(squared_sensitivities.values()) or 1
    return {party: total * part / whole for party, part in squared_sensitivities.items()}


def party_noise(party: str, mu2: Fraction, sensitivity2: int, squared_norm: int, anchor_weight: Fraction) -> PartyNoise:
    """The smallest noise scales that give the party mu_j^2; 0 where nothing is private.

    Args:
        party: name.
        mu2: mu_j^2 > 0; 0 where nothing is private.
        sensitivity2: (q Delta_int,j)^2, grid units.
        squared_norm: c, the squared column norm of the integer matrix.
        anchor_weight: rho in [0, 1).
    """
    return PartyNoise(
        party=party,
        mu2=str(mu2) if sensitivity2 else "0",
        anchor_scale=least_scale(sensitivity2, mu2, 1 / anchor_weight) if anchor_weight else None,
        scale=least_scale(sensitivity2, mu2, Fraction(squared_norm) / (1 - anchor_weight)),
    )


def spent(noise: PartyNoise, sensitivity2: int, squared_norm: int) -> Fraction:
    """mu_j^2 that the declared scales really give, exactly; 0 where nothing is private."""
    parts = [(sensitivity2 * squared_norm, noise.scale)]
    if noise.anchor_scale is not None:
        parts.append((sensitivity2, noise.anchor_scale))
    return mu2_of_scales(parts, lambda found: sum(found, Fraction(0)))


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


WORTH_BUCKETS = 10**10
"""Signs that take a processor three seconds for every column, at each hospital and, for the column of ones, each reader."""


def mixing_of(
    asked: MixingKind | None, outputs: int, rows: int, seed: str, rows_per_subject: int = 1
) -> tuple[Mixing, str]:
    """A mixing matrix and why it is of its kind, empty where there is nothing to say (docs/methods.md, "Two mixings").

    Args:
        asked: its kind; None for buckets where they save much work.
        outputs: k.
        rows: n.
        seed: public, in hexadecimal.
        rows_per_subject: q.

    Raises:
        InvalidInput: there are too few rows.
    """
    buckets = Mixing(kind="buckets", outputs=outputs, seed=seed)
    least = buckets.least_rows(rows_per_subject)
    enough = least <= rows
    if asked == "buckets" and not enough:
        raise InvalidInput(
            f"{outputs} buckets of {LEAST_IN_BUCKET} patients need {least:,} rows, and there are {rows:,}: lower k, or leave out "
            "mixing"
        )
    if asked == "buckets" or (asked is None and enough and outputs * rows >= WORTH_BUCKETS):
        return buckets, (
            f" Each row enters one of {outputs:,} buckets, of {rows // outputs:,} rows or one more. That takes "
            f"{rows:,} signs in place of {rows * outputs:.3g}, for the same privacy, and second moments are as exact."
        )
    return Mixing(outputs=outputs, seed=seed), ""


def plan_mixing(
    rows: int,
    parties: dict[str, tuple[Column, ...]],
    target: Target,
    rows_per_subject: int = 1,
    weights: Mapping[str, int] | None = None,
    part: Fraction = Fraction(1),
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
        part: of the target's mu^2 that the rows may spend.

    Raises:
        InvalidInput: every column is public.
    """
    mu = mu_of(target.epsilon, target.delta) * math.sqrt(part)
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
