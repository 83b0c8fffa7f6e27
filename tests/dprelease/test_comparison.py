"""Mechanisms side by side: the sentence that recommends, the tables, the JSON.

The picture of a comparison: its curves are forecasts, and it fails in words.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.cli.plan_options import POINTS, draw, over_epsilon, over_rows
from dprelease.data.ranges import Range
from dprelease.document.text import text
from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Scenario
from dprelease.mechanisms.draft import PublishedRanges
from dprelease.mechanisms.expected_error import Forecast
from dprelease.mechanisms.registry import names_for_fits
from dprelease.planning.comparison import NO_DATA, SIGNALS, Cell, Comparison, compare
from dprelease.planning.forecast import epsilon_needed, forecast, proposed, rows_needed
from dprelease.spec_base import Target
from tests.support.plans import changed, planned, way


def setting(rows: int, epsilon: float = 1.0, widths: str = "3,4,2", **others: Any) -> Scenario:
    target = Target(scope=others.pop("scope", "joint"), epsilon=epsilon, delta=others.pop("delta", 1e-9))
    return planned(rows, widths, target, "mixed", **others)


PUBLISHED = PublishedRanges("ab" * 32, tuple(Range.whole(f"x{number}") for number in range(1, 16)))


def published(where: Scenario) -> Scenario:
    """The same where an earlier release published ranges of all numbers."""
    return replace(where, draft=replace(where.draft, latest_ranges=lambda: PUBLISHED))


def said(cells: Sequence[Cell]) -> list[tuple[Forecast, int | None, float | None]]:
    return [(cell.forecast, cell.rows_needed, cell.epsilon_needed) for cell in cells]


def test_every_cell_is_the_forecast_of_its_mechanism() -> None:
    where = setting(20_000)
    found = compare(where)
    ways = {name: changed(where, mechanism=name) for name in ("mixed", "rows", "moments")}
    ways["moments in ranges"] = changed(ways["moments"], ranges="first")
    assert [(cell.forecast.signal, cell.mechanism) for cell in found.cells] == [
        (signal, name) for signal in SIGNALS for name in ways
    ]
    for cell in found.cells:
        own = ways[cell.mechanism]
        assert cell.forecast == forecast(own, cell.forecast.signal)
        assert cell.rows_needed == rows_needed(own, cell.forecast.signal)
        assert cell.epsilon_needed == epsilon_needed(own, cell.forecast.signal)


def test_moments_are_recommended_where_blocks_learn_nothing() -> None:
    said = compare(setting(20_000)).recommendation()
    assert said.startswith("Choose moments: expected to beat the mean and keep most of the signal from R^2 = 0.1 on")
    assert "(mixed nowhere, rows nowhere, moments in ranges from R^2 = 0.1 on)" in said
    assert "hospitals have to trust range proofs" in said
    alone = compare(setting(20_000, widths="9")).recommendation()
    assert "Choose moments" in alone
    assert "trust" not in alone


def test_ranges_first_are_recommended_for_few_patients() -> None:
    found = compare(setting(1_600, widths="5,7,3", delta=1e-6))
    said = found.recommendation()
    assert said.startswith("Choose moments in ranges: ")
    assert said.endswith("a release of ranges comes first, for a part of the budget.")
    bounds, ranges = (sum(cell.forecast.r2 for cell in found.of(name)) for name in ("moments", "moments in ranges"))
    assert ranges > bounds
    known = compare(published(setting(1_600, widths="5,7,3", delta=1e-6)), ("moments",))
    assert [each.plan for each in known.scenarios] == ["moments", "moments in ranges"]
    assert sum(cell.forecast.r2 for cell in known.of("moments in ranges")) > ranges
    assert "comes first" not in known.recommendation()


def test_no_other_mechanism_has_ranges() -> None:
    found = compare(published(setting(1_600)))
    assert [each.plan for each in found.scenarios] == ["mixed", "rows", "moments", "moments in ranges"]


def test_in_ranges_bounds_play_no_part() -> None:
    """What is guessed of how cells fill their bounds changes nothing but for bounds."""
    found = [compare(setting(20_000, spread=spread), ("moments",), (0.3,)) for spread in (0.01, 1 / 3)]
    bounds, ranges = ([said(each.of(name)) for each in found] for name in ("moments", "moments in ranges"))
    assert bounds[0] != bounds[1]
    assert ranges[0] == ranges[1]


def test_the_guess_of_the_spread_is_named_where_another_one_turns_the_choice() -> None:
    """The nearest plausible one, and a plan with it does recommend what was said."""
    found = compare(setting(20_000), signals=(0.3,))
    other = found.other_spread()
    assert other is not None
    assert other.explain() in found.document().notes
    assert (found.choice, other.choice, other.deviation) == ("moments", "moments in ranges", 0.1)
    assert "0.1 of their half-widths instead of 0.58 (--spread 0.01), moments in ranges would" in other.explain()
    then = compare(setting(20_000, spread=0.01), signals=(0.3,))
    assert then.choice == "moments in ranges"
    back = then.other_spread()
    assert (back and back.choice, back and back.deviation) == ("moments", 0.3)
    few = compare(setting(1_600, widths="5,7,3", delta=1e-6), signals=(0.5,))
    assert (few.choice, few.other_spread()) == ("moments in ranges", None)
    assert few.document().data["other_spread"] is None


def test_a_known_outcome_is_weighed_where_ranges_are_recommended() -> None:
    few = setting(1_600, widths="5,7,3", delta=1e-6)
    found = compare(few, signals=(0.5,))
    known = found.known()
    assert known is not None
    assert known.explain() in found.document().notes
    assert "outcome_weight = { x15 = 1.7 }. It makes the noise of this outcome about 0.66 times" in known.explain()
    (way,) = (each for each in found.scenarios if each.plan == "moments in ranges")
    before, after = (proposed(each).noise.columns for each in (way, way.asking(outcome_weight={"x15": 1.7})))
    assert (after["x15"] / before["x15"], after["x1"] / before["x1"]) == pytest.approx(
        (known.noise**2, known.others**2)
    )
    assert compare(setting(20_000), signals=(0.5,)).known() is None
    assert compare(few.asking(ranges="first", outcome_weight={"x15": 1.7}), signals=(0.5,)).known() is None


def test_no_mechanism_is_recommended_where_all_fail() -> None:
    found = compare(setting(300, 0.1))
    assert not any(cell.forecast.useful for cell in found.cells)
    said = found.recommendation()
    cell = next(cell for cell in found.of("moments in ranges") if cell.forecast.signal == 0.5)
    assert cell.rows_needed is not None
    assert said.startswith("Choose none of them")
    assert f"moments in ranges needs about {float(f'{cell.rows_needed:.1e}'):,.0f} patients" in said
    assert f"epsilon = {cell.epsilon_needed:.2g} if R^2 = 0.5" in said
    hopeless = compare(setting(300, 0.1, k=5), ("mixed",)).recommendation()
    assert hopeless.endswith("with any n.")


def test_a_plan_begins_with_the_recommendation_and_says_that_it_read_no_data() -> None:
    found = compare(setting(20_000, spread=0.05, delta=1e-13), signals=(0.3,))
    printed = text(found.document())
    lines = printed.splitlines()
    assert lines[1].split(maxsplit=1) == ["recommendation", found.recommendation()]
    assert lines[-1] == NO_DATA
    for words in ("n = 20,000", "9 columns at 3 parties", "x9 on 8 features", "(1, 1e-13)", "variance 0.05"):
        assert words in printed
    for head in ("patients needed", "relative coefficient error"):
        assert head in printed
    for name in (*names_for_fits(), "moments in ranges"):
        (row,) = (line for line in lines if line.startswith(f"0.3  {name}  "))
        cell = next(cell for cell in found.cells if cell.mechanism == name)
        assert f"{cell.forecast.r2:.3f}".replace("-0.000", "0.000") in row
        assert ("no better than the mean" in row) is not cell.forecast.useful
    assert "-0.000" not in printed
    assert "smaller delta" not in printed
    assert not any(line.endswith(" ") for line in lines)


def test_the_first_note_warns_of_a_delta_that_is_too_large() -> None:
    for delta, warning in ((1e-4, "is not below 1/n"), (2e-5, "need a smaller delta")):
        assert warning in compare(setting(20_000, delta=delta), signals=(0.3,)).document().notes[0]


def test_a_per_party_target_is_joint_for_moments() -> None:
    where = setting(20_000, scope="per-party")
    assert "scope per-party (moments: joint)" in compare(where, signals=(0.3,)).document().facts["release"]
    joint = compare(setting(20_000), ("moments",), (0.3,)).cells
    assert said(compare(where, ("moments",), (0.3,)).cells) == said(joint)


def test_json_has_exact_prices() -> None:
    where = setting(20_000)
    found = json.loads(json.dumps(compare(where, signals=(0.5, 0.3, 0.5)).document().to_json()))
    assert found["data_read"] is False
    assert [each["assumed_r2"] for each in found["forecasts"]] == [0.3] * 4 + [0.5] * 4
    for name in names_for_fits():
        prices = {party: Fraction(text) for party, text in way(found, name)["charged_mu2"].items()}
        assert prices == proposed(changed(where, mechanism=name)).prices
    assert way(found, "mixed")["terms"]["k"] == proposed(where).spec.terms.mixing.outputs  # type: ignore[attr-defined]
    assert found["recommendation"].startswith("Choose moments")


def test_a_signal_that_is_none() -> None:
    with pytest.raises(InvalidInput, match="share of variance"):
        compare(setting(1000), signals=(0.5, 2.0))


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


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(WHERE, ("moments",), (0.5,))


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_is_written(compared: Comparison, tmp_path: Path, ending: str, magic: bytes) -> None:
    path = tmp_path / f"plan.{ending}"
    draw(compared, path)
    assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize("name", ["plan.colour", "none/plan.png"])
def test_a_picture_that_cannot_be_written(compared: Comparison, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot write the plot"):
        draw(compared, tmp_path / name)


def test_without_matplotlib_the_error_says_what_to_install(
    compared: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"matplotlib, which is not installed.*pip install 'dprelease\[plot\]'"):
        draw(compared, tmp_path / "plan.png")
