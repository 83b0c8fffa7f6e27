"""Every number of a synthetic control recomputed from the declarations and the public target: cost, and what is refused."""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import SpecRefused
from dprelease.mechanisms.base import COARSEST
from dprelease.mechanisms.statement import Cost
from dprelease.mechanisms.synthetic_control.sensitivity import WEIGHT_BITS, root_up
from dprelease.mechanisms.synthetic_control.terms import SyntheticControlTerms, norm2_of, sensitivities
from dprelease.spec_base import SpecBase

SURE = 64
"""Noise scales that a noise never exceeds, but for a probability below e^-2000."""
SURE_LAPLACE = 2048
"""The same of Laplace noise."""

_LARGEST = 1 << 62


def cost(spec: SpecBase, terms: SyntheticControlTerms) -> Cost:
    """mu^2 of the weights and of the donors' series: one donor is in both, so together they are one mechanism of the sum."""
    whole = terms.price(terms.problem(spec), spec.rows_per_subject, spec.grid_bits)
    charges = {spec.parties[0].party: whole}
    return Cost(whole, charges, charges)


def check(spec: SpecBase, terms: SyntheticControlTerms) -> None:
    """Refuse scales that are not the least for mu^2, a grid that shows, or integers of 2^62.

    Raises:
        SpecRefused: with the number that disagrees.
    """
    problem, mu2, q, bits = terms.problem(spec), Fraction(terms.mu2), spec.rows_per_subject, spec.grid_bits
    share = Fraction(terms.weights_share)
    if mu2 <= 0:
        raise SpecRefused(f"mu^2 = {terms.mu2} is not positive")
    if terms != SyntheticControlTerms.least(problem, mu2, share, q, bits, terms.law):
        raise SpecRefused("the noise scales are not those of the target, lambda, the share, the law and mu^2")
    scales = terms.weights_scale, terms.donors_scale
    moved = zip(sensitivities(problem, q, bits), scales, (share, 1 - share), ("weights", "donors"), strict=True)
    for squared, scale, part, what in moved:
        if squared < COARSEST**2 * mu2 * part if terms.law == "gaussian" else scale < COARSEST:
            raise SpecRefused(f"epsilon is so large that the grid of the {what} would be too coarse; lower it")
    if max(spec.rows << (2 * bits), *largest(spec, terms)) >= _LARGEST:
        raise SpecRefused("integers could reach 2^62; a coarser grid, fewer donors or a larger epsilon would do")


def largest(spec: SpecBase, terms: SyntheticControlTerms) -> tuple[int, int]:
    """Largest absolute values of a weight and of a donor's code, noise included, in steps of their grids."""
    norm2 = norm2_of(terms.problem(spec).codes(spec.grid_bits), spec.grid_bits)
    weight = root_up(norm2 / (2 * Fraction(terms.penalty)) * 4**WEIGHT_BITS) + 1
    sure = SURE if terms.law == "gaussian" else SURE_LAPLACE
    return weight + sure * int(terms.weights_scale + 1), (1 << spec.grid_bits) + sure * int(terms.donors_scale + 1)
