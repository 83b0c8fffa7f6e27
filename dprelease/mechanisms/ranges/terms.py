"""The terms of ranges: mu^2 of the release, and the noise scales that every column has."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from dprelease.canonical import Rational
from dprelease.data.columns import Column, numbers
from dprelease.data.ranges import Guess, guess, parts, share
from dprelease.mechanisms.ranges.calibration import Scales, numbers_without_bounds
from dprelease.spec_base import SpecBase, Terms

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

    def guess(self, spec: SpecBase) -> Guess:
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
