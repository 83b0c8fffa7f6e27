"""The terms of ranges: mu^2 of the release, and the noise scales that every column has."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from dprelease.canonical import Rational
from dprelease.mechanisms.ranges.calibration import Scales, numbers
from dprelease.spec_base import SpecBase, Terms

NOBODY = "ranges are of private numeric columns, and nobody has any; leave this release out, or declare one"


class RangesTerms(Terms):
    """What every private numeric column of a release of ranges has in common.

    Attributes:
        mu2: mu^2 of the release, to which every such column contributes equally.
        counts_scale: noise scale of an entry of the first round, whose unit is 2^-12 rows.
        sum_scale: of the second round's sum of codes.
        square_scale: of its sum of squared codes.
    """

    mechanism: Literal["ranges"] = "ranges"
    mu2: Rational
    counts_scale: Annotated[float, Field(gt=0)]
    sum_scale: Annotated[float, Field(gt=0)]
    square_scale: Annotated[float, Field(gt=0)]

    @classmethod
    def least(cls, mu2: Fraction, columns: int, rows_per_subject: int) -> RangesTerms:
        """Terms with the least noise that costs mu^2.

        Args:
            mu2: of the release, positive.
            columns: p_n, private numeric columns of all parties.
            rows_per_subject: q.
        """
        least = Scales.least(mu2 / columns, rows_per_subject)
        return cls(mu2=str(mu2), counts_scale=least.counts, sum_scale=least.total, square_scale=least.squares)

    @property
    def scales(self) -> Scales:
        """Noise scales of a column."""
        return Scales(self.counts_scale, self.sum_scale, self.square_scale)

    def consistent(self, spec: SpecBase) -> None:
        """Whether there is a private number, one target for the whole row, and no weight."""
        if not numbers(spec.columns):
            raise ValueError(NOBODY)
        if spec.target.scope != "joint":
            raise ValueError("ranges have one target for the whole row: scope 'joint'")
        if any(part.weights for part in spec.parties):
            raise ValueError("mechanism 'ranges' has no weights of columns; use 'mixed' or 'rows'")
