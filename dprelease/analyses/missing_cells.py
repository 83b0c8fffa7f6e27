"""Missing cells: shares, patterns of two columns, and tests of "missing completely at random".

An indicator says whether a cell was missing, and a release of joint moments holds its products with all other columns. Shares
and patterns of two are sums of these. Cells of a column are missing completely at random only if its indicator m depends on no
other column v. So each test asks whether v explains m, by the normal equations that know the noise (`score_test`). The cells of v
may be missing too, and then hold its fill or its level `missing`. Indicators of v stand among the regressors: where m and they
depend on each other alone, v among the patients who have it is the same for both values of m, and the test says so.

Columns that are made of the same source as m tell nothing, for their cells follow from whether it is missing. No sums over the
patients who have both cells are shown: they gain little on a fit with the indicator for a feature (`benchmarks.missing`).

Source: Little 1988, A test of missing completely at random for multivariate data with missing values, JASA 83(404); Rubin 1976.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dprelease.analyses.draws import number, refuse_outcomes
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import JointTest, score_test
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.data.column import NAME, QUOTED
from dprelease.data.columns import Column
from dprelease.data.exits import MISSING
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.evidence import nearest
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.one_line import listed
from dprelease.privacy.public_stream import PublicNormals
from dprelease.release.release import Release

LEVEL = 0.05
DRAWS = 2000
RIDGE = 1e-9
"""Added to variances, so that levels of nobody can stand in an equation."""
SAME = 0.999
"""Correlation of two indicators from which on they are of the same patients."""
_IS_MISSING = re.compile(rf"({NAME}) is missing")
_WORDS = frozenset(
    re.findall(r"\w+", "log days whole years from to is missing cut at starts with or first of by map exit and")
)
"""Words of formulas that are no names of columns."""


class Gap(NamedTuple):
    """An indicator of missing cells.

    Attributes:
        name: released name that says so.
        sources: columns of the hospital that it is about, and its own where it is a level.
    """

    name: str
    sources: frozenset[str]

    def concerns(self, column: Column, made: Mapping[str, frozenset[str]]) -> bool:
        """Tells whether cells of a column follow from the same source, by `made_of` the columns of a release."""
        own = (made[name] for name in self.sources if name in made)
        return not self.sources.union(*own).isdisjoint(made[column.name])


@repeatable
def missing_cells(release: Release, indicators: Sequence[str] = (), on: Sequence[str] = ()) -> Analysis:
    """Missing cells of a release: how many, in which patterns, and whether they depend on other columns.

    Tables: ``missing`` (shares) and ``patterns`` (patients by two columns); noise only. Tests: ``whether ... is missing does not
    depend on ...``, for each indicator and each other column.

    Args:
        release: a verified release of joint moments.
        indicators: binaries or levels that say that a cell is missing; every ``derived = { missing = ... }`` and every level
            ``missing`` if empty.
        on: columns to test against; all if empty.

    Raises:
        InvalidInput: an unknown name, a number among the indicators, no indicator, an outcome-only column, or no moments.
    """
    moments, gaps = release.moments().joint, _gaps(release, indicators)
    asked = {release.column(name).name for each in on for name in release.expand((each,), reference=False)}
    refuse_outcomes(release, {*asked, *(release.column(gap.name).name for gap in gaps)})
    likely = nearest(moments)
    likely[np.diag_indices_from(likely)] += RIDGE
    tests: dict[str, JointTest] = {}
    made = made_of(moments.coded)
    for gap in gaps:
        for column in moments.coded:
            if gap.concerns(column, made) or (asked and column.name not in asked):
                continue
            given = [moments.lookup(each.name)[0] for each in gaps if each.concerns(column, made)]
            tested, target = _variables(moments, column, gaps), moments.lookup(gap.name)[0]
            if not tested or _follows(likely, target, given):
                continue
            features = [*given, *tested]
            found = score_test(moments, features, range(len(given), len(features)), target, likely=likely)
            tests[f"whether {gap.name} does not depend on {column.name}"] = found
    names = [gap.name for gap in gaps]
    return Analysis(
        "Missing cells",
        release,
        tuple(names),
        _counts(release, moments, names),
        tests,
        _caveats(len(tests), clips=moments.clipping is not None),
        of_counts=True,
    )


def made_of(columns: Iterable[Column]) -> dict[str, frozenset[str]]:
    """Column to its own name and those that its hospital derives it from, also through others of these columns."""
    found = {
        each.name: frozenset(re.findall(NAME, re.sub(QUOTED, "", each.derivation))) - _WORDS | {each.name}
        for each in columns
    }
    return {name: own.union(*(found[each] for each in own if each in found)) for name, own in found.items()}


def _columns(release: Release) -> list[Column]:
    out = set(release.spec.outcomes)
    return [column for part in release.spec.parties for column in part.columns if column.name not in out]


def _gaps(release: Release, indicators: Sequence[str]) -> tuple[Gap, ...]:
    named = [number(release, name) for name in indicators]
    measured = [name for name in named if not release.column(name).indicators]
    if measured:
        raise InvalidInput(
            f"{listed(measured)} is a number, and no indicator of missing cells; name a binary or a level"
        )
    if named:
        return tuple(_gap(release, name) for name in dict.fromkeys(named))
    columns = _columns(release)
    found: list[Gap] = []
    # A level `missing` is the same as an indicator of its source, which as a binary has less noise and comes first.
    for name in (
        *(column.released[0] for column in columns if _IS_MISSING.fullmatch(column.derivation)),
        *(column.released[-1] for column in columns if column.values and column.values[-1] == MISSING),
    ):
        gap = _gap(release, name)
        if not any(gap.sources & each.sources for each in found):
            found.append(gap)
    if not found:
        raise InvalidInput(
            "no column of this release says that cells are missing; name a level that does, or have a hospital declare "
            'derived = { missing = "bmi" } before the release'
        )
    return tuple(found)


def _gap(release: Release, name: str) -> Gap:
    column = release.column(name)
    read = _IS_MISSING.fullmatch(column.derivation)
    return Gap(name, frozenset({read[1]}) if read else made_of([column])[column.name])


def _variables(moments: NoisyMoments, column: Column, gaps: Sequence[Gap]) -> list[int]:
    """Places of a column's variables, which say something else than that a cell is missing; all levels but the first."""
    out = {moments.lookup(gap.name)[0] for gap in gaps}
    found = dict.fromkeys(moments.lookup(name)[0] for name in column.released)
    if column.values and column.values[-1] == MISSING:
        out.add(moments.lookup(column.released[-1])[0])
    told = [at for at in found if at not in out]
    # Without noise a level that nobody has is nothing to test.
    some = [at for at in told if moments.noise_sd[0, at] or moments.gram[at, at]]
    return some[1:] if len(found) > 1 else some


