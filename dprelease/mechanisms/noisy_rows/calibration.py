"""Calibration of discrete Gaussian noise: from a privacy target to exact scales on the integer grid.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.data.columns import Column, integer_sensitivity, weights_of
from dprelease.mechanisms.noisy_rows.terms import PartyNoise
from dprelease.privacy.calibration import budget, least_scale, mu2_of_scales
from dprelease.spec_base import Target


def sensitivities(
    parties: Mapping[str, tuple[Column, ...]], q: int, bits: int, weights: Mapping[str, int], *, mixed: bool
) -> dict[str, int]:
    """Party to (q Delta_int,j)^2, or q Delta_int,j^2 where rows are not mixed; arguments as of `integer_sensitivity`."""
    return {
        party: integer_sensitivity(columns, q, bits, weights_of(columns, weights), mixed=mixed)
        for party, columns in parties.items()
    }


def shares(target: Target, squared_sensitivities: Mapping[str, int]) -> dict[str, Fraction]:
    """mu_j^2 for every party.

    A joint target is split in proportion to Delta_j^2, which gives every column of every party the same noise
    (docs/guarantees.md 6); a per-party target gives every party the whole of it. A party without a private column gets 0.

    Args:
        target: privacy target.
        squared_sensitivities: party to (q Delta_int,j)^2.
    """
    total = budget(target)
    if target.scope == "per-party":
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
