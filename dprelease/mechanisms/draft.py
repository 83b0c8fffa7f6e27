"""The input of a mechanism for a proposal, with exact rationals from numbers of a request, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dprelease.catalogue import Catalogue
from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.errors import InvalidInput
from dprelease.privacy.calibration import budget
from dprelease.spec_base import Target, Terms

AUTO, NONE = "auto", "none"
"""Values of a request's key ``ranges`` for the latest published ranges that fit, and for public bounds."""

FIRST = "first"
"""Value of a request's key ``ranges`` if a first round of the release itself publishes them."""


@dataclass(frozen=True)
class PublishedRanges:
    """Ranges of columns that an earlier release published; to use them costs nothing."""

    source: str
    ranges: tuple[Range, ...]


def _no_ranges(folder: str) -> PublishedRanges:
    raise InvalidInput(f"{folder}: ranges cannot be read here")


def _nothing_published() -> PublishedRanges | None:
    return None


@dataclass(frozen=True)
class Draft:
    """The part of a proposal that is fixed before its mechanism is asked.

    Attributes:
        columns: party to declared columns.
        agreed: n, q and the like, which the parties agree on.
        target: privacy target.
        grid_bits: b.
        draw: source of public seeds.
        ranges: from the folder of a release that published ranges to these, verified, and refused where its columns were declared
            otherwise than these.
        latest_ranges: the latest published ranges of these patients and of all private numbers among these columns, verified; None
            where there are none.
        part: of the target's mu^2 that the mechanism may spend; less than 1 where another round of the release spends the rest.
    """

    columns: Mapping[str, tuple[Column, ...]]
    agreed: Catalogue
    target: Target
    grid_bits: int
    draw: Callable[[int], bytes]
    ranges: Callable[[str], PublishedRanges] = _no_ranges
    latest_ranges: Callable[[], PublishedRanges | None] = _nothing_published
    part: Fraction = Fraction(1)

    @property
    def mu2(self) -> Fraction:
        """mu^2 that the mechanism may spend."""
        return self.part * budget(self.target)

    def having(self, rows: int) -> Draft:
        """The same of so many patients."""
        return replace(self, agreed=self.agreed.model_copy(update={"rows": rows}))

    @property
    def everything(self) -> tuple[Column, ...]:
        """Declared columns of all parties."""
        return tuple(column for declared in self.columns.values() for column in declared)


@dataclass(frozen=True)
class ProposedTerms:
    """The part of a proposal that its mechanism makes.

    Attributes:
        terms: its part of the spec.
        charges: party to mu^2 that its ledger will be charged.
        explanation: where the numbers came from, one line; empty where there is nothing to say.
        weights: column to weight, where it is not 1.
        advice: how to ask for less, for who cannot pay.
        grid_bits: b, if sums on the draft's grid could wrap round.
    """

    terms: Terms
    charges: Mapping[str, Fraction]
    explanation: str = ""
    weights: Mapping[str, int] = field(default_factory=dict)
    advice: str = "lower epsilon, or release fewer columns"
    grid_bits: int | None = None


def read_weight(name: str, value: float | str) -> Fraction:
    """A number in [0, 1).

    Raises:
        InvalidInput: it is not such a number.
    """
    weight = read_rational(name, value)
    if not 0 <= weight < 1:
        raise InvalidInput(f"{name} must lie at or above 0 and below 1, not {value}")
    return weight


def read_positive(name: str, value: float | str) -> Fraction:
    """A positive number.

    Raises:
        InvalidInput: it is not a positive number.
    """
    number = read_rational(name, value)
    if number <= 0:
        raise InvalidInput(f"{name} must be positive, not {value}")
    return number


def read_rational(name: str, value: float | str) -> Fraction:
    """Any rational number; the name is that of the field, for the error.

    Raises:
        InvalidInput: it is no number.
    """
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError) as error:
        raise InvalidInput(f"{name} = {value!r} is not a number such as '1/10' or 0.1") from error
