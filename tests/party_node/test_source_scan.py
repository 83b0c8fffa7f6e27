"""A scan of the source serves as long as another reading would find the same rows, and leaves nothing on disk."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.errors import DataRefused
from party_node.settings import PartySettings
from party_node.source.alignment import Roster, pseudonym
from party_node.source.scan import Scan, scan
from party_node.source.table import whole
from party_node.state.streams import CheckpointRows
from tests.party_node.tables import COLUMNS, GRID_BITS, KEY, OURS, csv, settings, text

LINES = [f"s-{i:03},{(i % 7) / 7:.5f},{'uvw'[i % 3]},{1 + i // 10}" for i in range(40)]
COMMON = range(0, 40, 3)
PATIENTS = Roster("5e" * 32, b"".join(sorted(pseudonym(KEY, f"s-{i:03}") for i in COMMON)), bytes(32))


@pytest.fixture
def described(tmp_path: Path) -> PartySettings:
    return settings(csv(tmp_path, text(LINES)), batch="month")


@pytest.fixture
def found(described: PartySettings) -> Scan:
    return scan(described, KEY, described.declarations(), GRID_BITS)


def serves(found: Scan, now: PartySettings, **more: Any) -> bool:
    given = {"key": KEY, "columns": found.columns, "grid_bits": GRID_BITS, "roster": None} | more
    return found.serves(now, **given)


def another_cell(path: Path) -> None:
    path.write_text(path.read_text().replace("0.14286", "0.24286"))


def another_cell_at_the_same_time(path: Path) -> None:
    """As a copy that takes the time of its original along."""
    before = path.stat()
    another_cell(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_file(path: Path) -> None:
    beside = path.with_name("new.csv")
    beside.write_text(path.read_text())
    beside.replace(path)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [another_cell, another_cell_at_the_same_time, another_file, gone])
def test_a_source_that_changed_is_not_served(
    found: Scan, described: PartySettings, change: Callable[[Path], None]
) -> None:
    assert serves(found, described)
    assert described.source.path is not None
    change(described.source.path)
    assert not serves(found, described)


def test_what_rows_follow_from_beside_the_source_has_to_be_the_same(found: Scan, described: PartySettings) -> None:
    path = described.source.path
    assert path is not None
    assert serves(found, described, grid_bits=None)
    assert serves(found, described, columns=found.columns[1:])
    assert not serves(found, described, grid_bits=GRID_BITS + 1)
    assert not serves(found, described, key=bytes(32))
    assert not serves(found, described, roster=PATIENTS)
    public = found.columns[0].model_copy(update={"public": True})
    assert not serves(found, described, columns=(public, *found.columns[1:]))
    assert not serves(found, settings(path, batch="month", missing=("", "9")))
    assert not serves(found, settings(path))
    assert not serves(found, settings(path, COLUMNS | {"x": COLUMNS["x"] | {"lower": -2}}, batch="month"))
    assert not serves(found, settings(path, batch="month", rows_per_subject=2, record="x"))


def test_codes_have_no_name_on_disk_and_take_no_memory(found: Scan, described: PartySettings) -> None:
    assert list(described.state.iterdir()) == []
    base = found.codes
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def test_a_source_that_is_written_while_it_is_read_is_read_again(
    described: PartySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = described.source.path
    assert path is not None

    def written(*given: Any) -> Any:
        path.write_text(text([*LINES, "s-900,0,u,5"]))
        return whole(*given)

    monkeypatch.setattr("party_node.source.scan.whole", written)
    found = scan(described, KEY, described.declarations(), GRID_BITS)
    assert found.stamp is None
    assert not serves(found, described)


def test_a_patient_who_comes_again_is_known_by_the_normal_form_of_the_identifier(tmp_path: Path) -> None:
    rows = [*(f"{i:04},0,u,1" for i in range(10)), "7.0,0,u,2"]
    described = settings(csv(tmp_path, text(rows)), batch="month", identifiers={"whole_numbers": True})
    found = scan(described, KEY, described.declarations(), GRID_BITS)
    assert found.table(at=CheckpointRows(number=1)).alignment.rows == 10
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        found.table(at=CheckpointRows(number=2))
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        found.catalogue(OURS)


@pytest.mark.parametrize(("line", "refused"), [(" s-003 ,0,u,2", True), ("s-004,0,u,2", False)])
def test_only_patients_who_count_may_not_come_again(tmp_path: Path, line: str, refused: bool) -> None:
    described = settings(csv(tmp_path, text([*LINES, line])), batch="month")
    found = scan(described, KEY, described.declarations(), GRID_BITS, PATIENTS)
    if refused:
        with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
            found.catalogue(OURS)
    else:
        assert (found.catalogue(OURS).rows, found.catalogue(OURS).patients) == (len(COMMON), 40)


def test_patients_who_left_are_told_of_with_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def told(lines: list[str]) -> list[logging.LogRecord]:
        described = settings(csv(tmp_path, text(lines)), batch="month")
        scan(described, KEY, described.declarations(), GRID_BITS, PATIENTS).catalogue(OURS)
        return caplog.records

    assert told(LINES) == []
    (record,) = told([line for line in LINES if line[:5] not in ("s-003", "s-004", "s-009")])
    assert record.levelno == logging.WARNING
    said = record.getMessage()
    assert said.startswith(f"2 of the {len(COMMON)} patients of alignment run {'5e' * 6} are in the table no more")
    assert "put them back, or ask the office to align anew" in said
