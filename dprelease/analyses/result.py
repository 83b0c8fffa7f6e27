"""What an analysis gives back: tables of estimates, tests, and when not to believe them; as text, and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import JointTest
from dprelease.estimators.intervals.inference import EQUAL_SPREAD, LEVEL
from dprelease.estimators.moments.resolution import rounded
from dprelease.estimators.result import SEVERAL_ROWS
from dprelease.one_line import aligned, indented, listed, one_line
from dprelease.release.reaches import GENTLE
from dprelease.release.release import Release
from dprelease.release.trust import trust

VERSION = 1
"""Version of the mapping that `Analysis.to_json` makes."""

_BOTH = "intervals: privacy noise and sampling"
_NOISE = "intervals: privacy noise only, about these patients"
_SAFE = (
    "If noise is large, P values of tables, of chi-square tests and of 'least squares would do' err on the safe side. Without "
    "an effect they are below 0.05 in 0 to 5 % of cases."
)
_RATIO = {"log": "std err is that of the logarithm", "fisher": "std err is that of Fisher's z"}


@dataclass(frozen=True, eq=False)
class Analysis:
    """Result of an analysis.

    Attributes:
        title: what was done.
        release: what it was done on.
        tables: caption to estimates.
        tests: what is tested to the test.
        caveats: sentences that say when not to believe it.
        facts: further lines of the head.
        of_counts: whether it is of categories alone, which clipping leaves as they are.
    """

    title: str
    release: Release
    tables: Mapping[str, Estimates]
    tests: Mapping[str, JointTest] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    of_counts: bool = False

    def __post_init__(self) -> None:
        if self._biased:
            untested = {caption: replace(table, tested=False) for caption, table in self.tables.items()}
            object.__setattr__(self, "tables", untested)
            object.__setattr__(self, "tests", {})

    @property
    def _biased(self) -> bool:
        return not self.of_counts and any(each.kept < GENTLE for each in self.release.reaches)

    @property
    def _of_residuals(self) -> bool:
        """Whether errors come from a residual variance: those of slopes and means, not of ratios and correlations."""
        sampled = any(table.scale is not None and table.link == "identity" for table in self.tables.values())
        return sampled and not self.of_counts

    @property
    def warnings(self) -> tuple[str, ...]:
        """The caveats, and those that every analysis of this release has."""
        clipped = list(self.release.ranged)
        told = [EQUAL_SPREAD] if self._of_residuals else []
        if clipped and not self.of_counts:
            told.append(
                f"About rows as clipped, in which effects may be smaller: {listed(clipped)} were released in ranges "
                "of their own, narrower than their bounds."
            )
            told.append(f"How far: {'; '.join(map(str, self.release.reaches))}. Intervals are not wider for it.")
        if self._biased:
            told.append(f"No p-values: some number keeps less than {GENTLE:.0%} of its slopes.")
        on_draws = any(table.tested and len(table.location) > 1 for table in self.tables.values())
        if on_draws or any(test.resolution for test in self.tests.values()):
            told.append(_SAFE)
        if self.release.spec.rows_per_subject > 1:
            told.append(SEVERAL_ROWS)
        return (*self.caveats, *told)

    def summary(self) -> str:
        """The analysis as text, in the manner of statistical packages; lines are not wrapped."""
        spec = self.release.spec
        facts = {"release": self.release.digest, "patients": f"{self.release.patients:,}"} | dict(self.facts)
        parts = [[self.title, *(f"{name:<11}{text}" for name, text in facts.items())]]
        parts += [_table(caption, table) for caption, table in self.tables.items()]
        parts += [[_sentence(name, test) for name, test in self.tests.items()]] if self.tests else []
        parts += [
            ["When not to believe it", *indented(self.warnings)],
            ["Guarantee", *indented(self.release.guarantee)],
            ["Trust", *indented(trust(spec))],
        ]
        return "\n\n".join("\n".join(one_line(line) for line in part) for part in parts)

    def to_json(self) -> dict[str, Any]:
        """The analysis as plain data, the same for the same release."""
        return {
            "version": VERSION,
            "release": self.release.digest,
            "analysis": self.title,
            "patients": self.release.patients,
            "facts": dict(self.facts),
            "tables": {
                caption: {"interval": "noise" if table.scale is None else "noise and sampling", "rows": table.to_json()}
                for caption, table in self.tables.items()
            },
            "tests": {name: test.to_json() for name, test in self.tests.items()},
            "caveats": list(self.warnings),
            "guarantee": list(self.release.guarantee),
            "trust": list(trust(self.release.spec)),
        }


def _table(caption: str, table: Estimates) -> list[str]:
    lower, upper = table.interval()
    # The error of the transformed is the relative error of a ratio, and about the error of a correlation.
    errors = table.standard_error * (table.estimate if table.link == "log" else 1.0)
    known = table.scale is None and len(table.location) == 1  # one draw without an error: nothing is left open
    columns = [["", *table.names], ["estimate", *map(rounded, table.estimate, errors)]]
    if not known:
        columns.append(_column("noise sd", table.noise_sd, ".3g"))
    if table.scale is not None:
        columns.append(_column("std err", table.standard_error, ".3g"))
    if not known:
        columns.append(_column(f"[{(1 - LEVEL) / 2:g}", lower, ".5g"))
        columns.append(_column(f"{(1 + LEVEL) / 2:g}]", upper, ".5g"))
    if table.tested:
        columns.append(["P", *(_p(value, table.resolution) for value in table.p_value)])
    if any(table.units):
        columns.append(["unit", *table.units])
    left = [place for place, (head, *_) in enumerate(columns) if head in ("", "unit")]
    lines = aligned(list(zip(*columns, strict=True)), left)
    rule = "-" * max(map(len, lines))
    told = [_NOISE if table.scale is None else _BOTH, *([_RATIO[table.link]] if table.link in _RATIO else [])]
    return [caption, rule, lines[0], rule, *lines[1:], rule, *([] if known else ["; ".join(told)])]


def _column(head: str, values: Sequence[float] | Any, form: str) -> list[str]:
    return [head, *(format(value, form) if np.isfinite(value) else "-" for value in values)]


def _p(value: float, resolution: float) -> str:
    return f"{value:.3f}" if value > max(resolution, 0.0005) else f"<{max(resolution, 0.001):.1g}"


def _sentence(name: str, test: JointTest) -> str:
    finite = np.isfinite(test.degrees)
    law = f"F({test.restrictions}, {test.degrees:g})" if finite else f"chi-square({test.restrictions})"
    p = _p(test.p_value, test.resolution)
    return f"Test that {name}: {law} = {test.statistic:.4g}, P {f'< {p[1:]}' if p[0] == '<' else f'= {p}'}"
