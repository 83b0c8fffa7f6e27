"""A table that grows at its end: its new rows read alone are what they are in the whole file; nothing else is taken for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dprelease.errors import DataRefused
from party_node.source.checkpoint import Checkpoint, read_checkpoint
from party_node.source.table import Table
from party_node.state.streams import Prefix
from tests.party_node.tables import GRID_BITS, KEY, csv, settings, starts_of, text

MONTHS = 4
LINES = [f"s-{i:03},{(i % 7) / 7:.5f},{'uvw'[i % 3]},{1 + i // 10}" for i in range(10 * MONTHS)]


class Source:
    """A file, what is remembered of it, and which bytes were read last."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **how: object) -> None:
        self.folder, self.how = folder, how or {"batch": "month"}
        self.codes: dict[int, str] = {}
        self.known: Prefix | None = None
        self.starts = starts_of(patch, "party_node.source.checkpoint")

    def read(self, number: int, written: str, known: Prefix | None) -> Table:
        described = settings(csv(self.folder, written), **self.how)  # type: ignore[arg-type]
        at = Checkpoint(number, dict(self.codes), known)
        table, self.known = read_checkpoint(described, KEY, described.declarations(), GRID_BITS, at)
        return table

    def released(self, number: int, written: str) -> bool:
        """Read a checkpoint with and without what is remembered; whether new rows were read alone."""
        known = self.known
        whole = self.read(number, written, None)
        found = self.read(number, written, known)
        assert np.array_equal(found.bounded.codes, whole.bounded.codes)
        assert (found.alignment.digest, found.batches) == (whole.alignment.digest, whole.batches)
        self.codes[number] = found.bounded.digest()
        return self.starts[-1] > 0


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(tmp_path, monkeypatch)


@pytest.mark.parametrize("how", [{"batch": "month"}, {"batch_rows": 10}])
def test_new_rows_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, object]) -> None:
    source = Source(tmp_path, monkeypatch, **how)
    alone = [source.released(month, text(LINES[: 10 * month])) for month in range(1, MONTHS + 1)]
    assert alone == [False, True, True, True]


def test_several_batches_may_come_at_once(source: Source) -> None:
    assert not source.released(1, text(LINES[:10]))
    assert source.released(2, text(LINES))
    assert not source.released(3, text(LINES))  # it was there when batch 2 was read
    assert not source.released(4, text(LINES))


@pytest.mark.parametrize("lines", [[LINES[1], LINES[0], *LINES[2:20]], LINES[10:20] + LINES[:10]])
def test_any_other_beginning_is_read_as_a_whole(source: Source, lines: list[str]) -> None:
    source.released(1, text(LINES[:10]))
    assert not source.released(2, text(lines))


def test_a_file_that_does_not_end_with_a_line_is_not_remembered(source: Source) -> None:
    source.released(1, text(LINES[:10], end=""))
    assert source.known is None
    assert not source.released(2, text(LINES[:20]))


def test_an_incomplete_batch_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(tmp_path, monkeypatch, batch_rows=10)
    source.released(1, text(LINES[:15]))
    assert source.known is None
    assert not source.released(2, text(LINES[:20]))


def test_another_declaration_is_read_with_the_whole_file(source: Source) -> None:
    source.released(1, text(LINES[:10]))
    source.how = {**source.how, "missing": ("", "-")}
    assert not source.released(2, text(LINES[:20]))


def test_other_codes_than_those_that_were_remembered_are_refused(source: Source) -> None:
    source.released(1, text(LINES[:10]))
    source.codes[1] = "0" * 64
    with pytest.raises(DataRefused, match="rows of batch 1 changed"):
        source.read(2, text(LINES[:20]), source.known)


def late(lines: list[str]) -> list[str]:
    return [*lines, "s-999,0,u,1"]


def twice(lines: list[str]) -> list[str]:
    return [*lines, " s-003\u2003,0,u,2"]


def altered(lines: list[str]) -> list[str]:
    return [lines[0].replace("0.00000", "0.50000"), *lines[1:]]


@pytest.mark.parametrize(
    ("change", "words"),
    [(late, "rows of batch 1 changed"), (twice, "1 rows repeat an identifier"), (altered, "rows of batch 1 changed")],
)
def test_what_is_refused_in_the_whole_file_is_refused(
    source: Source, change: Callable[[list[str]], list[str]], words: str
) -> None:
    source.released(1, text(LINES[:10]))
    for known in (None, source.known):
        with pytest.raises(DataRefused, match=words):
            source.read(2, text(change(LINES[:20])), known)


def test_a_patient_with_q_rows_before_may_not_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how = {"batch": "month", "record": "visit", "rows_per_subject": 2}
    head = "id,x,c,month,visit\n"
    source = Source(tmp_path, monkeypatch, **how)
    first = head + "".join(f"s-{i},0,u,1,{visit}\n" for i in range(5) for visit in range(1 + i % 2))
    source.released(1, first)
    assert source.released(2, first + "s-0,0,u,2,9\ns-7,0,u,2,0\n")
    source.codes.pop(2)
    with pytest.raises(DataRefused, match=r"more than rows_per_subject = 2 rows \(1 too many\)"):
        source.released(2, first + "s-1,0,u,2,9\n")


def test_a_patient_who_comes_again_is_known_by_the_normal_form_of_the_identifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(tmp_path, monkeypatch, batch="month", identifiers={"whole_numbers": True})
    first = text([f"{i:04},0,u,1" for i in range(10)])
    source.released(1, first)
    assert source.released(2, first + "10.0,0,u,2\n")
    source.codes.pop(2)
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        source.released(2, first + "7.0,0,u,2\n")


def test_a_batch_that_is_gone_is_refused(source: Source) -> None:
    source.released(1, text(LINES[:10]))
    source.released(2, text(LINES[:20]))
    with pytest.raises(DataRefused, match="rows of batch 1 changed, were removed"):
        source.read(3, text(LINES[10:30]), source.known)
