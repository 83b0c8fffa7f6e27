"""A full run leaves its figures, its machine and its day, and the page of benchmarks says how old each is."""

import json
from datetime import date
from pathlib import Path

import pytest

from benchmarks.common import pages, report


def test_a_full_run_says_when_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(quick: bool) -> report.Results:
        results = report.Results()
        results.add("seconds", 3.0, 2.0)
        return results

    monkeypatch.setattr("sys.argv", ["benchmarks.toy"])
    for module in (report, pages):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    report.main("toy", run)
    today = date.today().isoformat()
    assert json.loads((tmp_path / "toy.json").read_text())["measured"] == today
    capsys.readouterr()
    pages.reaches()
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("| toy |"))
    assert row.startswith(f"| toy | 0 of 1 | {today} |")
