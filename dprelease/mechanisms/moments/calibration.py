"""Calibration of Gaussian noise in shares: the scale of each party's, so that any m - t of them give mu-GDP.

Guarantee. Let neighbouring tables differ in all cells of one patient (replace-one), Delta_int = q Delta 4^b
(`dprelease.mechanisms.moments.sensitivity`), s2 = Delta_int^2 / mu^2. Each of the m parties adds to every noisy entry a discrete
Gaussian of variance at least (s2 + 4)/(m - t), to the square of a number at least (s2/v + 4)/(m - t). Any m - t of these
shares sum to variance at least s2 + 4 and s2/v + 4, of which the grid takes 4 (docs/guarantees.md 3), so what t curious parties
that subtract their own shares learn about the others' patients is mu-GDP; what anybody else learns is less. A sum of
discrete Gaussians is not quite one: kappa' of docs/guarantees.md 12 bounds the difference, which is why `FINEST` is asked of
every scale.

All of it is rational arithmetic; scales are doubles rounded up, whose exact squares are the variances.

If outcomes are named, their association with the features has noise of its own, and both share mu (`outcome_sensitivity`).

Source: docs/guarantees.md 11, 12 and 16.

**Covariance and association**: one calibration for both X^T X and X^T Y, and how to split it.

Neighbours differ in one patient's row (x, y), or in its private part where a side is public. All lengths are given squared
and all arithmetic is rational, so nothing is rounded before the scales, which are rounded up.

Covariance, X^T X, variance s1^2: Delta_1^2 is that of what is released of it (`outcome_sensitivity`).

Association, X^T Y, variance s2^2: Delta_2^2 = 4 R^2 S^2 with |y| <= S. With Y public (feature privacy) S is max |y_i| over the
public rows, with X public (label privacy) R is max |x_i|.

Both at once. With A = Delta_1^2 / s1^2 and Q = Delta_2^2 / (2 s2^2),

    mu^2 = A + Q + Q^2 / (4A)  if Q <= 2A,  else 2Q,                                                                 (1)

less than the sum A + 2Q. For rows in a ball: docs/guarantees.md,
"Where the papers differ"; for columns within bounds: `sensitivity`.

Split. Let q = Q/(2A), 0 < q <= 1 (beyond 1 the covariance gets noisier for nothing). Then mu^2 = A (1 + q)^2 and

    s1^2 = Delta_1^2 (1 + q)^2 / mu^2,     s2^2 = Delta_2^2 (1 + q)^2 / (4 q mu^2).

Outcome i's weights w are off by (X^T X)^-1 (E_2 - E_1 w), so up to a factor the same for all, by s2^2 + omega s1^2 with omega =
|w|^2 (d + 1)/(2 d) where entries off the diagonal have variance s1^2/2. (1 + q)^2 (kappa + 1/q), kappa = 4 Delta_1^2 omega /
Delta_2^2, is least where 2 kappa q^2 + q = 1:

    q = 2 / (1 + sqrt(1 + 8 kappa)).                                                                                 (2)

Unknown is |w|^2. If the features explain the part e of outcomes that fill their bounds, |w|^2 = e d (S^2/l) / R^2, hence
kappa = e (d + 1)/l: public numbers and a guess. Few outcomes need a good covariance, many a good association.

Source: PRIMO (2023), Algorithms 1 and 2, with the sensitivities of docs/guarantees.md, "Where the papers differ".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.entries import EntryKind, Layout
from dprelease.mechanisms.moments.sensitivity import Sensitivity, outcome_sensitivity
from dprelease.privacy.calibration import least_scale, mu2_of_scales

FINEST = 100.0
"""Least noise scale of a party's share. At it kappa' is below 1e-10000 for any number of entries that fits a disk."""

PLAUSIBLE = 20
"""Noise standard deviations beyond the data's own range at which an entry counts as garbage (docs/protocol.md, step 9)."""

EXPLAINED = Fraction(1, 2)
"""e of the derivation unless the caller knows better."""

LARGEST_SPLIT = Fraction(1023, 1024)
"""q stays below 1, where rounding of the scales could leave formula (1)."""

_ROOT_BITS = 40


def joint(covariance2: Fraction, association2: Fraction) -> Fraction:
    """mu^2 of both releases together, formula (1).

    Args:
        covariance2: A = Delta_1^2 / s1^2 > 0.
        association2: Delta_2^2 / s2^2 >= 0, twice the Q of the formula.
    """
    half = association2 / 2
    return covariance2 + half + half**2 / (4 * covariance2) if half <= 2 * covariance2 else association2


def split(features: int, outcomes: int, explained: Fraction = EXPLAINED) -> Fraction:
    """q of formula (2) from public numbers, the same on every machine: in (0, 1], more of it to the covariance when small.

    Args:
        features: d > 0.
        outcomes: l > 0.
        explained: e in [0, 1], the part of the outcomes that the features are guessed to explain.
    """
    under = 1 + 8 * explained * Fraction(features + 1, outcomes)
    root = Fraction(math.isqrt((under.numerator << (2 * _ROOT_BITS)) // under.denominator), 1 << _ROOT_BITS)
    return min(Fraction(1), Fraction(round(2 / (1 + root) * 2**16) or 1, 2**16))


def best_split(layout: Layout) -> Fraction:
    """q: how much of the budget the association gets, from public numbers; 1 where the covariance needs none."""
    if not outcome_sensitivity(layout).squared:
        return Fraction(1)
    outcomes = int(layout.outcome.sum())
    return min(LARGEST_SPLIT, split(len(layout.variables) - outcomes, outcomes))


def parts(mu2: Fraction, share: Fraction) -> tuple[Fraction, Fraction]:
    """(Delta_1^2 / s1^2, Delta_2^2 / s2^2) of the least variances that give mu to both releases together.

    Args:
        mu2: mu^2 > 0.
        share: q of `split`, in (0, 1].
    """
    covariance = mu2 / (1 + share) ** 2
    return covariance, 4 * share * covariance


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
        split: q of (2), in (0, 1) where outcomes are named; 1 where every feature is public, 0 without outcomes.

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
    """
    squared = PLAUSIBLE**2 * parties * Fraction(scale) ** 2
    return math.isqrt(squared.numerator // squared.denominator) + 1
