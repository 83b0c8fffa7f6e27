"""The terms of ranges: the sums of a histogram that are released, mu^2 of the release, and the least noise scales for it.

Prefix sums. Let A be the lower triangular matrix of ones, so that A h are the prefix sums of a histogram h of K cells, and C the
lower triangular Toeplitz matrix with C C = A, whose entries are c_0 = 1, c_k = c_(k-1) (2k-1)/(2k). Released is C h with equal
noise; prefix sums follow by A C^-1 = C. Their noise then grows like log K, where noise on counts of cells would add up to sqrt(K)
(Fichtenberger, Henzinger and Upadhyay 2023, Constant matters). The last row is left out, since n is public.
In use is C' = round(2^12 C), and everything follows from C' itself: its rounding is in the sensitivity and in the reading alike.

Guarantee. Let neighbouring tables differ in all private cells of one patient, up to q rows (replace-one). A column's first
round releases C' h for the histogram h of its K cells. Each row moves h by e_i - e_j, and so the release by at most D1
(`squared_sensitivity`); q rows by q D1. The second round, whose range depends on what the first has published and
on nothing else, releases sum T and sum T^2 for codes T = H z in [-H, H]. With

    sigma_sum^2 >= q^2 H^2 D2^2 / mu_2^2 + 4,   sigma_square^2 >= q^2 H^4 D2^2 / (4 mu_2^2) + 4,
    D2^2 >= max over z, z' in [-1, 1] of (z - z')^2 + 4 (z^2 - z'^2)^2 = (71 + 8 sqrt 2)/16

it costs at most q^2 H^2 [(z-z')^2 / (sigma_sum^2 - 4) + H^2 (z^2-z'^2)^2 / (sigma_square^2 - 4)] <= mu_2^2, whatever the range.
Rounds compose adaptively to mu_1^2 + mu_2^2 = mu_c^2. A column without bounds is counted on the decade scale before that, in
121 cells for which the first round's argument holds word for word, with 1/2 mu_c^2 more: a third of what it costs in all. The box
that follows from the noisy counts is to it what public bounds are to others. Columns, of one hospital or of several, compose to the
sum of theirs.
The subtracted 4 is the price of the grid (docs/guarantees.md 3); all of it is rational arithmetic.

Derived in docs/guarantees.md 18.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dprelease.arrays import Floats, Integers
from dprelease.canonical import Rational
from dprelease.data.columns import Column, Number, numbers, unbounded
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.data.ranges import DECADES, GuessedNoise, guess, parts, share
from dprelease.privacy.calibration import least_scale, mu2_of_scales
from dprelease.spec_base import SpecBase, Terms

FRACTION_BITS = 12
"""Binary digits of the factor behind the point."""


@lru_cache(maxsize=8)
def factor(cells: int) -> Integers:
    """C', (K-1, K) integers; the last cell is counted nowhere."""
    entries = [Fraction(1)]
    for k in range(1, cells - 1):
        entries.append(entries[-1] * Fraction(2 * k - 1, 2 * k))
    rounded = [round(entry * 2**FRACTION_BITS) for entry in entries]
    found = np.zeros((cells - 1, cells), np.int64)
    for row in range(cells - 1):
        found[row, : row + 1] = rounded[row::-1]
    found.flags.writeable = False
    return found


@lru_cache(maxsize=8)
def squared_sensitivity(cells: int) -> int:
    """D1^2: the largest |C' e_i - C' e_j|^2 over all pairs of cells, which is how far C' h moves with one patient's row.

    The worst pair is the first cell and one inside, so that no pair may be left out.
    """
    columns = factor(cells).T
    products = columns @ columns.T  # below 2^62 up to K = 2^38
    squares = np.diag(products)
    return int((squares[:, None] + squares[None, :] - 2 * products).max())


@lru_cache(maxsize=8)
def recovery(cells: int) -> Floats:
    """(K-1, K-1) what C' h is multiplied by to give the prefix sums of h: A C'^-1, without the last cell."""
    used = factor(cells)[:, :-1].astype(np.float64)
    found = np.tril(np.ones_like(used)) @ np.linalg.inv(used)
    found.flags.writeable = False
    return found


