"""Every number of ranges recomputed from the declarations: what they cost, and whether they are what they should be."""

from __future__ import annotations

from fractions import Fraction

from dprelease.data.columns import numbers
from dprelease.data.ranges import parts
from dprelease.errors import SpecRefused
from dprelease.mechanisms.base import COARSEST
from dprelease.mechanisms.ranges.calibration import CELLS, FIRST_SHARE, LARGEST_CODE, numbers_without_bounds
from dprelease.mechanisms.ranges.prefix_sums import FRACTION_BITS, squared_sensitivity
from dprelease.mechanisms.ranges.terms import RangesTerms
from dprelease.mechanisms.statement import Cost
from dprelease.spec_base import SpecBase

SURE = 64
"""Noise scales that a noise never exceeds, but for a probability below e^-2000."""

_LARGEST = 1 << 62


def cost(spec: SpecBase, terms: RangesTerms) -> Cost:
    """mu^2 of every party's columns; a patient is in every column, so together they are one Gaussian mechanism of the sum."""
    each, more = (spent(spec.rows_per_subject) for spent in (terms.scales.spent, terms.scales.spent_on_decades))
    charges = {
        part.party: each * len(numbers(part.columns)) + more * len(numbers_without_bounds(part.columns))
        for part in spec.parties
    }
    return Cost(sum(charges.values(), Fraction(0)), charges, charges)


def check(spec: SpecBase, terms: RangesTerms) -> None:
    """Refuse scales that are not the least for mu^2, a target so wide that the grid shows, or integers of 2^62.

    Raises:
        SpecRefused: with the number that disagrees.
    """
    columns, mu2, q = spec.columns, Fraction(terms.mu2), spec.rows_per_subject
    if mu2 <= 0:
        raise SpecRefused(f"mu^2 = {terms.mu2} is not positive")
    if terms != RangesTerms.least(mu2, columns, q):
        raise SpecRefused(f"the noise scales are not those of {len(numbers(columns))} private numeric columns and mu^2")
    if q**2 * squared_sensitivity(CELLS) < COARSEST**2 * mu2 / parts(columns) * FIRST_SHARE:
        raise SpecRefused("epsilon is so large that the grid of the counts would be too coarse; lower it")
    if max(*largest(spec, terms), largest_decade(spec, terms)) >= _LARGEST:
        raise SpecRefused("released integers could reach 2^62; fewer patients or a larger epsilon would do")


def largest(spec: SpecBase, terms: RangesTerms) -> tuple[int, int, int]:
    """Largest absolute values of an entry of C' h, of sum T and of sum T^2, noise included."""
    scales, n = terms.scales, spec.rows
    exact = (n << FRACTION_BITS, n * LARGEST_CODE, n * LARGEST_CODE**2)
    noise = (scales.counts, scales.total, scales.squares)
    found = [one + SURE * int(scale + 1) for one, scale in zip(exact, noise, strict=True)]
    return found[0], found[1], found[2]


def largest_decade(spec: SpecBase, terms: RangesTerms) -> int:
    """Largest absolute value of a noisy count on the decade scale."""
    return (spec.rows << FRACTION_BITS) + SURE * int(terms.scales.decades + 1)
