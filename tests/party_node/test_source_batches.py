"""Batches of a table: which rows came together, at every hospital alike, and rows of earlier checkpoints that changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dprelease.errors import DataRefused
from party_node.source.scan import BoundedTable, scan
from party_node.source.table import all_complete, last_complete, numbers_of
from party_node.state.streams import CheckpointRows
from tests.party_node.tables import GRID_BITS, KEY, csv, read, settings

LINES = [f"s-{i:03},{(i % 7) / 7:.5f},u,{1 + i // 10}" for i in range(40)]
"""Four batches of ten."""


def text(lines: list[str]) -> str:
    return "id,x,c,month\n" + "".join(line + "\n" for line in lines)


def at(path: Path, number: int, released: dict[int, str] | None = None, **more: object) -> BoundedTable:
    described = settings(path, **{"batch": "month", **more})  # type: ignore[arg-type]
    checkpoint = CheckpointRows(number=number, released=tuple((released or {}).items()))
    return scan(described, KEY, described.declarations(), GRID_BITS).table(at=checkpoint)


def test_batches_by_place_count_once_they_are_complete(tmp_path: Path) -> None:
    by_column = read(csv(tmp_path, text(LINES)), batch="month").batches
    assert read(csv(tmp_path, text(LINES[:29]), "short.csv"), batch_rows=10).batches == by_column[:2]
    assert read(csv(tmp_path, text(LINES[:30]), "more.csv"), batch_rows=10).batches == by_column[:3]
    with pytest.raises(DataRefused, match="no rows of batch 3"):
        at(csv(tmp_path, text(LINES[:29]), "short.csv"), 3, batch=None, batch_rows=10)


@pytest.mark.parametrize("cell", ["", "0", "-1", "1.5", "2026-01", "x", "1234567890", "²"])
def test_what_is_no_number_of_a_batch_is_refused(tmp_path: Path, cell: str) -> None:
    path = csv(tmp_path, text([*LINES, f"s-100,0,u,{cell}"]))
    with pytest.raises(DataRefused, match=r"^1 cells of month are no whole number from 1"):
        read(path, batch="month")


def test_a_column_that_is_not_there_and_two_ways_to_tell_are_refused(tmp_path: Path) -> None:
    path = csv(tmp_path, text(LINES))
    with pytest.raises(DataRefused, match="has no column week"):
        read(path, batch="week")
    with pytest.raises(ValidationError, match="leave out one of them"):
        settings(path, batch="month", batch_rows=10)
    with pytest.raises(ValidationError, match="name the column of its number, batch"):
        settings(path, batch_rows=10, whole_batches=True)
    with pytest.raises(ValidationError):
        settings(path, batch_rows=0)


@pytest.mark.parametrize(
    ("how", "last"),
    [
        ({"batch": "month"}, 2),
        ({"batch": "month", "whole_batches": True}, 3),
        ({"batch_rows": 10}, 4),
        ({"batch_rows": 50}, 0),
    ],
)
def test_a_batch_is_complete_when_a_later_one_begins_or_all_its_rows_come_at_once(
    tmp_path: Path, how: dict[str, Any], last: int
) -> None:
    source, named = settings(tmp_path / "rows.csv", **how).source, np.array([1] * 10 + [2] * 20 + [3] * 12)
    numbers = numbers_of([named], source)
    assert last_complete(numbers, source) == last
    assert all_complete(numbers, source) == ("whole_batches" in how)
    assert all_complete(numbers, settings(tmp_path / "rows.csv").source)


def changed(how: str) -> list[str]:
    first, *others = LINES
    return {
        "a cell": [first.replace("0.00000", "0.50000"), *others],
        "removed": others,
        "added": [*LINES, "s-100,0,u,1"],
        "in another batch": [first[:-1] + "2", *others],
    }[how]


@pytest.mark.parametrize("how", ["a cell", "removed", "added", "in another batch"])
def test_rows_of_an_earlier_checkpoint_stay_what_they_were(tmp_path: Path, how: str) -> None:
    path = csv(tmp_path, text(LINES))
    released = {number: at(path, number).bounded.digest() for number in (1, 2)}
    assert at(path, 3, released).alignment.rows == 10
    csv(tmp_path, text(changed(how)))
    with pytest.raises(DataRefused, match=r"rows of batch 1 changed, were removed or added after checkpoint 1"):
        at(path, 3, released)
    assert at(path, 3, {2: released[2]} if how != "in another batch" else {}).alignment.rows == 10


def test_a_patient_may_have_q_rows_in_all_batches_up_to_the_checkpoint(tmp_path: Path) -> None:
    again = [*LINES, "s-000,0,u,5", "s-001,0,u,6"]
    path = csv(tmp_path, text(again))
    assert at(path, 4).alignment.rows == 10
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        at(path, 5)
    lines = [f"{line.rsplit(',', 1)[0]},{line.rsplit(',', 1)[1]},v{place}" for place, line in enumerate(again)]
    path = csv(tmp_path, "id,x,c,month,visit\n" + "\n".join(lines) + "\n")
    assert at(path, 6, rows_per_subject=2, record="visit").alignment.rows == 1
    with pytest.raises(DataRefused, match=r"more than rows_per_subject = 1 rows \(1 too many\)"):
        at(path, 5, record="visit")