@dataclass(frozen=True, eq=False)
class Axes:
    """The noise of prefix sums by uncorrelated axes, where a released count has noise of variance 1.

    Attributes:
        variances: (K-1,) of the prefix sums themselves.
        along: (K-1,) variances along the axes.
        directions: (K-1, K-1) an axis in each column.
    """

    variances: Floats
    along: Floats
    directions: Floats


@lru_cache(maxsize=8)
def noise_axes(cells: int) -> Axes:
    """Axes of the noise of recovered prefix sums."""
    covariance = recovery(cells) @ recovery(cells).T
    found = Axes(np.diag(covariance).copy(), *np.linalg.eigh(covariance))
    for each in (found.variances, found.along, found.directions):
        each.flags.writeable = False
    return found


@lru_cache(maxsize=8)
def largest_error(cells: int) -> float:
    """Largest standard deviation of the noise of a prefix sum, in noise scales of an entry of C' h."""
    return float(np.sqrt(noise_axes(cells).variances.max()))


CELLS = 256
"""K, equal cells of the public bounds."""
FIRST_SHARE = Fraction(3, 5)
"""Part of a column's mu^2 that its histogram spends."""
WINDOW = 4
"""Half-width of the second round's range, in scales of the first."""
LARGEST_CODE = 1 << 16
"""H, the code of the end of the second round's range."""
SQUARED_SUMS = Fraction(51447, 10000)
"""D2^2, above (71 + 8 sqrt 2)/16 = 5.14460...: what one row moves (sum z, 2 sum z^2) by at most, squared."""

WIDTH = CELLS - 1 + 7
"""Integers of a column in a block: the counts, M1, S1, sum T, sum T^2, M, S, j."""

SURE = 64
"""Noise scales that a noise never exceeds, but for a probability below e^-2000."""

DOUBTFUL = 0.15
"""Noise of a count, as a share of the rows, from which on boxes of columns without bounds are doubtful."""

NOBODY = "ranges are of private numeric columns, and nobody has any; leave this release out, or declare one"


class RangesTerms(Terms):
    """The part that every private numeric column of a release of ranges has in common.

    Attributes:
        mu2: mu^2 of the release, to which every such column contributes equally.
        counts_scale: noise scale of an entry of the first round, whose unit is 2^-12 rows.
        sum_scale: of the second round's sum of codes.
        square_scale: of its sum of squared codes.
        decades_scale: of an entry on the decade scale, where some columns have no bounds; None, and then left out of canonical
            bytes, where all have.
    """

    mechanism: Literal["ranges"] = "ranges"
    mu2: Rational
    counts_scale: Annotated[float, Field(gt=0)]
    sum_scale: Annotated[float, Field(gt=0)]
    square_scale: Annotated[float, Field(gt=0)]
    decades_scale: Annotated[float | None, Field(gt=0, exclude_if=lambda scale: scale is None)] = None

    @classmethod
    def least(cls, mu2: Fraction, columns: tuple[Column, ...], rows_per_subject: int) -> RangesTerms:
        """Terms with the least noise that costs mu^2.

        Args:
            mu2: of the release, positive.
            columns: of all parties, a private number among them.
            rows_per_subject: q.
        """
        decades = bool(numbers_without_bounds(columns))
        least = Scales.least(mu2 / parts(columns), rows_per_subject, decades=decades)
        return cls(
            mu2=str(mu2),
            counts_scale=least.counts,
            sum_scale=least.total,
            square_scale=least.squares,
            decades_scale=least.decades or None,
        )

    @property
    def scales(self) -> Scales:
        """Noise scales of a column."""
        return Scales(self.counts_scale, self.sum_scale, self.square_scale, self.decades_scale or 0.0)

    def guess(self, spec: SpecBase) -> GuessedNoise:
        """The later noise as hospitals guess it: that of moments at the cost that ranges leave if they take their usual part.

        Args:
            spec: whose terms these are; any one hospital may be curious.
        """
        own = [len(numbers(part.columns)) for part in spec.parties]
        parties, q, spent = len(own), spec.rows_per_subject, share(spec.rows, spec.columns)
        mu = math.sqrt(Fraction(self.mu2) * (1 - spent) / spent) / q
        margin = math.sqrt(parties / max(parties - 1, 1))
        others = 1 + len(spec.columns) - sum(own)
        return guess([count for count in own if count], others, margin / (mu * spec.rows))

    def consistent(self, spec: SpecBase) -> None:
        """Tells whether there is a private number, one target for the whole row, and no weight."""
        if not numbers(spec.columns):
            raise ValueError(NOBODY)
        if (self.decades_scale is None) == bool(numbers_without_bounds(spec.columns)):
            raise ValueError(
                "ranges have a noise scale of decades where a column's bounds are unknown, and nowhere else"
            )
        if spec.target.scope != "joint":
            raise ValueError("ranges have one target for the whole row: scope 'joint'")
        if any(part.weights for part in spec.parties):
            raise ValueError("mechanism 'ranges' has no weights of columns; use 'mixed' or 'rows'")


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


