"""What releases of moments in ranges should reach in `accuracy`, their figures beside it, and how many draws decide it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.report import Results
from dprelease.arrays import Floats

MOMENTS = "moments"
RANGES, KNOWN = "ranges", "ranges, known outcome"
TIMES, MANY = 50, 5_000
"""Bounds so many times as wide as declared are tried too, from so many patients on."""
WIDE = f"ranges, bounds {TIMES} times as wide"


class Reach(NamedTuple):
    """Least R^2 at (1, 1e-6), None where only the comparisons count.

    Attributes:
        median: of a release for all outcomes.
        known: of one with more weight on this outcome.
        worst: 5 % quantile of the former; that of the latter is `WORST`.
    """

    median: float | None = None
    known: float | None = None
    worst: float = -0.02


class Turn(NamedTuple):
    """A level of a quantile of R^2 at which a figure turns from holding to falling short.

    Attributes:
        part: that lies below the quantile.
        level: R^2.
    """

    part: float
    level: float


SURE = 3.0
"""Standard errors from its level at which a quantile is decided."""
LARGE = 10_000
"""Patients from which on joint moments should beat the constant predictor at `BUDGET`."""
WORST = -0.02
BUDGET = "(1, 1e-6)"
SAME = 0.01
"""What ranges may cost in R^2 where public bounds serve well."""
FORMALITY = 0.03
"""What wide bounds may cost in R^2."""
STRONG = frozenset({"cnt", "hum", "yrs_married", "children"})
"""Outcomes for which they do."""
REACHES: Mapping[str, Reach] = MappingProxyType(
    {
        "wt82": Reach(0.66),
        "sbp": Reach(0.33),
        "Birthweight": Reach(0.05, known=0.15, worst=-0.08),
        "affairs": Reach(0.02),
        "mdu": Reach(0.065),
        "charges": Reach(0.66),
        "critical_temp": Reach(0.43),
    }
)


def turns(cell: Mapping[str, Any], method: str) -> list[Turn]:
    """The levels that the figures of one method turn on.

    Args:
        cell: of one outcome, with the methods that this one is compared with.
        method: that releases moments.
    """
    if not cell["declared"]:
        return []
    target, reach = cell["target"], REACHES.get(cell["target"], Reach())
    medians = {name: found["median"] for name, found in cell["methods"].items()}
    found: list[tuple[float, float | None]] = []
    if method in (MOMENTS, RANGES):
        found.append((0.5, medians["adassp"]))
    if cell["budget"] == BUDGET:
        if method == MOMENTS and cell["n"] >= LARGE:
            found.append((0.5, 0.0))
        if method == RANGES:
            found += [(0.5, reach.median), (0.05, reach.worst)]
        if method == RANGES and target in STRONG:
            found.append((0.5, medians[MOMENTS] - SAME))
        if method == KNOWN:
            found += [(0.5, reach.known), (0.05, WORST)]
        if method == WIDE:
            found.append((0.5, medians[RANGES] - FORMALITY))
    return [Turn(part, level) for part, level in found if level is not None]


def decided(scores: Floats, against: Sequence[Turn]) -> bool:
    """Tells whether every quantile lies so far from its level that more draws would hardly lead it to the other side.

    Args:
        scores: (draws,) R^2.
        against: the levels.
    """
    for part, level in against:
        value, error = quantile(scores, part)
        if abs(value - level) <= SURE * error:
            return False
    return True


def quantile(scores: Floats, part: float) -> tuple[float, float]:
    """A quantile, and its standard error from the order statistics beside it.

    Args:
        scores: (draws,).
        part: that lies below it.
    """
    around = math.sqrt(part * (1 - part) / len(scores))
    low, value, high = np.quantile(scores, np.clip([part - around, part, part + around], 0, 1))
    return float(value), float(high - low) / 2


def judge(results: Results, cells: Sequence[dict[str, Any]]) -> None:
    """Figures of one table at one privacy target."""
    for cell in cells:
        if not cell["declared"]:
            continue
        asked = cell["budget"] == BUDGET
        reach, found = REACHES.get(cell["target"], Reach()), cell["methods"]
        name = f"{cell['table']} (n = {cell['n']:,}), {cell['budget']}, {cell['target']}"
        for method, least, worst in ((RANGES, reach.median, reach.worst), (KNOWN, reach.known, WORST)):
            if method not in found:
                continue
            median, low = found[method]["median"], found[method]["q05"]
            results.add(f"{name}: median R^2 of {method}", median, least if asked else None, ">=")
            results.add(f"{name}: 5 % quantile of {method}", low, worst if asked else None, ">=")
        median = found[RANGES]["median"]
        results.add(f"{name}: {RANGES} less AdaSSP, medians", median - found["adassp"]["median"], 0.0, ">=")
        if WIDE in found:
            lost = median - found[WIDE]["median"]
            results.add(f"{name}: {RANGES} less {WIDE}, medians", lost, FORMALITY if asked else None)
        if cell["target"] in STRONG:
            lost = found["moments"]["median"] - median
            results.add(f"{name}: moments in public bounds less {RANGES}, medians", lost, SAME if asked else None)
