"""Calibration of Gaussian noise in shares: the scale of each party's, so that any m - t of them give mu-GDP.

Guarantee. Let neighbouring tables differ in all cells of one patient (replace-one), Delta_int = q Delta 4^b
(`dprelease.mechanisms.moments.sensitivity`), s2 = Delta_int^2 / mu^2. Each of the m parties adds to every noisy entry a discrete
Gaussian of variance at least (s2 + 4)/(m - t), to the square of a number at least (s2/v + 4)/(m - t). Any m - t of these
shares sum to variance at least s2 + 4 and s2/v + 4, of which the grid takes 4 (docs/guarantees.md 3), so what t curious parties
that subtract their own shares learn about the others' patients is mu-GDP; what anybody else learns is less. A sum of
discrete Gaussians is not quite one: kappa' of docs/guarantees.md 12 bounds the difference, which is why `FINEST` is asked of
every scale.

All of it is rational arithmetic; scales are doubles rounded up, whose exact squares are the variances.

If outcomes are named, their association with the features has noise of its own, and both share mu (`outcome_calibration`).

Source: docs/guarantees.md 11, 12 and 16.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.entries import EntryKind
from dprelease.mechanisms.moments.joint_calibration import LARGEST_SPLIT, joint, parts
from dprelease.mechanisms.moments.sensitivity import Sensitivity
from dprelease.privacy.calibration import least_scale, mu2_of_scales

FINEST = 100.0
"""Least noise scale of a party's share. At it kappa' is below 1e-10000 for any number of entries that fits a disk."""

PLAUSIBLE = 20
"""Noise standard deviations beyond the data's own range at which an entry counts as garbage (docs/protocol.md, step 9)."""


def share_scales(
    sensitivity: Sensitivity,
    mu2: Fraction,
    parties: int,
    collusion_threshold: int,
    grid_bits: int,
    rows_per_subject: int,
    split: Fraction = Fraction(0),
) -> dict[EntryKind, float]:
    """The least scale of each party's share of an entry that gives mu, squared grid steps, by kind of entry.

    Args:
        sensitivity: of the spec's variables.
        mu2: mu^2 > 0, of the whole release.
        parties: m.
        collusion_threshold: t < m, parties that may pool what they saw.
        grid_bits: b.
        rows_per_subject: q.
        split: q of `joint_calibration`, in (0, 1) where outcomes are named; 1 where every feature is public, 0 without outcomes.

    Raises:
        InvalidInput: a split that does not fit the sensitivity.
    """
    if not sensitivity.squared and split != 1:
        raise InvalidInput("every feature is public, so all of the budget is the association's: the split is 1")
    if sensitivity.squared and sensitivity.association and not 0 < split <= LARGEST_SPLIT:
        raise InvalidInput(f"the split lies between 0 and {LARGEST_SPLIT}, not {split}")
    first, second = parts(mu2, split) if sensitivity.association else (mu2, mu2)
    share, budgets = Fraction(1, parties - collusion_threshold), (first, first, second, second)
    squared = sensitivity.on_grid(grid_bits, rows_per_subject)
    return {kind: least_scale(squared[kind], part, share) for kind, part in zip(EntryKind, budgets, strict=True)}


def spent(
    sensitivity: Sensitivity,
    scales: Mapping[EntryKind, float],
    parties: int,
    collusion_threshold: int,
    grid_bits: int,
    rows_per_subject: int,
) -> Fraction:
    """mu^2 that declared scales really give against t curious parties, exactly, for any choice of outcomes."""
    squared = sensitivity.on_grid(grid_bits, rows_per_subject)
    declared = ((squared[kind], scales[kind]) for kind in EntryKind)
    return mu2_of_scales(declared, _together, parties - collusion_threshold)


def _together(found: Sequence[Fraction]) -> Fraction:
    """mu^2 of all entries from that of each kind by itself."""
    product, square, association, outcome_square = found
    first, second = max(product, square), max(association, outcome_square)
    coupled = second <= 4 * first  # Q <= 2A
    return joint(first, second) if coupled else first + second


def released_sd(scale: float, parties: int) -> float:
    """Standard deviation of the released noise of an entry: all m shares, sqrt(m/(m-t)) times what a curator would add."""
    return scale * math.sqrt(parties)


def noise_reach(scale: float, parties: int) -> int:
    """How far noise may carry a released entry before it counts as garbage: floor(20 s sqrt(m)) + 1, exactly.

    In integers, as doubles are off by one for some s above 1e8, and then verifiers of two languages would disagree.

    Args:
        scale: s, of each party's share.
        parties: m.
    """
    squared = PLAUSIBLE**2 * parties * Fraction(scale) ** 2
    return math.isqrt(squared.numerator // squared.denominator) + 1
