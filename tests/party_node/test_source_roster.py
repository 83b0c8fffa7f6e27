"""A table that is read by the patients of an alignment run is the table of these patients alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.errors import DataRefused
from party_node.source.alignment import Roster, pseudonym
from party_node.source.scan import BoundedTable, scan
from party_node.source.table import read_subjects
from party_node.state.streams import CheckpointRows
from tests.party_node.tables import GRID_BITS, KEY, OURS, csv, settings

RUN = "5e" * 32
LINES = [f"s-{i:02},{i / 20:.5f},{'uvw'[i % 3]},r{i % 2},{1 + i // 10}" for i in range(20)]
COMMON = (3, 4, 8, 11, 17)


def roster(numbers: Sequence[int] = COMMON) -> Roster:
    return Roster(RUN, b"".join(sorted(pseudonym(KEY, f"s-{number:02}") for number in numbers)), bytes(32))


def written(folder: Path, lines: Sequence[str], name: str) -> Path:
    return csv(folder, "\n".join(["id,x,c,record,month", *lines]) + "\n", name)


def read(path: Path, patients: Roster | None = None, **source: Any) -> BoundedTable:
    described = settings(path, **source)
    return scan(described, KEY, described.declarations(), GRID_BITS, patients).table()


@pytest.mark.parametrize("source", [{}, {"batch": "month"}, {"rows_per_subject": 2, "record": "record"}])
def test_it_is_the_table_of_these_patients_alone(tmp_path: Path, source: dict[str, Any]) -> None:
    more = [line.replace(",r", ",q") for line in LINES[8:10]] if "record" in source else []
    lines = [*LINES, *more]
    alone = read(written(tmp_path, [line for line in lines if int(line[2:4]) in COMMON], "alone.csv"), **source)
    path = written(tmp_path, lines, "all.csv")
    found = read(path, roster(), **source)
    assert np.array_equal(found.bounded.codes, alone.bounded.codes)
    assert (found.alignment.digest, found.alignment.rows) == (alone.alignment.digest, alone.alignment.rows)
    assert found.batches == alone.batches
    described = settings(path, **source)
    told = scan(described, KEY, described.declarations(), GRID_BITS, roster()).catalogue(OURS)
    rows = found.alignment.rows
    assert (told.rows, told.alignment) == (rows, OURS.shown(found.alignment.digest, rows))
    assert (told.aligned, told.patients) == (RUN, 20)
    assert found.findings == alone.findings
    assert found.implausible == alone.implausible


def test_whether_a_column_may_be_released_follows_from_the_patients_who_are_in_the_release(tmp_path: Path) -> None:
    lines = [f"s-{i:02},{i / 20 if i in COMMON else 'none'},u,r,1" for i in range(20)]
    path = written(tmp_path, lines, "study.csv")
    assert read(path).implausible == {"x"}
    assert read(path, roster()).implausible == frozenset()
    assert read(path, roster((0, 1, 2, 3))).implausible == {"x"}
    assert read(path, roster((0, 1, 2, 3))).findings["x"].unreadable == 3


def test_patients_who_left_the_table_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, [line for line in LINES if line[2:4] not in ("04", "17", "05")], "some.csv")
    assert read(path, roster()).alignment.rows == len(COMMON) - 2
    assert roster().gone_from(read_subjects(settings(path), KEY)) == 2
    with pytest.raises(DataRefused, match=f"has no patient of alignment run {RUN[:12]}"):
        read(path, roster((4, 17)))


def test_a_batch_has_common_patients_only(tmp_path: Path) -> None:
    described = settings(written(tmp_path, LINES, "all.csv"), batch="month")
    found = scan(described, KEY, described.declarations(), GRID_BITS, roster())
    table = found.table(at=CheckpointRows(number=2))
    assert table.alignment.rows == 2
    earlier = found.table(at=CheckpointRows(number=1))
    again = found.table(at=CheckpointRows(number=2, released=((1, earlier.bounded.digest()),)))
    assert again.bounded.digest() == table.bounded.digest()
    others = scan(described, KEY, described.declarations(), GRID_BITS, roster((3, 4)))
    with pytest.raises(DataRefused, match="no rows of batch 2"):
        others.table(at=CheckpointRows(number=2))
