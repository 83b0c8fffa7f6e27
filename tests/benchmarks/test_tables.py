"""Rivals and figures of the benchmark of synthetic rows, on tables small enough to know the answer."""

import numpy as np
import pytest

from benchmarks.tables.data import Coded
from benchmarks.tables.rivals import aim_loop, mst
from benchmarks.tables.scores import cramers_v, variation
from dprelease.privacy.public_stream import PublicNormals

SIZES = (3, 3, 4, 2)


def chain(rows: int) -> Coded:
    """Each column mostly repeats the one before."""
    random = np.random.default_rng(0)
    columns = [random.integers(0, SIZES[0], rows)]
    for size in SIZES[1:]:
        columns.append(np.where(random.uniform(size=rows) < 0.7, columns[-1] % size, random.integers(0, size, rows)))
    return Coded("chain", tuple("abcd"), SIZES, np.column_stack(columns), 3)


def test_distances_are_those_of_tables() -> None:
    table = chain(4000)
    assert variation(table, table.codes, table.codes, 2) == 0
    half = table.codes.copy()
    half[:2000, 3] = 1 - half[:2000, 3]
    only = Coded("two", ("c", "d"), SIZES[2:], table.codes[:, 2:], 1)
    cells, moved = (np.bincount(own[:, 2] * 2 + own[:, 3], minlength=8) / 4000 for own in (table.codes, half))
    assert variation(only, half[:, 2:], table.codes[:, 2:], 2) == pytest.approx(np.abs(cells - moved).sum() / 2)
    assert cramers_v(table, table.codes) > 0.5
    assert cramers_v(table, table.permuted(np.random.default_rng(1)).codes) < 0.08


def test_both_rivals_find_a_chain_with_a_large_budget_and_lose_it_with_a_small_one() -> None:
    table = chain(4000)
    near = [mst(table, table.codes, 4000, 50.0, np.random.default_rng(2))]
    near.append(aim_loop(table, table.codes, 50.0, np.random.default_rng(2)).draw(4000, PublicNormals(bytes(32))))
    far = mst(table, table.codes, 4000, 0.02, np.random.default_rng(2))
    assert [variation(table, each, table.codes, 2) < 0.03 for each in near] == [True, True]
    assert variation(table, far, table.codes, 2) > 0.1
