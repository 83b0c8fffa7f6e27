"""A full run leaves its figures, its machine and its day, and the page of benchmarks says how old each is."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from benchmarks import effect, primo_speed
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


def test_laws_of_interactions_have_the_pairs_of_their_table() -> None:
    """An effect on rows is that on combinations with their shares; log odds of three columns move it, and pairs do not move."""
    asked, n = effect.ASKED["Redbook, religion and affairs"], 10**7
    table = asked.table(null=False)
    shares = table.value_counts(normalize=True).reset_index()
    known = effect.effects(table)
    for way, found in effect.effects(shares[list(table)], shares.iloc[:, -1].to_numpy()).items():
        np.testing.assert_allclose(found, known[way])
    drawn = list(effect.drawn(asked, n, 3, "interactions, "))
    assert len({float(truth["weighted"][0]) for truth, _ in drawn}) == len(drawn)
    pairs = np.array([release.products.between(range(9), range(9)) for _, release in drawn]) / n
    np.testing.assert_allclose(pairs[1:], pairs[:1].repeat(2, axis=0), atol=5 / np.sqrt(n))


def test_a_quick_run_that_hangs_ends_and_says_where(tmp_path: Path) -> None:
    script = "import time\nfrom benchmarks.common import report\nreport.QUICK_LIMIT = 1\n"
    script += "report.main('hung', lambda quick: time.sleep(60))\n"
    ended = subprocess.run([sys.executable, "-c", script, "--quick"], capture_output=True, text=True, timeout=50)
    assert ended.returncode == 1
    assert "in <lambda>" in ended.stderr


def test_a_clock_that_stands_still_does_not_stop_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primo_speed.time, "process_time", lambda: 0.0)
    monkeypatch.setattr(primo_speed, "ENOUGH", 0.01)
    cost = primo_speed.measure(30, 3, 4, "features")
    assert set(cost.steps.values()) == {0.0}
