"""Every number of noisy rows recomputed from the declared bounds: what they cost, and whether they are what they should be."""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import SpecRefused
from dprelease.mechanisms.base import COARSEST
from dprelease.mechanisms.linear import Stretch
from dprelease.mechanisms.noisy_rows.calibration import party_noise, spent
from dprelease.mechanisms.noisy_rows.terms import NoisyRowsTerms
from dprelease.mechanisms.statement import Cost
from dprelease.spec_base import SpecBase

EXACT = 1 << 53
"""Bound of every released integer: doubles hold all of them."""


def cost(spec: SpecBase, terms: NoisyRowsTerms) -> Cost:
    """mu_j^2 of every party's block; a patient is in every block, so together they are one Gaussian mechanism of the sum."""
    charges = {
        noise.party: spent(noise, terms.squared_sensitivity(spec, noise.party), terms.squared_norm)
        for noise in terms.noise
    }
    return Cost(sum(charges.values(), Fraction(0)), charges, charges)


def check(spec: SpecBase, terms: NoisyRowsTerms, stretch: Stretch) -> None:
    """Refuse scales that are not those of the declared bounds and share, a coarse grid, or integers of 2^53.

    Args:
        spec: the spec.
        terms: its terms.
        stretch: of all patients whose rows are added up.

    Raises:
        SpecRefused: with the first number that disagrees.
    """
    for noise in terms.noise:
        sensitivity2 = terms.squared_sensitivity(spec, noise.party)
        share = Fraction(noise.mu2)
        if sensitivity2 and share <= 0:
            raise SpecRefused(f"{noise.party}: a share mu^2 of {noise.mu2} is not positive")
        if noise != party_noise(noise.party, share, sensitivity2, terms.squared_norm, terms.rho):
            raise SpecRefused(f"{noise.party}: the noise scales are not those of its declared bounds and share")
        if sensitivity2 < COARSEST**2 * share:
            raise SpecRefused(f"{noise.party}: the grid of 2^-{spec.grid_bits} is too coarse; raise grid_bits")
    for noise, part in zip(terms.noise, spec.parties, strict=True):
        largest = stretch.scale(max(noise.scale, noise.anchor_scale or 0.0))
        sums = stretch.rows * stretch.largest * max(part.weights, default=1) << spec.grid_bits
        if sums + 20 * largest >= EXACT:
            raise SpecRefused("released integers could reach 2^53; lower grid_bits, or most_rows of a stream")
