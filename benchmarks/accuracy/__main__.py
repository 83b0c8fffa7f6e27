"""Share of variance explained on real tables: our releases against AdaSSP, tuned gradient descent, and no privacy.

Every method keeps the same (epsilon, delta) for a patient's whole row under replace-one, with exact Gaussian accounting:

    moments    one release of joint moments by three institutions (t = 1), fitted by `shrinkage`; it serves every outcome
    ranges     a release of ranges by the same three, and one of moments of rows coded and clipped by them, out of one budget
    ranges, known outcome
               the same with a weight of 1.7 for this outcome
    ranges, bounds 50 times as wide
               ranges where every number's upper bound lies 50 times as far from its lower one, from 5,000 patients on
    blocks     one release of mixed blocks, joint target, fitted by `calibrated`; it serves every outcome
    adassp     a curator's AdaSSP, recalibrated: its three releases with a third of mu^2 each
    adassp oracle  a stronger one than was published: a joint sensitivity of our own, and an oracle picks the best of six
               choices for each table, outcome and budget; for information
    published  AdaSSP with its own constants, which keep less than the epsilon asked for; for information
    descent    a curator's gradient descent, an oracle picks the best of 252 choices

The curator's methods answer one outcome with the whole budget. R^2 is counted on the private rows, outcomes not clipped,
so 0 is what the true mean would get; it is what a fit explains of the rows at hand, not of new ones. ``together`` means
that every numeric column of a table is an outcome: the budget of AdaSSP (the oracle's) then is divided over them, ours is not.

Releases of moments are the dear part. They are drawn in parts until their standard errors decide every reach, 200 at most.
Known outcomes and wide bounds have no reach at the second target, and are not drawn there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from benchmarks.accuracy.adassp import RIDGES, adassp, joint_adassp, published_adassp, published_epsilon
from benchmarks.accuracy.descent import descend, tuned_descent
from benchmarks.accuracy.ours import by_blocks, by_moments
from benchmarks.accuracy.plot import plot
from benchmarks.accuracy.problem import Problem
from benchmarks.accuracy.ranges import by_ranges
from benchmarks.accuracy.reaches import (
    BUDGET,
    KNOWN,
    LARGE,
    MANY,
    MOMENTS,
    RANGES,
    TIMES,
    WIDE,
    Turn,
    decided,
    judge,
    quantile,
    turns,
)
from benchmarks.accuracy.tables import TABLES, Table
from benchmarks.common.files import at_hand
from benchmarks.common.report import RESULTS, Results, main
from dprelease.arrays import Floats
from dprelease.planning.comparison import KNOWN as WEIGHT
from dprelease.privacy.gaussian import mu_of

Cell = dict[str, Any]
"""One outcome of one table at one target, JSON-ready."""

SEED = 20261121
"""Of an outcome that is known beforehand, as plans propose it."""
TOLERANCE = 2.0
"""Standard errors of a difference of medians that count as equal."""
AGAINST = (
    ("adassp", "AdaSSP", -TOLERANCE),
    ("adassp oracle", "joint AdaSSP with an oracle's choices", None),
    ("published", "AdaSSP as published", None),
)
"""Methods that moments are judged against: their key, name, and least margin."""


@dataclass(frozen=True)
class Budget:
    """A privacy target.

    Attributes:
        name: for results.
        epsilon: of a whole row.
        delta: of a whole row.
    """

    name: str
    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        """The budget of a Gaussian mechanism."""
        return mu_of(self.epsilon, self.delta)


BUDGETS = (Budget(BUDGET, 1.0, 1e-6), Budget("(ln 3, 1e-5)", math.log(3), 1e-5))


@dataclass(frozen=True)
class Effort:
    """How many draws.

    Attributes:
        part: releases of joint moments that are drawn at once.
        most: of them at all, and runs of gradient descent.
        cheap: draws of what costs little.
        tries: runs of each choice of gradient descent.
        steps: of gradient descent at most.
        budgets: privacy targets.
        tables: how many, the smallest.
    """

    part: int
    most: int
    cheap: int
    tries: int
    steps: int
    budgets: tuple[Budget, ...]
    tables: int


QUICK, FULL = Effort(2, 2, 50, 2, 25, BUDGETS[:1], 4), Effort(32, 200, 400, 4, 200, BUDGETS, len(TABLES))


def run(quick: bool) -> Results:
    """R^2 per table, outcome and method at two privacy targets, 32 to 200 draws (2 on four tables at one target when quick)."""
    results = Results()
    effort = QUICK if quick else FULL
    for budget in effort.budgets:
        epsilon = published_epsilon(budget.epsilon, budget.delta)
        results.add(f"{budget.name}: true epsilon of AdaSSP as published", epsilon)
    cells: list[Cell] = []
    for found in everything(effort):
        _judge(results, found)
        judge(results, found)
        cells += found
    results.details["cells"] = cells
    if not quick:
        plot(cells, RESULTS / "accuracy.png")
    return results


def everything(effort: Effort) -> Iterator[list[Cell]]:
    """`measure` of every table that is there at every target, in order, on all cores that this process may use."""
    there = [table for table in TABLES[-effort.tables :] if at_hand(table.name, table.path)]
    tasks = [(table, budget) for table in there for budget in effort.budgets]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from pool.map(measure, *zip(*tasks, strict=True), repeat(effort, len(tasks)))


def measure(table: Table, budget: Budget, effort: Effort) -> list[Cell]:
    """All methods on all numeric outcomes of one table: one entry for each outcome."""
    problem = Problem.of(table)
    seed = [SEED, problem.rows, round(budget.delta * 1e7)]
    cells: dict[str, Cell] = {}
    for place, target in enumerate(problem.outcomes):
        scores, chosen = by_others(problem, target, budget, effort, np.random.default_rng([*seed, place]))
        cells[target] = {
            "table": table.name,
            "n": problem.rows,
            "columns": len(table.columns),
            "clipped": problem.clipped,
            "budget": budget.name,
            "epsilon": budget.epsilon,
            "target": target,
            "declared": target in table.targets,
            "not private": problem.regression(target, problem.variables).best(),
            "methods": {name: summary(values) for name, values in scores.items()},
            "chosen": chosen,
        }
    for method, draw in _releases(problem, budget, np.random.default_rng([*seed, len(cells)])):
        found = until_decided(draw, {target: turns(cell, method) for target, cell in cells.items()}, effort)
        for target, values in found.items():
            cells[target]["methods"][method] = summary(values)
    return list(cells.values())


Draw = Callable[[int], Mapping[str, Floats]]
"""R^2 of so many releases, target to (draws,)."""


def _releases(problem: Problem, budget: Budget, random: np.random.Generator) -> Iterator[tuple[str, Draw]]:
    """Methods that release moments; what others are compared with comes first."""
    mu, targets = budget.mu, problem.table.targets
    yield MOMENTS, lambda draws: by_moments(problem, tuple(problem.outcomes), mu, draws, random)
    yield RANGES, lambda draws: by_ranges(problem, targets, mu, draws, random)
    if budget.name != BUDGET:
        return
    if problem.rows >= MANY:
        wide = Problem.of(problem.table.wider(TIMES))
        yield WIDE, lambda draws: by_ranges(wide, targets, mu, draws, random)
    for known in targets:
        yield KNOWN, lambda draws, known=known: by_ranges(problem, (known,), mu, draws, random, {known: WEIGHT})  # type: ignore[misc]


def until_decided(draw: Draw, against: Mapping[str, Sequence[Turn]], effort: Effort) -> dict[str, Floats]:
    """R^2 of as many releases as decide what depends on them, target to (draws,).

    Args:
        draw: R^2 of some more.
        against: target to the levels that its figures turn on.
        effort: how many at a time, and at most.
    """
    found = dict(draw(effort.part))
    while not all(decided(values, against[target]) for target, values in found.items()):
        left = effort.most - len(next(iter(found.values())))
        if left <= 0:
            break
        more = draw(min(effort.part, left))
        found = {target: np.append(values, more[target]) for target, values in found.items()}
    return found


def by_others(
    problem: Problem, target: str, budget: Budget, effort: Effort, random: np.random.Generator
) -> tuple[dict[str, Floats], Cell]:
    """R^2 of what is not a release of joint moments, and what the oracles chose.

    Only AdaSSP with its share of the budget is measured for outcomes that the table does not declare.
    """
    mu, epsilon, delta, draws = budget.mu, budget.epsilon, budget.delta, effort.cheap
    together, ridge = _tuned_adassp(problem, target, mu / math.sqrt(len(problem.outcomes)), delta, draws, random)
    scores, chosen = {"adassp oracle together": together}, {"adassp oracle together": ridge}
    if target not in problem.table.targets:
        return scores, chosen
    score = problem.regression(target, problem.variables).score
    scores["adassp"] = score(adassp(problem, target, mu, delta, draws, random))
    scores["adassp oracle"], chosen["adassp oracle"] = _tuned_adassp(problem, target, mu, delta, draws, random)
    scores["published"] = score(published_adassp(problem, target, epsilon, delta, draws, random))
    scores["blocks"] = by_blocks(problem, target, epsilon, delta, draws, random)
    descent = tuned_descent(problem, target, mu, effort.steps, effort.tries, random)
    ones = np.ones(effort.most)
    paths = descend(problem, target, mu, descent.steps, descent.clip * ones, descent.rate * ones, random)
    scores["descent"], chosen["descent"] = score(paths[descent.averaged]), vars(descent)
    return scores, chosen


def summary(scores: Floats) -> dict[str, float]:
    """Median and 5 % quantile, and the median's standard error from the order statistics beside it."""
    median, error = quantile(scores, 0.5)
    return {"median": median, "q05": quantile(scores, 0.05)[0], "se": error, "draws": len(scores)}


