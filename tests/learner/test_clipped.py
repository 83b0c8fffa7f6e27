"""What follow, reports and cards of clipped rows say: a sentence, how far numbers reach, and how much wider intervals are."""

from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from matplotlib.figure import Figure

from dprelease.data.ranges import STEPS, Range
from dprelease.estimators.intervals.clipped import WIDER
from dprelease.estimators.result import slope
from dprelease.mechanisms.draft import PublishedRanges
from dprelease.report import page
from dprelease.report.content import Report
from dprelease.report.model_card import model_card
from learner.cli.follow import draw
from learner.client.library import Opened
from learner.hub.storage import Storage
from tests.learner.commands import Run, runner
from tests.learner.moments import AGE, GLUCOSE, SMOKER
from tests.learner.pages import parsed, report
from tests.learner.streams import PublishedStream
from tests.learner.world import CONSORTIUM, World, verified
from tests.support.noise import ZeroNoise
from tests.support.specs import numeric
from tests.support.web import RangeHandler, serving

ASKED = ("--target", "glucose", "--features", "age,smoker", "--method", "ols")
COLUMNS = {"north": (AGE, SMOKER, numeric("weight")), "south": (GLUCOSE, numeric("pressure"))}
CLIPS = (None, 0.0, 2.0, "none")
"""In public bounds; far; gently; without a norm."""


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
        with closing(Storage(home / "storage", 1 << 30)) as storage:
            folder = [self.stream.publish(storage) for _ in range(2)][-1]
        self.opened: Opened = verified(folder, self.world, home)
        self.made: Report = report(self.opened, ["glucose"], ["age", "smoker=yes"], "ols")
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
    told = [line for line in lines if line == f"Coefficients describe all rows; {WIDER}."]
    assert len(told) == (place.clip is not None)
    assert all(str(reach) in shown.stdout for reach in found.reaches)
    one = slope(place.made.fit, 0, 0)
    assert f"{one.part('estimate')} [{one.part('lower')}, {one.part('upper')}] " in lines[-2]


def test_a_picture_says_what_its_intervals_are_about(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    draw(place.made.checkpoints, tmp_path / "picture.png")
    (figure,) = drawn
    assert (f"about all rows; {WIDER}" in figure.get_suptitle()) is (place.clip is not None)


def test_a_card_has_all_of_it(place: Place) -> None:
    card, found = model_card(place.made), place.made.fit.inference
    coefficients = card["fit"]["coefficients"]
    assert tuple(card["caveats"][: len(found.clipping_notes)]) == found.clipping_notes
    reaches = card["fit"].get("reaches", [])
    assert [each["name"] for each in reaches] == [each.name for each in found.reaches]
    beside = [each["wider"] for each in coefficients]
    if found.wider is None or found.intercepts.wider is None:
        assert beside == [None] * 3
    else:
        assert beside == [*found.intercepts.wider, *found.wider[0]]
        assert all(0 < each["kept"] <= 1 for each in reaches)
