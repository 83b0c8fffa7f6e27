"""A table of aligned patients that grows at its end: its new rows are read alone, and are what they are in the whole file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dprelease.errors import DataRefused
from party_node.source.alignment import Roster, pseudonym
from party_node.source.checkpoint import Checkpoint, read_checkpoint
from party_node.source.overview import Overview, overview
from party_node.source.table import Table
from party_node.state.streams import Prefix
from tests.party_node.tables import GRID_BITS, KEY, OURS, csv, settings, starts_of, text

LINES = [f"s-{i:03},{(i % 7) / 7:.5f},{'uvw'[i % 3]},{1 + i // 10}" for i in range(40)]
COMMON = range(0, 40, 3)


def roster(numbers: Sequence[int] = COMMON, run: str = "5e" * 32) -> Roster:
    return Roster(run, b"".join(sorted(pseudonym(KEY, f"s-{number:03}") for number in numbers)), bytes(32))


class Source:
    """A file, what is remembered of it, and from which bytes on rows were read.

    Args:
        folder: of the file.
        patch: notes the bytes.
        how: what says which rows came together.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **how: object) -> None:
        self.folder, self.how = folder, how or {"batch": "month"}
        self.overview: Overview | None = None
        self.known: Prefix | None = None
        self.codes: dict[int, str] = {}
        self.looks = starts_of(patch, "party_node.source.overview")
        self.reads = starts_of(patch, "party_node.source.checkpoint")

    def look(self, written: str, patients: Roster) -> bool:
        """Look over the file with and without what is remembered; whether new rows were read alone."""
        described = settings(csv(self.folder, written), **self.how)  # type: ignore[arg-type]
        whole = overview(described, KEY, described.declarations(), None, patients)
        self.overview = found = overview(described, KEY, described.declarations(), self.overview, patients)
        assert found.catalogue(described, OURS) == whole.catalogue(described, OURS)
        assert (found.findings, found.implausible) == (whole.findings, whole.implausible)
        return self.looks[-1] > 0

    def read(self, number: int, written: str, patients: Roster, known: Prefix | None) -> Table:
        described = settings(csv(self.folder, written), **self.how)  # type: ignore[arg-type]
        seen = None if self.overview is None else self.overview.prefix
        at = Checkpoint(number, dict(self.codes), known, seen, patients)
        table, self.known = read_checkpoint(described, KEY, described.declarations(), GRID_BITS, at)
        return table

    def released(self, number: int, written: str, patients: Roster) -> bool:
        """Read a checkpoint with and without what is remembered; whether new rows were read alone."""
        known = self.known
        whole = self.read(number, written, patients, None)
        found = self.read(number, written, patients, known)
        assert np.array_equal(found.bounded.codes, whole.bounded.codes)
        assert (found.alignment.digest, found.batches) == (whole.alignment.digest, whole.batches)
        self.codes[number] = found.bounded.digest()
        return self.reads[-1] > 0


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(tmp_path, monkeypatch)


@pytest.mark.parametrize("how", [{"batch": "month"}, {"batch_rows": 10}])
def test_new_rows_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, object]) -> None:
    source = Source(tmp_path, monkeypatch, **how)
    for month in range(1, 5):
        written = text(LINES[: 10 * month])
        assert source.look(written, roster()) == (month > 1)
        assert source.released(month, written, roster()) == (month > 1)


def test_new_rows_of_others_alone_change_nothing_but_their_number(source: Source) -> None:
    source.look(text(LINES[:20]), roster(range(10)))
    assert source.look(text(LINES), roster(range(10)))
    assert source.overview is not None
    assert (source.overview.rows, source.overview.subjects, len(source.overview.batches)) == (10, 40, 1)
    with pytest.raises(DataRefused, match="no rows of batch 4"):
        source.read(4, text(LINES), roster(range(10)), None)


def test_another_run_is_read_with_the_whole_file(source: Source) -> None:
    source.look(text(LINES[:10]), roster())
    assert not source.look(text(LINES[:20]), roster(range(15), "7a" * 32))
    assert source.look(text(LINES[:30]), roster(range(15), "7a" * 32))


@pytest.mark.parametrize(("line", "refused"), [(" s-003 ,0,u,2", True), ("s-004,0,u,2", False)])
@pytest.mark.parametrize("looked", [True, False])
def test_only_patients_who_count_may_not_come_again(source: Source, line: str, refused: bool, looked: bool) -> None:
    """With what was aligned at the last look, and without."""
    first, more = text(LINES[:10]), text([*LINES[:20], line])
    source.released(1, first, roster())
    source.look(first, roster())
    if not refused:
        assert source.look(more, roster())
        source.overview = source.overview if looked else None
        assert source.released(2, more, roster())
        return
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        source.look(more, roster())
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        source.read(2, more, roster(), source.known)


def test_patients_who_left_are_told_of_with_what_to_do(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    source.look(text(LINES), roster())
    assert caplog.records == []
    source.look(text([line for line in LINES if line[:5] not in ("s-003", "s-004", "s-009")]), roster())
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    said = caplog.records[-1].getMessage()
    assert said.startswith(f"2 of the {len(COMMON)} patients of alignment run {'5e' * 6} are in the table no more")
    assert "put them back, or ask the office to align anew" in said