def _follows(likely: Floats, target: int, given: Sequence[int]) -> bool:
    """Tells whether an indicator is always the same, or one of some others."""
    at = [target, *given]
    covariance = likely[np.ix_(at, at)] - np.outer(likely[0, at], likely[0, at])
    spread = np.sqrt(np.maximum(np.diag(covariance), RIDGE))
    return bool((np.abs(covariance[0, 1:]) > SAME * spread[0] * spread[1:]).any())


def _counts(release: Release, moments: NoisyMoments, names: Sequence[str]) -> dict[str, Estimates]:
    """Shares of indicators, and patients by two of them: draws of what noise leaves open."""
    normals = PublicNormals(hashlib.sha256(f"{release.digest} missing".encode()).digest())
    read, n = {name: moments.lookup(name) for name in names}, moments.rows

    def drawn(one: int, other: int) -> Floats:
        sd = moments.noise_sd[one, other]
        found: Floats = moments.gram[one, other] + sd * normals.normal(DRAWS)
        return found

    sums = {name: drawn(0, at) for name, (at, _, _) in read.items()}
    count = {name: middle * n + half * sums[name] for name, (_, middle, half) in read.items()}
    rows, parts = [], []
    for one, other in combinations(names, 2):
        (at, middle, half), (place, centre, reach) = read[one], read[other]
        both = centre * count[one] + reach * (middle * sums[other] + half * drawn(at, place))
        rows += [f"{one} and {other}", f"{one} alone", f"{other} alone", f"neither {one} nor {other}"]
        parts += [both, count[one] - both, count[other] - both, n - count[one] - count[other] + both]
    shares = np.clip(np.column_stack([count[name] for name in names]) / n, 0.0, 1.0)
    tables = {"missing": Estimates(tuple(names), shares)}
    if rows:
        cells = np.maximum(np.column_stack(parts), 0.0)
        tables["patterns"] = Estimates(tuple(rows), cells, units=("patients",) * len(rows))
    return tables


def _caveats(tests: int, *, clips: bool) -> tuple[str, ...]:
    told = []
    if tests > 1:
        told.append(
            f"There are {tests} tests, and without any dependence {LEVEL:.0%} of them find one. Believe a P below "
            f"{LEVEL / tests:.2g}, which is {LEVEL} divided by {tests}."
        )
    if clips:
        told.append("Tests against numbers are of cells as hospitals clipped them.")
    return (
        *told,
        "A test that finds nothing does not show that cells are missing at random: noise may hide it, and cells may be missing "
        "for their own value, which no data show.",
        "Shares and patterns are of their own released sums. `describe` takes all sums together, so it differs within the noise.",
        "A column with missing cells and no indicator of them counts with its fill.",
        "Patterns of three columns or more are not in a release of sums of two.",
    )
