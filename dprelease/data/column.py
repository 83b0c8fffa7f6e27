"""The contract of a declared column: everything that mechanisms, estimators and hospitals ask of it.

A kind of column is one file that answers it, and one line in `dprelease/data/columns.py`. Nobody else asks which kind a column is.
Declarations come from a codebook, never from the data: a bound computed from the data is an unprotected query
(docs/guarantees.md 1).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field

from dprelease import canonical
from dprelease.arrays import Codes, Floats
from dprelease.canonical import ShortText, Value
from dprelease.one_line import listed

NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
"""A column's name, as a regular expression."""

QUOTED = r'"(?:[^"\\]|\\.)*"'
"""A level within a derivation, as a regular expression that finds it."""

DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
"""A date as ISO 8601 writes it, as a regular expression."""

_DAY = f"({NAME}|{DATE})"
_POSITIVE = r"[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?"
_NUMBER = f"-?{_POSITIVE}"
_CUTS = rf"{_NUMBER}(, {_NUMBER})*"
_LEVEL = r'"([^"\\\x00-\x1f]|\\["\\bfnrt]|\\u[0-9a-f]{4})+"'

FORMS = (
    rf"log\({NAME}( [+-] {_POSITIVE})?\)",
    rf"{NAME}\^2",
    rf"\({NAME} [+-] {_POSITIVE}\)\^2",
    rf"{NAME} \* {NAME}",
    rf"days from {_DAY} to {_DAY}",
    rf"{NAME} = {_LEVEL}",
    rf"{_NUMBER} <= {NAME}( < {_NUMBER})?",
    rf"{NAME} < {_NUMBER}",
    rf"whole years from {_DAY} to {_DAY}",
    rf"{NAME} is missing",
    rf"{NAME} cut at {_CUTS}",
    rf"{NAME} starts with {_LEVEL}( or {_LEVEL})*",
    rf"first [0-9]{{1,2}} of {NAME}",
    rf"{NAME} by map [0-9a-f]{{64}}",
    rf"exit by ({NAME}|(days|years) from {NAME} to {NAME}) and {NAME}( = {_LEVEL}( or {_LEVEL})*)? at {_CUTS}",
)
"""Every form of a derivation, as a regular expression; docs/format.md 2 says what each means."""

Derivation = Annotated[
    str, Field(pattern=rf"^({'|'.join(FORMS)})?$", max_length=1000, exclude_if=lambda text: not text)
]
"""The formula, in one of its forms, by which a column's owner computes it from other columns of the same row; empty, and then left
out of canonical bytes, of a column that is not derived.

Nobody but the owner can check that cells follow it. No guarantee rests on it: a derived cell is clipped to its own column's bounds.
"""


def number_text(number: float) -> str:
    """The shortest decimal that reads back to the same double, without ``.0``."""
    return repr(float(number)).removesuffix(".0")


def level_text(level: str) -> str:
    """A level in quotation marks, as a derivation has it."""
    return json.dumps(level, ensure_ascii=False)


Name = canonical.Name
"""A party, column or consortium name."""

RawColumn = npt.NDArray[np.float64] | Sequence[str | None]
"""Raw cells of one column: float64 with NaN for missing where cells are numbers, else text with None for missing."""

OTHER = "other"
"""The value that a category has for cells outside its declared levels, unless these are exhaustive."""

EVEN_SPREAD = 1 / 3
"""Variance of a number that spreads evenly over its range, in scaled units."""


def _check_levels(levels: tuple[str, ...]) -> tuple[str, ...]:
    twice = dict.fromkeys(level for level in levels if levels.count(level) > 1)
    if twice:
        raise ValueError(f"levels must be distinct; leave out the second {listed(map(repr, twice))}")
    if any(level.strip() != level or not level for level in levels):
        raise ValueError("levels must not be empty or have white space at their ends")
    return levels


LEVELS = AfterValidator(_check_levels)
"""Refuses levels that nobody could tell apart."""


@dataclass(frozen=True)
class Variable:
    """One coded column of a Gram matrix (`dprelease.mechanisms.moments.entries`).

    A variable that is neither `measured` nor a `level` is a binary: -G or +G.

    Attributes:
        name: the first released column that it stands for.
        readings: (name, midpoint, half-width) of each released column that it stands for: midpoint + half-width * variable, in the
            column's unit; a binary stands for both of its values, the second one with a negative half-width.
        column: position of the declared column it came from.
        public: whether that column is published exactly.
        measured: whether it is a number in [-G, G], whose square is released beside its other products.
        level: whether it is 0 or G, and one of a group of which exactly one is G.
    """

    name: str
    readings: tuple[tuple[str, float, float], ...]
    column: int
    public: bool = False
    measured: bool = False
    level: bool = False


