"""Cells of tables and values of facts: each knows how people read it and what programs get.

An estimate is one type everywhere, with one JSON shape. Its digits follow its error: the error has two significant digits, and the
estimate and its interval end at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from dprelease.canonical import Value
from dprelease.one_line import one_line
from dprelease.privacy.price import epsilon_at, price_text

LEVEL = 0.95
"""Confidence of an interval unless another is asked for."""
UNKNOWN = "-"
"""How people read a number that is not known."""
UNBOUNDED = "none"
"""How people read the end of an interval that has no end on that side."""
_NORMAL_ENDS = 1.96
_LEAST_P = 0.0005
_MOST_PLACES = 7
_EXACT = 6


@dataclass(frozen=True)
class Said:
    """A value that people read in other words than programs.

    Attributes:
        value: plain data.
        text: for people; several lines where one is not enough.
    """

    value: Any
    text: str | tuple[str, ...]


@dataclass(frozen=True)
class Estimate:
    """An estimate with what is known of its error; a number that is not known is NaN.

    Attributes:
        value: the estimate.
        error: its standard error, or the standard deviation that privacy noise leaves open where no sampling is meant.
        lower: end of its interval; infinite where there is no bound.
        upper: the other end.
        unit: of all of them; empty for none.
        level: confidence of the interval.
        ratio: z or t, the estimate in standard errors under the null hypothesis.
        p_value: two-sided.
        least_p: the least p-value that can be told.
        said: words before the estimate ("at most"), or in place of one that is not known ("hidden").
        relative: whether the error is that of the logarithm.
    """

    value: float
    error: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    unit: str = ""
    level: float = LEVEL
    ratio: float = math.nan
    p_value: float = math.nan
    least_p: float = 0.0
    said: str = ""
    relative: bool = False

    @property
    def text(self) -> str:
        """The estimate and its error in one cell, as in ``1.23 (0.04)``."""
        if not math.isfinite(self.value) or not math.isfinite(self.error):
            return self.part("estimate")
        return f"{self.part('estimate')} ({self.part('standard_error')})"

    @property
    def _spread(self) -> float:
        """The error that digits follow: that of the interval where it is the shorter one."""
        spread = self.error * abs(self.value) if self.relative else self.error
        length = (self.upper - self.lower) / (2 * _NORMAL_ENDS)
        return min(spread, length) if length > 0 else spread

    def part(self, name: str) -> str:
        """One of `PARTS` as people read it."""
        spread = self._spread
        if name == "estimate":
            shown = figure(self.value, spread) if math.isfinite(self.value) else ""
            return f"{self.said} {shown}".strip() or UNKNOWN
        if name == "standard_error":
            return figure(self.error, self.error)
        if name in ("lower", "upper"):
            end = self.lower if name == "lower" else self.upper
            return UNBOUNDED if math.isinf(end) else figure(end, spread)
        if name == "ratio":
            return f"{self.ratio:z.2f}" if math.isfinite(self.ratio) else UNKNOWN
        return p_text(self.p_value, self.least_p) if name == "p_value" else one_line(self.unit) or "1"

    def to_json(self) -> dict[str, Any]:
        """The one shape of an estimate as data; what is not known, and an end that does not exist, is None."""
        return {
            "estimate": known(self.value),
            "standard_error": known(self.error),
            "lower": known(self.lower),
            "upper": known(self.upper),
            "level": self.level,
            "unit": self.unit,
            "ratio": known(self.ratio),
            "p_value": known(self.p_value),
            "said": self.said,
        }


PARTS: Mapping[str, str] = MappingProxyType(
    {
        "estimate": "estimate",
        "standard_error": "std err",
        "ratio": "z",
        "p_value": "P>|z|",
        "lower": "[0.025",
        "upper": "0.975]",
        "unit": "unit",
    }
)
"""Parts of an estimate that a table may show in columns of their own, and the heads of these."""

Cell = str | int | float | Fraction | bool | Estimate | Said | Mapping[str, Any] | Sequence[Any] | None
"""Value in a table, or of a fact; mappings and lists are for programs only."""


def price(mu2: Fraction, delta: float) -> Said:
    """An amount of a privacy budget: exact mu^2, ``"p/q"``, and epsilon at delta; an amount below 0 has no epsilon.

    Raises:
        InvalidInput: delta is not in (0, 1).
    """
    return Said({"mu2": str(mu2), "epsilon": epsilon_at(mu2, delta) if mu2 >= 0 else None}, price_text(mu2, delta))


def figure(value: float, error: float = math.nan) -> str:
    """A number to the second digit of its error; six digits where there is none, `UNKNOWN` where it is not known.

    An error of tens or more leaves a number two digits of its own, however small it is beside the error.
    """
    if not math.isfinite(value):
        return UNKNOWN
    if not 0 < error < math.inf:
        return f"{value + 0.0:.{_EXACT}g}"  # never -0
    places = 1 - math.floor(math.log10(error))
    if places <= 0 and value:
        places = max(places, 1 - math.floor(math.log10(abs(value))))
    if places > _MOST_PLACES:
        digits = 2 + max(0, math.floor(math.log10(abs(value) or error)) - math.floor(math.log10(error)))
        return f"{value:.{digits}g}"
    return f"{round(value, places) + 0.0:.{max(places, 0)}f}"  # never -0.00


def p_text(value: float, least: float = 0.0) -> str:
    """A p-value, or that it is below the least one that can be told."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:.3f}" if value > max(least, _LEAST_P) else f"<{max(least, 0.001):.1g}"


def known(value: float) -> float | None:
    """A number as data; None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def lines_of(cell: Cell, digits: int = 4) -> tuple[str, ...]:
    """A cell as people read it, in one line unless it has several itself, as a tuple has; arguments as for `told`."""
    if isinstance(cell, tuple):
        return tuple(told(each, digits) for each in cell) or (UNKNOWN,)
    if isinstance(cell, Said) and isinstance(cell.text, tuple):
        return tuple(map(one_line, cell.text)) or (UNKNOWN,)
    return (told(cell, digits),)


def told(cell: Cell, digits: int = 4) -> str:
    """A cell as people read it, on one line and without anything that a terminal obeys.

    A number without an error has so many significant digits.
    """
    if isinstance(cell, Said) and isinstance(cell.text, tuple):
        return "; ".join(lines_of(cell))
    if isinstance(cell, Estimate | Said):
        return one_line(str(cell.text))
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.{digits}g}" if math.isfinite(cell) else UNKNOWN
    if isinstance(cell, int):
        return f"{cell:,}"
    return UNKNOWN if cell is None else one_line(str(cell))


def plain(cell: Any) -> Any:
    """A cell, or values within values, as data for JSON."""
    if isinstance(cell, Estimate):
        return cell.to_json()
    if isinstance(cell, Said):
        return plain(cell.value)
    if isinstance(cell, Value):
        return cell.model_dump(mode="json")
    if isinstance(cell, Mapping):
        return {str(key): plain(value) for key, value in cell.items()}
    if isinstance(cell, tuple | list):
        return [plain(each) for each in cell]
    if isinstance(cell, Fraction):
        return str(cell)
    if hasattr(cell, "tolist"):  # of numpy, which this room does not load
        return plain(cell.tolist())
    return known(cell) if isinstance(cell, float) else cell
