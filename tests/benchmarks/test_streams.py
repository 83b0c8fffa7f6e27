"""The figures of the benchmark of streams: a hiccup counts against the reach, growth shows in every one of them."""

from __future__ import annotations

import pytest

from benchmarks.common.report import Figure, Results
from benchmarks.streams import Cost, add_figures


def figures(seconds: list[float]) -> dict[str, Figure]:
    results = Results()
    costs = [Cost(number, each, each / 2, 0.5, 4000 * number) for number, each in enumerate(seconds, 1)]
    add_figures(results, "a stream", costs)
    return {figure.figure.removeprefix("a stream: "): figure for figure in results.figures}


def test_the_reach_is_judged_on_the_worst_checkpoint() -> None:
    found = figures([2.0] * 15 + [8.0] + [2.0] * 14)
    assert (found["slowest over the first"].value, found["slowest over the first"].holds) == (4.0, False)
    assert found["slowest median of 5 neighbours over the first"].value == 1.0
    assert found["mean of the last 10 over the first 10"].value == 1.0
    assert found["kB of the last block of each hospital"].value == 120.0


def test_growth_shows() -> None:
    found = figures([2.0 + 0.1 * number for number in range(40)])
    assert found["slowest over the first"].value == pytest.approx(2.95)
    assert found["slowest over the first"].holds
    assert found["slowest median of 5 neighbours over the first"].value == pytest.approx(2.85)
    assert found["mean of the last 10 over the first 10"].value == pytest.approx(5.45 / 2.45)


def test_three_checkpoints_are_enough() -> None:
    found = figures([2.0, 3.0, 4.0])
    assert found["mean of the last 1 over the first 1"].value == 2.0
