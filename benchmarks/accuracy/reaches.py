"""What releases of moments in ranges should reach in `accuracy`, and their figures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.common.report import Results

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


def judge(results: Results, cells: Sequence[dict[str, Any]]) -> None:
    """Figures of one table at one privacy target.

    Args:
        results: to add to.
        cells: from `accuracy.measure`.
    """
    for cell in cells:
        if not cell["declared"]:
            continue
        asked = cell["budget"] == BUDGET
        reach, found = REACHES.get(cell["target"], Reach()), cell["methods"]
        name = f"{cell['table']} (n = {cell['n']:,}), {cell['budget']}, {cell['target']}"
        for method, least, worst in ((RANGES, reach.median, reach.worst), (KNOWN, reach.known, WORST)):
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
