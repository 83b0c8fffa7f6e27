"""From a target to the parameters of joint moments, the least noise that reaches it, and from parameters to what they cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from dprelease.mechanisms.moments import calibration as scales
from dprelease.mechanisms.moments import outcome_calibration as association
from dprelease.mechanisms.moments.calibration import share_scales as scales_of_all
from dprelease.mechanisms.moments.clipped_sensitivity import clipped_sensitivity
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.entries import Kind, Layout
from dprelease.mechanisms.moments.outcome_calibration import Moves, best_split, share_scales
from dprelease.mechanisms.moments.sensitivity import Sensitivity, sensitivity
from dprelease.mechanisms.moments.terms import Association, JointMoments

Dealer = Literal["none", "rotating", "coordinator"]


def least_noise(
    layout: Layout,
    mu2: Fraction,
    parties: int,
    curious: int,
    dealer: Dealer,
    grid_bits: int,
    rows_per_subject: int,
    public_norm2: Fraction | None = None,
    clipping: Clipping | None = None,
) -> JointMoments:
    """The parameters of a release, with the least noise of each party's share that gives mu.

    Args:
        layout: columns, and which of them are outcomes only.
        mu2: mu^2 > 0.
        parties: m.
        curious: t < m.
        dealer: who deals.
        grid_bits: b.
        rows_per_subject: q.
        public_norm2: T2, as the party that has all public outcomes states it.
        clipping: of rows; none where outcomes are named.

    Raises:
        InvalidInput: nothing is private, or every column is an outcome, or the clipping is not possible.
    """
    shared = parties, curious, grid_bits, rows_per_subject
    if not layout.outcomes:
        scale, diagonal_scale = scales_of_all(sensitivity_of(layout, clipping, grid_bits), mu2, *shared)
        return JointMoments(
            curious=curious,
            dealer=dealer,
            mu2=str(mu2),
            scale=scale,
            diagonal_scale=diagonal_scale,
            clipping=clipping,
        )
    moves = Moves.of(layout, public_norm2=public_norm2)
    split = best_split(layout)
    least = share_scales(moves, mu2, split, *shared)
    return JointMoments(
        curious=curious,
        dealer=dealer,
        mu2=str(mu2),
        scale=least[Kind.PRODUCT],
        diagonal_scale=least[Kind.SQUARE],
        association=Association(
            outcomes=layout.outcomes,
            split=str(split),
            scale=least[Kind.ASSOCIATION],
            square_scale=least[Kind.OUTCOME_SQUARE],
            public_norm2=None if public_norm2 is None else str(public_norm2),
        ),
    )


def sensitivity_of(layout: Layout, clipping: Clipping | None, grid_bits: int) -> Sensitivity:
    """How far one patient moves the entries of a release without named outcomes.

    Args:
        layout: columns.
        clipping: of rows; None where numbers are coded in their public bounds.
        grid_bits: b.

    Raises:
        InvalidInput: nothing is private, or the clipping is not possible.
    """
    if clipping is None:
        return sensitivity(layout.variables)
    return clipped_sensitivity(layout, clipping, grid_bits)


def moves_of(layout: Layout, terms: JointMoments) -> Moves:
    """The moves by one patient under these terms, which name outcomes."""
    return Moves.of(layout, public_norm2=terms.public_norm2)


def spent(layout: Layout, terms: JointMoments, parties: int, grid_bits: int, rows_per_subject: int) -> Fraction:
    """mu^2 that declared terms really give, exactly, for any choice of outcomes. Arguments as of `least_noise`."""
    shared = parties, terms.curious, grid_bits, rows_per_subject
    if terms.association is not None:
        return association.spent(moves_of(layout, terms), terms.scales, *shared)
    moved = sensitivity_of(layout, terms.clipping, grid_bits)
    return scales.spent(moved, terms.scale, terms.diagonal_scale, *shared)
