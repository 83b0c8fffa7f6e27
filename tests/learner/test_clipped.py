"""What follow, reports and cards say of rows as clipped: a sentence, how far, and the fit of unclipped rows beside each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pytest
from matplotlib.figure import Figure

from dprelease.data.ranges import STEPS, Range
from dprelease.mechanisms.draft import PublishedRanges
from learner.client import stream_plot
from learner.client.library import Opened, open_verified
from learner.client.pinned_roots import TrustStore
from learner.hub.storage import Storage
from learner.report.content import Report, report
from learner.report.model_card import model_card
from learner.report.page import page
from tests.learner.commands import Run, runner
from tests.learner.moments import AGE, GLUCOSE, SMOKER
from tests.learner.pages import parsed
from tests.learner.streams import PublishedStream
from tests.learner.test_report import numbers, part, words
from tests.learner.world import CONSORTIUM, World
from tests.support.noise import ZeroNoise
from tests.support.specs import numeric
from tests.support.web import RangeHandler, serving

ASKED = ("--target", "glucose", "--features", "age,smoker", "--method", "ols")
COLUMNS = {
    "north": (AGE, SMOKER, numeric("weight")),
    "south": (GLUCOSE, numeric("pressure")),
}
CLIPS = (None, 0.0, 2.0, "none")
"""In public bounds; too far for tests; gently; without a norm."""


def in_ranges(clip: float | str | None) -> dict[str, Any]:
    """Options of a stream in ranges that an earlier release published; none for public bounds."""
    if clip is None:
        return {}
    names = [column.name for own in COLUMNS.values() for column in own if column.kind == "numeric"]
    known = PublishedRanges("ab" * 32, tuple(Range(name=name, centre=0, half_width=STEPS // 2) for name in names))
    return {"ranges": "folder", "published": lambda _: known, "clip": clip}


class Place:
    """A published stream of two checkpoints, and whoever reads it."""

    def __init__(self, clip: float | str | None, home: Path) -> None:
        self.clip, self.world = clip, World(home, COLUMNS)
        self.home, self.stream = home, PublishedStream(self.world, ZeroNoise(), **in_ranges(clip))
        storage = Storage(home / "storage", 1 << 30)
        folder = [self.stream.publish(storage) for _ in range(2)][-1]
        storage.close()
        trust = TrustStore(home)
        trust.add(CONSORTIUM, self.world.root.certificate, "h:1")
        self.opened: Opened = open_verified(folder, trust)
        self.made: Report = report(self.opened, ["glucose"], ["age", "smoker=other"], "ols")
        self.tree: Element = parsed(page(self.made))


@pytest.fixture(scope="module", params=CLIPS, ids=str)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(request.param, tmp_path_factory.mktemp("clipped"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path / "home")


def test_follow_says_how_far_in_one_line(place: Place, run: Run) -> None:
    with serving(place.home / "storage" / "published", RangeHandler) as web:
        added = run("trust", "add", CONSORTIUM, "--root", place.world.root_path, "--mirror", web.url, "--yes")
        assert added.exit_code == 0
        shown = run("follow", place.stream.releases[0].digest, *ASKED, "--once")
    assert shown.exit_code == 0, shown.output
    lines, found = shown.stdout.splitlines(), place.made.fit.inference
    told = [line for line in lines if line.startswith("about rows as clipped, ")]
    assert len(told) == (place.clip is not None)
    assert all(str(block) in told[0] for block in found.clipped)
    assert any("so far that" in line for line in told) is (place.clip == 0)
    if found.unclipped is None:
        assert " / " not in shown.stdout
    else:
        lower, upper = (ends[0, 0] for ends in found.interval())
        assert f"{found.estimate[0, 0]:.3g} [{lower:.3g}, {upper:.3g}] / {found.unclipped[0, 0]:.3g} " in lines[-1]
        assert len({line.rindex("  ") for line in lines[-2:]}) == 1


def test_a_picture_has_the_unclipped_fit_dashed(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    fits = place.made.checkpoints
    stream_plot.draw(fits, tmp_path / "picture.png")
    (figure,) = drawn
    lines = [line for axis in figure.axes for line in axis.get_lines() if line.get_linestyle() == "--"]
    unclipped = [fit.inference.unclipped for fit in fits.values() if fit.inference.unclipped is not None]
    assert len(lines) == (len(figure.axes) if unclipped else 0) == 2 * (place.clip in {0.0, 2.0})
    for column, line in enumerate(lines):
        np.testing.assert_array_equal(line.get_ydata(), [each[0, column] for each in unclipped])
    assert ("as clipped" in figure.get_suptitle()) is (place.clip is not None)
    assert ("dashed: if normal before" in figure.get_suptitle()) is bool(unclipped)


def test_a_page_has_the_unclipped_fit_and_how_far(place: Place) -> None:
    found, shown = place.made.fit.inference, numbers(place.tree, "Coefficients for glucose")
    said = words(part(place.tree, "coefficients"))
    for sentence in found.clipping_notes:
        assert sentence in said
    assert ("about rows as clipped" in said) is (place.clip in {0.0, 2.0})
    assert ("about numbers as clipped" in said) is (place.clip == "none")
    if found.unclipped is None or found.unclipped_intercept is None:
        assert "unclipped" not in words(next(place.tree.iter("main")))
        return
    assert shown["age"][2] == found.unclipped[0, 0] != found.estimate[0, 0]
    assert shown["intercept"][2] == found.unclipped_intercept[0] != found.intercept[0]
    assert numbers(place.tree, "How rows were clipped") == {
        block.party: [block.radius2, block.filled, block.kept] for block in found.clipped
    }
    for number, fit in place.made.checkpoints.items():
        assert fit.inference.unclipped is not None
        line = next(line for line in part(place.tree, "time").iter("tr") if words(line[0]) == str(number))
        assert ", unclipped " in words(line[2])


def test_nothing_is_clear_of_zero_where_nothing_is_tested(place: Place) -> None:
    whole = words(place.tree)
    tested = place.clip != 0
    assert place.made.fit.inference.tested is tested
    assert ("Clear of zero" in whole) is tested
    assert ("Hollow: zero lies within" in whole) is tested
    assert ("No p-values" in whole) is not tested
    marks = [node for name in ("coefficients", "time") for node in part(place.tree, name).iter("circle")]
    assert marks
    assert any(node.get("class") == "point clear" for node in marks) <= tested


def test_a_card_has_all_of_it(place: Place) -> None:
    card, found = model_card(place.made), place.made.fit.inference
    outcome = card["outcomes"][0]
    assert tuple(card["caveats"][: len(found.clipping_notes)]) == found.clipping_notes
    assert [each["party"] for each in card["clipping"]] == [block.party for block in found.clipped]
    beside = [each["unclipped"] for each in (outcome["intercept"], *outcome["coefficients"])]
    if found.unclipped is None or found.unclipped_intercept is None:
        assert beside == [None] * 3
    else:
        assert beside == [*found.unclipped_intercept, *found.unclipped[0]]
        assert [each["radius2"] for each in card["clipping"]] == [block.radius2 for block in found.clipped]
        assert all(0 < block.filled <= 1 for block in found.clipped)
    if place.clip == "none":
        assert all(math.isnan(block.filled) for block in found.clipped)
        assert {each["filled"] for each in card["clipping"]} == {None}