@dataclass(frozen=True)
class Assumption:
    """Assumption of a forecast about a column, in scaled units. A category counts as its levels but the reference, as in fits.

    Attributes:
        width: features that it becomes.
        variance: of one of them.
        free: the part that the others leave free, lambda_i of `dprelease.mechanisms.expected_error`.
        mean: of one of them.
        reach: variance of a number that is uniform on the range.
        own: h of `dprelease.mechanisms.expected_error`; None for a number, whose own entry takes less noise than others.
    """

    width: int
    variance: float
    free: float
    mean: float
    reach: float
    own: float | None


class DeclaredColumn(Value, ABC):
    """A column as its owner declares it, public and made before any data are read.

    Attributes:
        kind: a word for its class.
        name: of the column.
        unit: what a number counts, e.g. ``"years"``; may be empty.
        public: whether its owner declared it public: it is published exactly, outside the guarantee (docs/guarantees.md 15).
        derivation: the formula by which its owner computes it from other columns; empty unless it is derived.
    """

    kind: str
    name: Name
    unit: ShortText = ""
    public: bool = False
    derivation: Derivation = ""

    aggregates: ClassVar[tuple[str, ...]] = ("first", "last")
    """Ways to make one cell of several, if a source has several rows a patient."""

    least: ClassVar[float] = -1.0
    """Least scaled value of a released column; the largest is 1."""

    references: ClassVar[int] = 0
    """How many of the columns in `told`, from the first on, a regression on an intercept leaves out, unless it is the only one."""

    # Cells

    @property
    def values(self) -> tuple[str, ...]:
        """Texts that a cell can be coded as, in order; none where cells are numbers."""
        return ()

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The values that are declared: all but ``other``."""
        return tuple(value for value in self.values if value != OTHER)

    @property
    def measured(self) -> bool:
        """Says whether cells are numbers."""
        return not self.values

    @property
    def bounded(self) -> bool:
        """Says whether its bounds are declared."""
        return True

    @property
    @abstractmethod
    def fill_text(self) -> str:
        """The public value that stands in for a missing or unreadable cell, as people write it."""

    @abstractmethod
    def code(self, cells: RawColumn, grid_bits: int) -> Codes:
        """(n, released) codes of raw cells on the public grid; each depends on its own cell alone.

        Args:
            cells: (n,) numbers or texts, as `RawColumn` says.
            grid_bits: b.
        """

    @abstractmethod
    def allows(self, codes: Codes, grid_bits: int) -> bool:
        """Says whether every code, (n, released), is that of a cell within the declaration. The sensitivity rests on it."""

    @abstractmethod
    def contrast(self) -> int:
        """Largest squared change of this column's scaled codes when one row's private cells are replaced; 0 if it is public."""

    # What it becomes

    @property
    @abstractmethod
    def released(self) -> tuple[str, ...]:
        """Names of the released columns this one becomes."""

    @property
    def told(self) -> tuple[str, ...]:
        """The released columns that people are told of: all, but of one declared level that level.

        Its ``other`` is whoever does not have it.
        """
        return self.released[:1] if len(self.vocabulary) == 1 else self.released

    @property
    def indicators(self) -> bool:
        """Says whether the released columns are indicators of its values. Their means are shares of patients."""
        return len(self.released) > 1

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """(lower, upper) public bounds of each released column, in its unit."""

    @property
    @abstractmethod
    def midpoint(self) -> float:
        """The value that is coded as 0, in its unit."""

    @property
    @abstractmethod
    def half_width(self) -> float:
        """The value of one scaled unit, in its unit."""

    @abstractmethod
    def variables(self, position: int) -> tuple[Variable, ...]:
        """The variables of a Gram matrix that it becomes.

        Args:
            position: of the column among those of its layout.
        """

    # Before any data

    @abstractmethod
    def assumption(self, spread: float, *, signs: bool) -> Assumption:
        """Assumption of a forecast.

        Args:
            spread: variance of every number in scaled units.
            signs: whether a category of two values is coded -1 or +1, not 0 or 1.
        """

    @abstractmethod
    def made_up(self, places: Floats) -> RawColumn:
        """(n,) cells for a dry run, from places in (0, 1) among all that a cell can be."""

    @abstractmethod
    def standardised(self, places: Floats) -> Floats:
        """(n,) the same cells as a score of mean 0 and variance 1."""

    # Words

    @property
    @abstractmethod
    def extent(self) -> str:
        """Its bounds or values in words."""

    @property
    @abstractmethod
    def domain(self) -> dict[str, object]:
        """Its bounds or values, JSON-ready."""

    @property
    def released_unit(self) -> str:
        """Unit of what it becomes; an indicator has none."""
        return "" if self.indicators else self.unit

    @property
    def legend(self) -> str:
        """Meaning of its numbers in words; empty if they need none."""
        return ""

    @property
    def described(self) -> str:
        """The declaration in one line."""
        derived = f"; derived: {self.derivation}" if self.derivation else ""
        exactly = "; PUBLIC, published exactly" if self.public else ""
        return f"{self.name}: {self._reads}; a missing cell is read as {self.fill_text}{derived}{exactly}"

    @property
    def _reads(self) -> str:
        return self.extent
