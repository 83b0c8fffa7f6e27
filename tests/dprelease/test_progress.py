"""Lines of the log while a long source is read: rows, rows a second, time left. `check` has them on its screen."""

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from dprelease import progress
from dprelease.progress import shown_on_stderr
from party_node.source.reader import FilesReader, batches_of
from tests.party_node.tables import csv, parquet, settings

ROWS = 4000


def of_csv(folder: Path) -> Path:
    for part in range(2):
        csv(folder, "id,x\n" + "".join(f"{row:06d},0.123456\n" for row in range(ROWS // 2)), f"part-{part}.csv")
    return folder / "part-*.csv"


def of_parquet(folder: Path) -> Path:
    return parquet(folder, {"id": range(ROWS), "x": [0.5] * ROWS})


@pytest.mark.parametrize("made", [of_csv, of_parquet])
def test_lines_tell_rows_rate_and_time_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, made: Callable[[Path], Path]
) -> None:
    """A clock that goes on by 6 s at each look: every second batch has a line."""
    reader, seconds = FilesReader(settings(made(tmp_path)).source), count(0, 6)
    caplog.set_level(logging.INFO)
    with patch("party_node.source.limits.MOST_ROWS", 500), patch("party_node.source.reader.MOST_ROWS", 500):
        watched = progress.watched(
            reader.batches(["id", "x"]), lambda rows: reader.share(), lambda: float(next(seconds))
        )
        assert [batch.num_rows for batch in watched] == [500] * 8
    assert [record.getMessage()[:22] for record in caplog.records] == [
        "read 1,000 rows, 83 a ",
        "read 2,000 rows, 83 a ",
        "read 3,000 rows, 83 a ",
        "read 4,000 rows, 83 a ",
    ]
    assert all(record.getMessage().endswith(" min left") for record in caplog.records)


@pytest.mark.parametrize(
    ("share", "says"), [(None, "read 500 rows, 5 a second"), (0.5, "about 2 min left"), (0.01, "about 2 h 45 min left")]
)
def test_time_left_follows_from_the_share_that_was_read(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, share: float | None, says: str
) -> None:
    reader = FilesReader(settings(parquet(tmp_path, {"id": range(500)})).source)
    seconds = iter([0.0, 100.0])
    caplog.set_level(logging.INFO)
    assert len(list(progress.watched(reader.batches(["id"]), lambda rows: share, lambda: next(seconds)))) == 1
    assert caplog.messages[0].endswith(says)


def test_commands_show_the_lines_and_leave_the_log_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = FilesReader(settings(of_parquet(tmp_path)).source)
    with patch("dprelease.progress.EVERY_SECONDS", 0.0), shown_on_stderr():
        assert sum(batch.num_rows for batch in batches_of(reader, ["id"])) == ROWS
    assert capsys.readouterr().err.startswith(f"read {ROWS:,} rows, ")
    with patch("dprelease.progress.EVERY_SECONDS", 0.0):
        list(batches_of(reader, ["id"]))
    assert capsys.readouterr().err == ""
