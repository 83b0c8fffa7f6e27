"""Several files as one table: a pattern, or a folder of Parquet files."""

import gzip
from pathlib import Path

import pytest

from dprelease.errors import DataRefused
from party_node.source.reader import stamp
from tests.party_node.tables import csv, parquet, read, settings, text

LINES = [f"s-{i:03},{(i % 7) / 7:.5f},u,{1 + i // 10}" for i in range(40)]
"""Four batches of ten."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table in four files, one compressed, and something else beside them."""
    (tmp_path / "exports").mkdir()
    for month in range(4):
        rows = text(LINES[10 * month : 10 * month + 10]).encode()
        packed = gzip.compress(rows) if month == 2 else rows
        csv(tmp_path / "exports", packed, f"2026-0{month + 1}.csv" + ".gz" * (month == 2))
    (tmp_path / "exports" / "README").write_text("not a table")
    return tmp_path / "exports"


@pytest.mark.parametrize("how", [{"batch": "month"}, {"batch_rows": 10}, {}])
def test_files_of_a_pattern_are_one_table_in_the_order_of_their_names(folder: Path, how: dict[str, object]) -> None:
    one = read(csv(folder.parent, text(LINES)), **how)
    several = read(folder / "*.csv*", **how)
    assert (several.bounded.digest(), several.alignment.digest) == (one.bounded.digest(), one.alignment.digest)
    assert several.batches == one.batches
    assert read(folder / "2026-01.*", **how).alignment.rows == 10


def test_a_folder_of_parquet_files_is_one_table(folder: Path) -> None:
    for name, rows in (("b.parquet", LINES[:15]), ("a.pq", LINES[15:])):
        cells = zip(*(line.split(",") for line in rows), strict=True)
        parquet(folder, dict(zip(("id", "x", "c", "month"), map(list, cells), strict=True)), name)
    one = read(csv(folder.parent, text(LINES)))
    assert read(folder).bounded.digest() == one.bounded.digest()
    assert read(folder / "*.p*").bounded.digest() == one.bounded.digest()


@pytest.mark.parametrize("header", ["id,x,c\n", "id,c,x,month\n", "id,x,c,month,more\n"])
def test_another_header_is_refused(folder: Path, header: str) -> None:
    csv(folder, header + header, "2026-09.csv")
    with pytest.raises(DataRefused, match=r"^2026-09\.csv has other columns than 2026-01\.csv, or in another order"):
        read(folder / "*.csv")


def test_a_patient_in_two_files_repeats(folder: Path) -> None:
    csv(folder, text([LINES[0]]), "2026-09.csv")
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        read(folder / "*.csv")


@pytest.mark.parametrize(
    ("name", "words"), [("*.txt", "no file has such a name"), ("", r"name CSV files by a pattern, such as .*\*\.csv")]
)
def test_a_pattern_or_a_folder_without_files(folder: Path, name: str, words: str) -> None:
    with pytest.raises(DataRefused, match=words):
        read(folder / name)


def test_files_that_change_come_and_go_are_noticed(folder: Path) -> None:
    source = settings(folder / "*.csv").source
    seen = [stamp(source)]
    for change in (
        lambda: csv(folder, text(LINES), "2026-01.csv"),
        lambda: csv(folder, text(LINES), "2026-09.csv"),
        lambda: (folder / "2026-09.csv").unlink(),
        lambda: (folder / "2026-01.csv").rename(folder / "2026-00.csv"),
    ):
        change()
        assert stamp(source) not in seen[-1:]
        seen.append(stamp(source))
