"""The picture of a comparison: its curves are forecasts, and it fails in words."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.planning.comparison import compare
from dprelease.planning.forecast import forecast
from dprelease.planning.plot import POINTS, draw, over_epsilon, over_rows
from tests.dprelease.test_comparison import setting

WHERE = setting(20_000)


def test_curves_pass_through_the_setting() -> None:
    for name in ("mixed", "moments"):
        where = replace(WHERE, mechanism=name)
        for (at, curve), now in zip((over_rows(where, 0.5), over_epsilon(where, 0.5)), (20_000, 1.0), strict=True):
            assert len(at) == len(curve) == POINTS
            assert at[POINTS // 2] == pytest.approx(now)
            assert curve[POINTS // 2] == pytest.approx(forecast(where, 0.5).r2)
            assert curve[-1] > curve[0] - 1e-3


def test_curves_stay_within_what_is_possible() -> None:
    assert over_rows(setting(3), 0.5)[0][0] == 2
    at, curve = over_rows(setting(100, k=90), 0.5)
    assert np.array_equal(np.isnan(curve), at < 90)


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_is_written(tmp_path: Path, ending: str, magic: bytes) -> None:
    path = tmp_path / f"plan.{ending}"
    draw(compare(WHERE, ("mixed", "moments"), (0.5,)), path)
    assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize("name", ["plan.colour", "none/plan.png"])
def test_a_picture_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot write the plot"):
        draw(compare(WHERE, ("moments",), (0.5,)), tmp_path / name)


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"matplotlib, which is not installed.*pip install 'dprelease\[plot\]'"):
        draw(compare(WHERE, ("moments",), (0.5,)), tmp_path / "plan.png")