@dataclass(frozen=True)
class Scales:
    """Noise scales of one column, the same for every column of a release.

    Attributes:
        counts: of an entry of C' h.
        total: of sum T.
        squares: of sum T^2.
        decades: of an entry of C' h on the decade scale; 0 where every column has bounds.
    """

    counts: float
    total: float
    squares: float
    decades: float = 0.0

    @classmethod
    def least(cls, column_mu2: Fraction, rows_per_subject: int, *, decades: bool = False) -> Scales:
        """The least with which a column costs mu_c^2, and one without bounds half as much again.

        Args:
            column_mu2: mu_c^2 > 0.
            rows_per_subject: q.
            decades: whether there is a column without bounds.
        """
        counts, total, squares = _sensitivities(rows_per_subject)
        first, second = column_mu2 * FIRST_SHARE, column_mu2 * (1 - FIRST_SHARE)
        before = least_scale(_decade_sensitivity(rows_per_subject), column_mu2 * DECADES) if decades else 0.0
        return cls(least_scale(counts, first), least_scale(total, second), least_scale(squares, second), before)

    def spent(self, rows_per_subject: int) -> Fraction:
        """mu_c^2 that the scales really give, exactly."""
        counts, total, squares = _sensitivities(rows_per_subject)
        # x/a + y/b <= max(1/a, 1/b) for shares x + y <= 1 of D2^2: round 2 costs its dearer half.
        return mu2_of_scales(
            ((counts, self.counts), (total, self.total), (squares, self.squares)),
            lambda costs: costs[0] + max(costs[1], costs[2]),
        )

    def spent_on_decades(self, rows_per_subject: int) -> Fraction:
        """mu^2 that a column without bounds costs beside `spent`, exactly; 0 where every column has bounds."""
        if not self.decades:
            return Fraction(0)
        return mu2_of_scales(((_decade_sensitivity(rows_per_subject), self.decades),), lambda costs: costs[0])

    def doubts(self, rows: int) -> tuple[str, ...]:
        """Warnings about columns without bounds, from public numbers; nothing where noise is small or there are none."""
        share = self.decades * largest_error(DECADE_CELLS) / rows
        if share < DOUBTFUL:
            return ()
        return (
            f"the noise of a count of rows is {share:.0%} of the patients, so that bounds found for columns without any may be far "
            "off; declare bounds, or raise epsilon",
        )


def _sensitivities(q: int) -> tuple[Fraction, Fraction, Fraction]:
    """Squared, of C' h, of sum T, and of sum T^2 in such a way that the last two share D2^2."""
    total = q**2 * LARGEST_CODE**2 * SQUARED_SUMS
    return Fraction(q**2 * squared_sensitivity(CELLS)), total, total * LARGEST_CODE**2 / 4


def _decade_sensitivity(q: int) -> Fraction:
    """Squared, of C' h for the histogram h on the decade scale."""
    return Fraction(q**2 * squared_sensitivity(DECADE_CELLS))


def numbers_without_bounds(columns: tuple[Column, ...]) -> tuple[Number, ...]:
    """Private numbers that are counted on the decade scale, in order."""
    return unbounded(numbers(columns))


def split(mu2: Fraction, parties: Mapping[str, tuple[Column, ...]]) -> dict[str, Fraction]:
    """Each party's charge: its columns' part of mu^2.

    Args:
        mu2: of the release.
        parties: party to declared columns, a private number among them.
    """
    shares = {party: parts(columns) for party, columns in parties.items()}
    return {party: mu2 * share / sum(shares.values()) for party, share in shares.items()}
