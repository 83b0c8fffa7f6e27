"""Sorting beyond memory: the order of one sort in memory, whatever the runs, and a bound on what is held."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from party_node.source.sorting import SortedRows

ROW = np.dtype([("name", "S32"), ("place", "<i8")])


def rows(names: list[bytes], first: int) -> Any:
    made = np.zeros(len(names), ROW)
    made["name"], made["place"] = names, first + np.arange(len(names))
    return made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.lists(st.binary(min_size=1, max_size=3), max_size=30), max_size=8), run_rows=st.integers(1, 40)
)
def test_rows_leave_in_the_order_of_their_names_each_once(
    tmp_path: Path, parts: list[list[bytes]], run_rows: int
) -> None:
    """Names repeat, within a run and across them; zero bytes at an end count for nothing."""
    with patch("party_node.source.sorting.RUN_BYTES", run_rows * ROW.itemsize):
        first = 0
        with closing(SortedRows(tmp_path, ROW)) as sorter:
            for part in parts:
                sorter.add(rows(part, first))
                first += len(part)
            found = np.concatenate([np.zeros(0, ROW), *sorter.merged()])
    given_rows = rows([name for part in parts for name in part], 0)
    assert np.array_equal(found["name"], np.sort(given_rows["name"]))
    assert np.array_equal(given_rows[found["place"]], found)
    assert sorted(found["place"]) == list(range(len(given_rows)))
    assert list(tmp_path.iterdir()) == []


SORTS = """
import json, os, sys
import numpy as np
from pathlib import Path
from party_node.source.sorting import SortedRows
from tests.support.measured import forget_peak, measured

generator, dtype = np.random.default_rng(1), np.dtype([("name", "S32"), ("codes", "<i4", (24,))])
sorter, total, before, rose = SortedRows(Path(sys.argv[1]), dtype), 0, b"", True
held = measured(os.getpid(), "VmRSS")
forget_peak(os.getpid())
for _ in range(32):
    rows = np.zeros(1 << 16, dtype)
    rows["name"] = np.frombuffer(generator.bytes(32 << 16), "S32")
    sorter.add(rows)
for rows in sorter.merged():
    total += rows.nbytes
    rose = rose and before <= rows["name"][0] and bool((rows["name"][1:] >= rows["name"][:-1]).all())
    before = rows["name"][-1]
print(json.dumps([total >> 20, (measured(os.getpid(), "VmHWM") - held) >> 10, rose]))
"""


def test_what_is_held_does_not_grow_with_the_table(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SORTS, str(tmp_path)], check=True, capture_output=True, text=True)
    table, most, rose = json.loads(done.stdout)
    assert rose
    assert table == 256
    assert most < 128