def _tuned_adassp(
    problem: Problem, target: str, mu: float, delta: float, draws: int, random: np.random.Generator
) -> tuple[Floats, Cell]:
    """R^2 of fresh draws with the choices that did best on others, and those choices."""
    score = problem.regression(target, problem.variables).score
    tried = [
        float(np.median(score(joint_adassp(problem, target, mu, delta, ridge, draws, random)))) for ridge in RIDGES
    ]
    best = RIDGES[int(np.argmax(tried))]
    return score(joint_adassp(problem, target, mu, delta, best, draws, random)), vars(best)


def _judge(results: Results, cells: Sequence[Cell]) -> None:
    """Figures of one table at one target."""
    name = f"{cells[0]['table']} (n = {cells[0]['n']:,}), {cells[0]['budget']}"
    reach = 0.0 if cells[0]["n"] >= LARGE and cells[0]["epsilon"] == 1 else None
    declared = [cell for cell in cells if cell["declared"]]
    for cell in declared:
        medians = {method: found["median"] for method, found in cell["methods"].items()}
        others = ", ".join(f"{method} {median:.3f}" for method, median in medians.items() if method != "moments")
        print(f"{name}, {cell['target']}: not private {cell['not private']:.3f}, {others}", flush=True)
        results.add(f"{name}, {cell['target']}: median R^2 of moments", medians["moments"], reach, ">=")
    for method, label, least in AGAINST:
        title = f"{name}: median R^2 of moments less that of {label}, least over outcomes, in standard errors"
        results.add(title, min(_margin(cell, method) for cell in declared), least, ">=")
    for method, label in (("moments", "moments"), ("adassp oracle together", "AdaSSP, oracle's choices")):
        together = float(np.mean([cell["methods"][method]["median"] for cell in cells]))
        results.add(f"{name}, {len(cells)} outcomes together: mean of the median R^2 of {label}", together)


def _margin(cell: Cell, method: str) -> float:
    """Standard errors by which the median of moments lies above the other's."""
    ours, theirs = cell["methods"]["moments"], cell["methods"][method]
    return float((ours["median"] - theirs["median"]) / math.hypot(ours["se"], theirs["se"]))


if __name__ == "__main__":
    main("accuracy", run)
