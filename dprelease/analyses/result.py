"""Results of an analysis: tables of estimates, tests, and when not to believe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import JointTest
from dprelease.document.cells import Estimate, Said, p_text
from dprelease.document.document import Document, Heading, Table
from dprelease.document.shown import Shown
from dprelease.estimators.design import check_lists
from dprelease.estimators.intervals.clipped import MISSED, WIDER, tails
from dprelease.estimators.intervals.inference import EQUAL_SPREAD
from dprelease.estimators.result import SEVERAL_ROWS, filled
from dprelease.release.reaches import Reach
from dprelease.release.release import Release

_BOTH = "hold privacy noise and sampling."
_NOISE = "hold privacy noise only: they are about these patients."
_CLIPPING = "Intervals also hold what clipping may take."
_SAFE = (
    "If noise is large, P values of tables, of chi-square tests and of 'least squares would do' err on the safe side. Without "
    "an effect they are below 0.05 in 0 to 5 % of cases."
)
_RATIO = {"log": "The standard error is that of the logarithm.", "fisher": "The standard error is that of Fisher's z."}


@dataclass(frozen=True, eq=False, repr=False)
class Analysis(Shown):
    """Result of an analysis.

    Attributes:
        title: what was done.
        release: what it was done on.
        columns: released names of all that enters it.
        tables: caption to estimates.
        tests: what is tested to the test.
        caveats: sentences that say when not to believe it.
        facts: further lines of the head.
        of_counts: whether it is of categories alone, which clipping leaves as they are.
        asked: ``analysis``, the name of the function, and ``arguments``, which make it again.
    """

    title: str
    release: Release
    columns: tuple[str, ...]
    tables: Mapping[str, Estimates]
    tests: Mapping[str, JointTest] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    of_counts: bool = False
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _clipped(self) -> tuple[Reach, ...]:
        """How far the clipped numbers reach that enter it."""
        return tuple(each for each in self.release.reaches if each.name in self.columns and each.clips)

    @property
    def _of_residuals(self) -> bool:
        """True if errors come from a residual variance: those of slopes and means, not of ratios and correlations."""
        sampled = any(table.scale is not None and table.link == "identity" for table in self.tables.values())
        return sampled and not self.of_counts

    @property
    def warnings(self) -> tuple[str, ...]:
        """The caveats, and those that every analysis of this release has."""
        told = [EQUAL_SPREAD] if self._of_residuals else []
        if self._clipped:
            told += [f"Estimates describe all rows; {WIDER}.", *tails(self._clipped), MISSED]
            told += ["Tests count what clipping may take as error."] if self.tests else []
            told.append(f"How far: {'; '.join(map(str, self._clipped))}.")
        on_draws = any(table.tested and len(table.location) > 1 for table in self.tables.values())
        if on_draws or any(test.resolution for test in self.tests.values()):
            told.append(_SAFE)
        if self.release.spec.rows_per_subject > 1:
            told.append(SEVERAL_ROWS)
        return (*self.caveats, *told, *filled(self.release.fills(self.columns)))

    def document(self) -> Document:
        """All that the analysis has to tell."""
        scores = self.release.scores(filter(self.release.columns.__contains__, self.columns))
        facts = {"release": self.release.digest, "patients": self.release.patients} | scores | dict(self.facts)
        tables = [_table(caption, found) for caption, found in self.tables.items()]
        if self.tests:
            tables.append(_tests(self.tests))
        return Document(
            self.title,
            facts,
            tuple(tables),
            self.warnings,
            self.release.promise,
            self.asked,
            details={"missing_cells": self.release.fills(self.columns)},
            heading="When not to believe it",
        )

    def __repr__(self) -> str:
        """The analysis and its release, in one line."""
        return f"Analysis({self.title}, release {self.release.digest[:12]})"


Made = TypeVar("Made", bound=Callable[..., Analysis])


def repeatable(made: Made) -> Made:
    """A function of a release whose results know its name and arguments; it refuses text for a list, whose letters are no names."""
    of = signature(made)
    lists = {name for name, each in of.parameters.items() if str(each.annotation).startswith("Sequence")}

    @wraps(made)
    def asked(*given: Any, **named: Any) -> Analysis:
        _, *told = of.bind(*given, **named).arguments.items()
        check_lists(*(each for name, each in told if name in lists))
        return replace(made(*given, **named), asked={"analysis": made.__name__, "arguments": dict(told)})

    return cast(Made, asked)


def _table(caption: str, found: Estimates) -> Table:
    lower, upper = found.interval()
    # One draw without an error, of rows as they are, leaves nothing open.
    known = found.scale is None and len(found.location) == 1 and found.taken is None
    estimates = [
        Estimate(
            float(found.estimate[place]),
            float("nan") if known else float(found.standard_error[place]),
            float(lower[place]),
            float(upper[place]),
            found.units[place] if found.units else "",
            p_value=float(found.p_value[place]),
            least_p=found.resolution,
            relative=found.link == "log",
        )
        for place in range(len(found.names))
    ]
    parts = ["estimate", *([] if known else ["standard_error", "lower", "upper"])]
    parts += [*(["p_value"] if found.tested else []), *(["unit"] if any(found.units) else [])]
    ends = "Errors and intervals" if found.taken is None else "Errors"
    sampled = found.sampled or found.scale is not None
    told = [f"{ends} {_BOTH if sampled else _NOISE}", *([_RATIO[found.link]] if found.link in _RATIO else [])]
    told += [] if found.taken is None else [_CLIPPING]
    headings = (
        Heading("table", detail=True),
        Heading("name", " "),
        Heading("value", parts=tuple(parts), ratio=""),
        Heading("noise_sd", detail=True),
        Heading("interval_holds", detail=True),
        Heading("scale", detail=True),
        Heading("wider", detail=True),
    )
    holds = ["noise", *(["sampling"] if sampled else []), *([] if found.taken is None else ["clipping"])]
    rows = [
        (caption, name, one, float(sd), " and ".join(holds), found.link, float(wider))
        for name, one, sd, wider in zip(found.names, estimates, found.noise_sd, found.wider, strict=True)
    ]
    return Table.of("tables", headings, rows, title=caption, below=() if known else (" ".join(told),))


def _tests(found: Mapping[str, JointTest]) -> Table:
    headings = ("null hypothesis", Heading("law", "test"), "statistic", Heading("p_value", "P"))
    more = tuple(Heading(key, detail=True) for key in ("restrictions", "degrees", "resolution"))
    rows = []
    for name, test in found.items():
        finite = np.isfinite(test.degrees)
        law = f"F({test.restrictions}, {test.degrees:g})" if finite else f"chi-square({test.restrictions})"
        p = Said(test.p_value, p_text(test.p_value, test.resolution))
        rows.append((name, law, float(test.statistic), p, test.restrictions, float(test.degrees), test.resolution))
    return Table.of("tests", (*headings, *more), rows, title="Tests")
