"""The parts of a report: axes, plots and eigenvalues."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.document.charts import RIGHT, Axis, CoefficientPath, Curve, Mark, forest, heat_map, panels
from dprelease.one_line import one_line
from dprelease.report.content import spectrum
from tests.learner.moments import opened
from tests.learner.pages import parsed
from tests.learner.test_report import words
from tests.learner.world import World
from tests.support.specs import numeric


@given(st.text())
def test_any_text_reads_back_as_what_can_be_printed_of_it(value: str) -> None:
    made = parsed(forest("plot", value, value, [Mark.tested(value, 2, 1, 3)], value))
    assert [words(child) for child in made[:2]] == [one_line(value)] * 2
    assert {child.tag for child in made} == {"title", "desc", "line", "circle", "text"}


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5))
def test_a_straight_axis_has_room_for_all(values: list[float]) -> None:
    axis = Axis.covering(values, 10, 110)
    assert axis.ticks[0] <= min(values)
    assert axis.ticks[-1] >= max(values)
    assert 2 <= len(axis.ticks) <= 10
    places = [axis.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert (axis.at(axis.ticks[0]), axis.at(axis.ticks[-1])) == (10, 110)
    steps = np.diff(axis.ticks)
    assert steps == pytest.approx(np.full(len(steps), steps[0]), rel=1e-6)


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=5))
def test_a_logarithmic_axis_has_room_for_all(values: list[float]) -> None:
    axis = Axis.covering(values, 110, 10, log=True)
    assert axis.ticks[0] <= min(values) * (1 + 1e-9)
    assert axis.ticks[-1] >= max(values) * (1 - 1e-9)
    assert 2 <= len(axis.ticks) <= 10
    places = [axis.at(value) for value in sorted(values)]
    assert places == sorted(places, reverse=True)
    assert axis.at(-1) == axis.at(0) == 110


def test_ratios_are_lengths_on_a_logarithmic_axis() -> None:
    axis = Axis.covering([1, 100], 0, 100, log=True)
    assert axis.at(10) == pytest.approx(50)
    assert axis.ticks == pytest.approx((1, 2, 5, 10, 20, 50, 100))


def test_intervals_are_drawn_where_they_are() -> None:
    lines = [Mark.tested("a", 2, 1, 3), Mark.tested("b", 1, -1, 3), Mark.tested("c" * 99, -2, -3, -1)]
    made = parsed(forest("plot", "title", "description", lines, "x"))
    zero = next(float(node.get("x1", "")) for node in made.iter("line") if node.get("class") == "zero")
    points = list(made.iter("circle"))
    assert [node.get("class") for node in points] == ["point clear", "point open", "point clear"]
    assert [np.sign(float(node.get("cx", "")) - zero) for node in points] == [1, 1, -1]
    bars = [node for node in made.iter("line") if "interval" in node.get("class", "")]
    assert float(bars[0].get("x1", "")) == pytest.approx(2 * zero - float(bars[2].get("x2", "")), abs=0.02)
    assert float(bars[1].get("x1", "")) < zero < float(bars[1].get("x2", ""))
    assert max(len(node.text or "") for node in made.iter("text")) < 50


def test_an_interval_without_an_end_goes_on_to_the_edge() -> None:
    bars = [
        node
        for each in ([Mark.tested("a", 2, 1, np.inf)], [Mark.tested("a", 2, -np.inf, np.inf)])
        for node in parsed(forest("plot", "title", "description", each, "x")).iter("line")
        if "interval" in node.get("class", "")
    ]
    first, second = ((float(node.get("x1", "")), float(node.get("x2", ""))) for node in bars)
    assert first[1] == second[1] == pytest.approx(RIGHT)
    assert second[0] < first[0] < first[1]


def test_ratios_are_drawn_about_1_as_far_apart_as_their_logarithms() -> None:
    lines = [Mark.tested(label, *ratio, null=1.0) for label, ratio in (("a", (2, 0.5, 8)), ("b", (0.25, 0.125, 0.5)))]
    made = parsed(forest("plot", "title", "description", lines, "odds ratio", ratios=True))
    (null,) = [float(node.get("x1", "")) for node in made.iter("line") if node.get("class") == "zero"]
    numbers = {node.text: float(node.get("x", "")) for node in made.iter("text") if node.get("class") == "tick middle"}
    assert null == numbers["1"]
    half = null - numbers["0.5"]
    points = [float(node.get("cx", "")) - null for node in made.iter("circle")]
    assert points == pytest.approx([half, -2 * half], abs=0.02)
    assert [node.get("class") for node in made.iter("circle")] == ["point open", "point clear"]
    bars = [node for node in made.iter("line") if "interval" in node.get("class", "")]
    reached = [[float(node.get(key, "")) - null for key in ("x1", "x2")] for node in bars]
    assert np.array(reached) == pytest.approx(half * np.array([[-1, 3], [-3, -1]]), abs=0.02)
    assert list(made.iter("polygon")) == []


def test_an_interval_of_ratios_that_goes_on_has_an_arrow_and_leaves_room_for_the_others() -> None:
    found = ((1.5, 1.2, 1.9), (3.0, 0.0, np.inf), (0.9, 1e-9, 2.0))
    lines = [Mark.tested(str(place), *ratio, null=1.0) for place, ratio in enumerate(found)]
    made = parsed(forest("plot", "title", "description", lines, "ratio", ratios=True))
    bars = [node for node in made.iter("line") if "interval" in node.get("class", "")]
    first, *others = ([float(node.get(key, "")) for key in ("x1", "x2")] for node in bars)
    assert (others[0][1], others[1][0]) == (pytest.approx(RIGHT), others[0][0])
    assert (first[1] - first[0]) / (RIGHT - others[0][0]) > np.log(1.9 / 1.2) / np.log(1e6)
    arrows = [node.get("points", "") for node in made.iter("polygon")]
    assert [float(each.split(",")[0]) > RIGHT for each in arrows] == [False, True, False]


@pytest.mark.parametrize(("noise", "log"), [((0.5, 1.5), True), ((-1.5, 1.5), False), ((0.0, 1.5), False)])
def test_marks_are_drawn_against_the_noise(noise: tuple[float, float], log: bool) -> None:
    marks = [Mark(str(value), value, value, value, value > noise[1]) for value in (40.0, 3.0, 1.0)]
    made = parsed(panels("plot", "title", "description", [CoefficientPath(marks, noise=noise, log=log)]))
    assert [node.get("class") for node in made.iter("circle")] == ["point clear", "point clear", "point open"]
    heights = [float(node.get("cy", "")) for node in made.iter("circle")]
    assert heights == sorted(heights)
    band = next(made.iter("rect"))
    top = float(band.get("y", ""))
    assert heights[1] < top < heights[2]
    assert float(band.get("height", "")) > 0


def test_marks_on_an_axis_stand_on_the_line_through_them() -> None:
    """A mark that is not known is left out, and panels stand beside one another."""
    places = [0.0, 1.0, 4.0]
    marks = [Mark("", value, value - 1, value + 1) for value in (1.0, float("nan"), 9.0)]
    panel = CoefficientPath(marks, places=places, line=list(zip(places, (1.0, 3.0, 9.0), strict=True)))
    one, two = (parsed(panels("plot", "title", "description", [panel] * count, columns=count)) for count in (1, 2))
    dots = [(node.get("cx"), node.get("cy")) for node in one.iter("circle")]
    line = [node for node in one.iter("line") if node.get("class") == "interval clear"]
    assert [(line[0].get("x1"), line[0].get("y1")), (line[1].get("x2"), line[1].get("y2"))] == dots
    assert [node.get("cy") for node in two.iter("circle")][:2] == [node.get("cy") for node in two.iter("circle")][2:]
    assert len(list(two.iter("circle"))) == 4
    unit = "target (line) and counterfactual (dots), admissions"
    assert unit in panels("plot", "title", "description", [CoefficientPath(marks, unit=unit)])


def test_curves_have_bands_and_one_legend() -> None:
    """Two panels with the same two groups: a band and a curve each, and a line of the legend for each group."""
    places, ends = np.array([0.0, 1.0, 2.0]), np.array([[1.0, 0.4, 0.1], [1.0, 0.5, 0.2], [1.0, 0.6, 0.3]])
    panel = CoefficientPath(zero=True, curves=[Curve(name, places, ends) for name in ("a", "b & c")])
    made = parsed(panels("plot", "title", "description", [panel, panel]))
    assert [node.text for node in made.iter("text") if node.get("class") == "label"] == ["a", "b & c"]
    bands, curves = (
        [[tuple(map(float, at.split(","))) for at in node.get("points", "").split()] for node in made.iter(tag)]
        for tag in ("polygon", "polyline")
    )
    assert [len(each) for each in bands] == [6] * 4
    assert [len(each) for each in curves] == [3] * 4 + [2] * 2
    (left, top), (middle, half), (right, low) = curves[0]
    assert middle - left == pytest.approx(right - middle)
    assert half - top == pytest.approx(0.5 / 0.3 * (low - half), rel=1e-3)
    # Upper ends from left to right, then lower ones back; 0.1 is a tenth of the height between 0 and 1.
    assert bands[0][:3] == [
        (left, top),
        (middle, pytest.approx(half - (half - top) / 5)),
        (right, pytest.approx(low - (half - top) / 5)),
    ]
    assert bands[0][3:] == [
        (right, pytest.approx(low + (half - top) / 5)),
        (middle, pytest.approx(half + (half - top) / 5)),
        (left, top),
    ]
    kinds = [node.get("class") for node in made.iter("polyline")]
    assert kinds == ["curve colour-1 dash-1", "curve colour-2 dash-2"] * 3


def test_correlations_are_coloured_by_sign_and_strength() -> None:
    values = np.array([[1.0, -0.5], [-0.5, 1.0]])
    made = parsed(heat_map("plot", "title", "description", ["a", "b"], values))
    squares = [(node.get("class"), float(node.get("fill-opacity", ""))) for node in made.iter("rect")]
    assert squares == [("positive", 0.5), ("negative", 0.25), ("negative", 0.25), ("positive", 0.5)]
    shown = [node.text for node in made.iter("text") if "value" in node.get("class", "")]
    assert shown == ["1.00", "\N{MINUS SIGN}0.50", "\N{MINUS SIGN}0.50", "1.00"]
    many = heat_map("plot", "title", "description", [f"x{place}" for place in range(20)], np.eye(20))
    assert "value" not in many


@pytest.mark.parametrize("mechanism", ["rows", "mixed", "moments"])
def test_noise_alone_stays_within_its_band_and_signal_does_not(tmp_path: Path, mechanism: str) -> None:
    """Eight columns of one hospital that are all but hidden at a small epsilon, and stand clear at a large one."""
    names = tuple(f"x{place}" for place in range(8))
    world = World(tmp_path, {"north": tuple(map(numeric, names))})
    found = {}
    for epsilon in (1e-3, 300.0):
        release = opened(world, tmp_path / f"{epsilon}", mechanism=mechanism, rows=400, outputs=200, epsilon=epsilon)
        made = spectrum(release.release, names)
        assert made is not None
        assert made.values.tolist() == sorted(made.values, reverse=True)
        found[epsilon] = made
    hidden, clear = found[1e-3], found[300.0]
    width = hidden.noise[1] - hidden.noise[0]
    assert hidden.noise[0] - 0.3 * width < hidden.values.min()
    assert hidden.values.max() < hidden.noise[1] + 0.3 * width
    assert hidden.values.max() - hidden.values.min() > 0.4 * width
    assert clear.clear == len(names)
    assert hidden.clear < len(names) / 2


def test_eigenvalues_are_those_of_the_released_numbers(tmp_path: Path) -> None:
    names = ("age", "height", "weight")
    world = World(tmp_path, {"north": (numeric("age", 0.0, 100.0),), "south": tuple(map(numeric, names[1:]))})
    release = opened(world, tmp_path / "moments", rows=500).release
    made = spectrum(release, names)
    moments = release.moments()
    mean = moments.gram[0, 1:] / 500
    assert made is not None
    assert made.values.sum() == pytest.approx(np.trace(moments.gram[1:, 1:] / 500 - np.outer(mean, mean)))
    edges = [
        2
        * np.sqrt(sum(sd[i, j] ** 2 + (sd[0, i] * mean[j - 1]) ** 2 + (sd[0, j] * mean[i - 1]) ** 2 for j in (1, 2, 3)))
        for sd in [moments.noise_sd / 500]
        for i in (1, 2, 3)
    ]
    assert -made.noise[0] == made.noise[1] == pytest.approx(max(edges))
    mixed = opened(world, tmp_path / "mixed", mechanism="mixed", rows=500, outputs=100, anchor_weight="0").release
    made, scaled = spectrum(mixed, names[:2]), mixed.scaled()
    x = scaled.values[:, :2] / scaled.noise_sd[:2]
    left = x - np.outer(scaled.ones, np.linalg.lstsq(scaled.ones[:, None], x, rcond=None)[0])
    assert made is not None
    assert made.values.sum() == pytest.approx((left**2).sum() / 99)
    assert made.noise == pytest.approx(((1 - np.sqrt(2 / 99)) ** 2, (1 + np.sqrt(2 / 99)) ** 2))
