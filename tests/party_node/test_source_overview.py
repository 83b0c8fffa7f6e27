"""The overview of a table that grows is that of its whole file, and rows that are known by their bytes are not read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.errors import DataRefused
from party_node.source.overview import Overview, overview
from tests.party_node.tables import KEY, csv, read, settings, starts_of, text

LINES = [f"s-{i:03},{'9' if i % 5 == 0 else (i % 7) / 7:.5},{'uvw'[i % 3]},{1 + i // 10}" for i in range(40)]


class Source:
    """A file, its overview, and from which byte on rows were read last."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **how: object) -> None:
        self.folder, self.how = folder, how or {"batch": "month"}
        self.before: Overview | None = None
        self.starts = starts_of(patch, "party_node.source.overview")

    def look(self, written: str, key: bytes = KEY) -> bool:
        """Look over the file; whether new rows were read alone."""
        path = csv(self.folder, written)
        described = settings(path, **self.how)  # type: ignore[arg-type]
        self.before = found = overview(described, key, described.declarations(), self.before)
        whole = read(path, key=key, **self.how)  # type: ignore[arg-type]
        assert (found.rows, found.alignment) == (whole.alignment.rows, whole.alignment.digest)
        assert (found.findings, found.implausible) == (whole.findings, whole.implausible)
        assert found.batches == whole.batches
        return self.starts[-1] > 0


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(tmp_path, monkeypatch)


@pytest.mark.parametrize("how", [{"batch": "month"}, {"batch_rows": 10}])
def test_new_rows_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, object]) -> None:
    source = Source(tmp_path, monkeypatch, **how)
    assert [source.look(text(LINES[:upto])) for upto in (10, 20, 40)] == [False, True, True]


def test_rows_of_an_old_batch_may_come_late(source: Source) -> None:
    source.look(text(LINES[:20]))
    assert source.look(text([*LINES[:20], "s-900,0,u,1", *LINES[20:30]]))


def test_records_of_one_patient_may_come_at_different_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(tmp_path, monkeypatch, batch="month", record="visit", rows_per_subject=2)
    head = "id,x,c,month,visit\n"
    first = head + "".join(f"s-{i},0,u,1,{visit}\n" for i in range(5) for visit in range(1 + i % 2))
    source.look(first)
    assert source.look(first + "s-0,0,u,2,9\n")
    with pytest.raises(DataRefused, match=r"more than rows_per_subject = 2 rows \(1 too many\)"):
        source.look(first + "s-0,0,u,2,9\ns-1,0,u,2,9\n")


@pytest.mark.parametrize(
    "lines", [[LINES[1], LINES[0], *LINES[2:20]], LINES[10:30], [LINES[0].replace("9", "0"), *LINES[1:20]]]
)
def test_any_other_beginning_is_read_as_a_whole(source: Source, lines: list[str]) -> None:
    source.look(text(LINES[:10]))
    assert not source.look(text(lines))


def test_a_last_line_without_an_end_is_read_again(source: Source) -> None:
    source.look(text(LINES[:10], end=""))
    assert not source.look(text(LINES[:20]))


def test_another_key_or_declaration_is_for_the_whole_file(source: Source) -> None:
    source.look(text(LINES[:10]))
    assert not source.look(text(LINES[:20]), bytes(32))
    source.how = {**source.how, "missing": ("", "9")}
    assert not source.look(text(LINES[:30]), bytes(32))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (" s-003 ,0,u,2", "1 rows repeat an identifier"),
        (",0,u,2", "1 rows have no identifier in id"),
        ("s-900,0,u,", "1 cells of month are no whole number"),
        ("s-900,0", "is not a well-formed csv file"),
    ],
)
def test_new_rows_are_refused_in_the_words_of_the_whole_file(source: Source, more: str, words: str) -> None:
    source.look(text(LINES[:10]))
    with pytest.raises(DataRefused, match=words):
        source.look(text([*LINES[:10], more]))
    assert source.look(text(LINES[:20]))


def test_a_file_that_was_touched_is_not_read_again(source: Source) -> None:
    source.look(text(LINES[:10]))
    source.look(text(LINES[:10]))
    assert len(source.starts) == 1


def test_a_file_without_a_new_row_is_read_as_a_whole(source: Source) -> None:
    source.look(text(LINES[:10]))
    assert not source.look(text(LINES[:10]) + "\n")
