"""Contingency tables of two categories: counts, chi-square test of independence, Cramer's V, and for two by two levels ratios.

A Gram matrix of indicators holds the table. Its cells are known up to privacy noise, whose standard deviation stands beside each
count; where the least expected count is not `CLEAR` of them, nothing is said of an association. The test asks whether all
p_ij - p_i. p_.j are 0: with their sampling covariance under independence, (1/n) of the Kronecker product of both columns'
covariances, its statistic is Pearson's chi-square, and the test is on the draws (`joint_test`).
"""

from __future__ import annotations

import numpy as np

from dprelease.analyses.draws import CLEAR, LEAST, clear, draws_of, levels
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import JointTest, joint_test
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.release.release import Release


@repeatable
def contingency_table(release: Release, rows: str, columns: str) -> Analysis:
    """Counts of two categories, and how they depend on each other.

    Tables: ``counts``, none below 0, and ``association`` (Cramer's V; both noise only); for two by two levels ``ratios`` (odds
    ratio, and risk ratio: the risk of the first column's level, in the first row's level by in the second's) and ``difference`` (of
    these risks); noise and sampling. Test: ``rows and columns are independent``. Levels whose patients noise does not tell from
    none are left out; where logarithms are taken a cell counts as `LEAST` patients at least.

    Args:
        release: a verified release of joint moments.
        rows: a category or binary.
        columns: another.

    Raises:
        InvalidInput: an unknown name, a number, the same column twice, no moments, or fewer than two levels that are told from
            none.
    """
    if rows == columns:
        raise InvalidInput("a table needs two different columns")
    names, cells, left_out = _cells(release, rows, columns)
    pairs = tuple(f"{row}, {column}" for row in names[0] for column in names[1])
    # A draw's moments are those of some rows, and its cells need not be.
    flat = np.maximum(cells, 0.0).reshape(len(cells), -1)
    counts = Estimates(pairs, flat, units=("patients",) * len(pairs))
    noise, least = float(cells.std(axis=0).max()), float(_expected(cells.mean(axis=0)).min())
    tests: dict[str, JointTest] = {}
    tables: dict[str, Estimates] = {}
    if least >= CLEAR * noise:
        tests["rows and columns are independent"], tables = _association(cells)
    caveats = (
        [f"Left out, for noise does not tell their patients from none: {', '.join(left_out)}."] if left_out else []
    )
    caveats += [
        "Counts are medians over draws of what noise leaves open, in each of which a cell below 0 counts as 0; their margins need "
        "not add up.",
        f"The noise of a count has a standard deviation of up to {noise:.3g} patients; the least expected count is {least:.4g}.",
        "Do not believe ratios of cells with few patients; V is never negative, so noise makes it too large."
        if tests
        else "Noise hides the counts: nothing is said of an association.",
    ]
    title = f"Contingency table of {rows} and {columns}"
    return Analysis(
        title, release, (rows, columns), {"counts": counts, **tables}, tests, tuple(caveats), of_counts=True
    )


def _cells(release: Release, rows: str, columns: str) -> tuple[list[tuple[str, ...]], Floats, list[str]]:
    """Levels of both that are told from none, (T, r, c) patients who have them, and the other levels."""
    groups = [levels(release, name) for name in (rows, columns)]
    # A binary's levels are one variable; the last level of any category is what the others leave.
    whole = draws_of(release, (*groups[0][:-1], *groups[1][:-1])).sums()
    size = whole.shape[1]
    cells = _indicators(len(groups[0]), 0, size) @ whole @ _indicators(len(groups[1]), len(groups[0]) - 1, size).T
    seen = [clear(counts) for counts in (cells.sum(axis=2), cells.sum(axis=1))]
    for name, counts, told in zip((rows, columns), (cells.sum(axis=2), cells.sum(axis=1)), seen, strict=True):
        if told.sum() < 2:
            raise InvalidInput(
                f"fewer than two levels of {name} are told from none: the noise of their counts has the standard deviations "
                f"{', '.join(f'{sd:.3g}' for sd in counts.std(axis=0))} patients"
            )
    kept = [tuple(np.array(names)[told].tolist()) for names, told in zip(groups, seen, strict=True)]
    left_out = [name for names, told in zip(groups, seen, strict=True) for name in np.array(names)[~told].tolist()]
    return kept, cells[:, seen[0]][:, :, seen[1]], left_out


def _indicators(count: int, offset: int, size: int) -> Floats:
    """(count, size) all levels as sums of the constant and the indicators of all but the last."""
    found = np.zeros((count, size))
    at = np.arange(count - 1)
    found[at, 1 + offset + at] = 1.0
    found[-1] = -found.sum(axis=0)
    found[-1, 0] = 1.0
    return found


def _expected(cells: Floats) -> Floats:
    found: Floats = cells.sum(axis=1, keepdims=True) * cells.sum(axis=0, keepdims=True) / cells.sum()
    return found


def _association(cells: Floats) -> tuple[JointTest, dict[str, Estimates]]:
    n = cells.sum(axis=(1, 2))
    share = cells / n[:, None, None]
    row, column = share.sum(axis=2), share.sum(axis=1)
    away = (share - row[:, :, None] * column[:, None, :])[:, :-1, :-1].reshape(len(cells), -1)
    spreads = [np.einsum("ti,ij->tij", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None, :] for p in (row, column)]
    first, second = (spread[:, :-1, :-1] for spread in spreads)
    covariance = np.einsum("tij,tkl->tikjl", first, second).reshape(len(cells), away.shape[1], -1) / n[:, None, None]
    square = np.einsum("ti,ti->t", away, np.linalg.solve(covariance, away[..., None])[..., 0])
    v = np.sqrt(square / n / (min(cells.shape[1:]) - 1))
    tables = {"association": Estimates(("Cramer's V",), v[:, None])}
    if cells.shape[1:] == (2, 2):
        tables |= _ratios(np.maximum(cells, LEAST))
    cells_apart = tuple(map(str, range(away.shape[1])))
    return joint_test(Estimates(cells_apart, away), covariance), tables


def _ratios(cells: Floats) -> dict[str, Estimates]:
    """Odds ratio, risk ratio and risk difference; errors of Woolf, Katz and Wald."""
    (a, b), (c, d) = cells.transpose(1, 2, 0)
    p, q = a / (a + b), c / (c + d)
    log = np.column_stack([np.log(a * d / (b * c)), np.log(p / q)])
    errors = np.sqrt(np.column_stack([1 / a + 1 / b + 1 / c + 1 / d, 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)]))
    difference = np.sqrt(p * (1 - p) / (a + b) + q * (1 - q) / (c + d))
    return {
        "ratios": Estimates(("odds ratio", "risk ratio"), log, errors, link="log", tested=True),
        "difference": Estimates(("risk difference",), (p - q)[:, None], difference[:, None], tested=True),
    }
