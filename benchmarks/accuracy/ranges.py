"""Fits on a release of ranges and one of moments of clipped rows after it, both out of one budget, simulated from a table.

R^2 is counted as predictions are made: features are clipped at the published ranges, outcomes are not, and no row is shortened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.accuracy.ours import r_squared
from benchmarks.accuracy.problem import Coding, Problem
from benchmarks.common.moment_releases import GRID_BITS, both_rounds
from dprelease.arrays import Floats
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, NumericColumn


def by_ranges(
    problem: Problem,
    targets: Sequence[str],
    mu: float,
    draws: int,
    random: np.random.Generator,
    weights: Mapping[str, float] | None = None,
) -> dict[str, Floats]:
    """R^2 of `shrinkage`, target to (draws,). Every draw is one release of ranges and one of moments, which all targets share.

    Args:
        problem: the table.
        targets: its outcomes.
        mu: budget of both releases together.
        draws: of both.
        random: of the noise.
        weights: number to its weight, where an outcome is known beforehand.
    """
    bounded, found = bounded_rows(problem), {target: np.empty(draws) for target in targets}
    for draw in range(draws):
        moments, _ = both_rounds(bounded, mu, random, weights)
        seen = in_ranges(problem, moments.layout.columns)
        for target in targets:
            found[target][draw] = r_squared(moments, seen.regression(target, seen.variables))
    return found


def bounded_rows(problem: Problem) -> dict[str, BoundedRows]:
    """What each institution holds after bounding."""
    codes = np.rint(np.ldexp(problem.released.rows, GRID_BITS)).astype(np.int32)
    parts = problem.table.parties
    ends = np.cumsum([sum(len(column.released) for column in columns) for columns in parts.values()])
    split = np.split(codes, ends[:-1], axis=1)
    return {
        party: BoundedRows(own, columns, GRID_BITS) for (party, columns), own in zip(parts.items(), split, strict=True)
    }


def in_ranges(problem: Problem, columns: tuple[Column, ...]) -> Problem:
    """The problem in the scaled units of published ranges, features clipped at them.

    Args:
        problem: in those of the public bounds.
        columns: declarations with ranges in place of bounds.
    """
    rows, outcomes = problem.variables.rows.copy(), {}
    for place, variable in enumerate(problem.layout.variables):
        old, new = problem.layout.columns[variable.column], columns[variable.column]
        if isinstance(old, NumericColumn) and isinstance(new, NumericColumn):
            moved, wider = (old.midpoint - new.midpoint) / new.half_width, old.half_width / new.half_width
            rows[:, place] = np.clip(moved + wider * rows[:, place], -1, 1)
            outcomes[old.name] = moved + wider * problem.outcomes[old.name]
    coding = Coding.of(problem.variables.names, problem.variables.redundant, rows)
    return replace(problem, variables=coding, outcomes=outcomes)
