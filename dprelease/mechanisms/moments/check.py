"""Every number of joint moments recomputed from the declared bounds: what they cost, and whether they are what they should be.

Joint moments are one mechanism over all parties' columns: every party with a private column is exposed to the whole mu^2, and
their ledgers are charged parts of it that add up to it.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import InvalidInput, SpecRefused
from dprelease.mechanisms.base import COARSEST
from dprelease.mechanisms.linear import Stretch
from dprelease.mechanisms.moments import calibration as scales
from dprelease.mechanisms.moments import outcome_calibration as association
from dprelease.mechanisms.moments.entries import Kind, by_kind
from dprelease.mechanisms.moments.parameters import moves_of, sensitivity_of, spent
from dprelease.mechanisms.moments.terms import JointMoments, layout_of
from dprelease.mechanisms.statement import Cost
from dprelease.spec_base import SpecBase

MOST_ENTRIES = 1 << 24
"""Most entries of joint moments, refused by counting: a block of them has 128 MiB."""

_RING = 1 << 63
_SAMPLER = 2.0**56


def cost(spec: SpecBase, terms: JointMoments) -> Cost:
    """mu^2 of the release, and the parts of it that ledgers are charged."""
    joint = spent(layout_of(spec), terms, len(spec.parties), spec.grid_bits, spec.rows_per_subject)
    charges = terms.charges(joint, spec.columns_by_party)
    exposures = {party: joint if mu2 else Fraction(0) for party, mu2 in charges.items()}
    return Cost(joint, charges, exposures, terms.curious)


def check(spec: SpecBase, terms: JointMoments, stretch: Stretch) -> None:
    """Refuse scales that are not those of the declared bounds, too many entries, a coarse grid, or sums that could wrap.

    Args:
        spec: the spec.
        terms: its terms.
        stretch: of all patients whose sums are added up.

    Raises:
        SpecRefused: with the first number that disagrees.
    """
    layout = layout_of(spec)
    outcomes = int(layout.outcome.sum())
    size = len(layout.variables) + 1 - outcomes
    if size * (size + 1) // 2 + (size + 1) * outcomes > MOST_ENTRIES:
        raise SpecRefused(
            f"{size - 1 + outcomes} variables make more than {MOST_ENTRIES} entries; release fewer columns or levels"
        )
    if terms.clipping is not None:
        try:
            sensitivity_of(layout, terms.clipping, spec.grid_bits)
        except InvalidInput as error:
            raise SpecRefused(error.message) from error
    mu2 = Fraction(terms.mu2)
    if mu2 <= 0:
        raise SpecRefused(f"mu^2 of {terms.mu2} is not positive")
    least, unit = _least_scales(spec, terms, mu2), Fraction(spec.rows_per_subject**2 << (4 * spec.grid_bits))
    if terms.scales != least:
        raise SpecRefused(
            "the noise scales are not those of the declared bounds, mu^2 and the number of curious hospitals"
        )
    finest = min(scale for scale in least.values() if scale)
    if finest < scales.FINEST or unit * _smallest_move(spec, terms) < COARSEST**2 * mu2:
        raise SpecRefused(f"the grid of 2^-{spec.grid_bits} is too coarse; raise grid_bits")
    largest = stretch.scale(max(terms.scales.values()))
    # In integers: with doubles a sum near 2^63 could be rounded below it.
    reach = (stretch.rows * stretch.largest << (2 * spec.grid_bits)) + scales.noise_reach(largest, len(spec.parties))
    if reach >= _RING or largest >= _SAMPLER:
        raise SpecRefused("sums could reach 2^63 and wrap; lower grid_bits, or most_rows of a stream")


def _least_scales(spec: SpecBase, terms: JointMoments, mu2: Fraction) -> dict[Kind, float]:
    shared = len(spec.parties), terms.curious, spec.grid_bits, spec.rows_per_subject
    layout, apart = layout_of(spec), terms.association
    if apart is None:
        return by_kind(*scales.share_scales(sensitivity_of(layout, terms.clipping, spec.grid_bits), mu2, *shared))
    return association.share_scales(moves_of(layout, terms), mu2, Fraction(apart.split), *shared)


def _smallest_move(spec: SpecBase, terms: JointMoments) -> Fraction:
    """The least squared sensitivity of what is released, scaled units."""
    layout = layout_of(spec)
    if not layout.outcomes:
        return sensitivity_of(layout, terms.clipping, spec.grid_bits).squared
    moves = moves_of(layout, terms)
    return min(move for move in (moves.covariance, moves.association) if move)
