"""Reports, exports, descriptions and pictures of a stream's checkpoint: what a learner makes of one download."""

import json
import re
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from dprelease.document.cells import Estimate
from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.estimators.result import slope
from dprelease.report import content, page
from learner.cli.follow import draw
from learner.client.library import Opened
from learner.hub.storage import Storage
from tests.learner.commands import Run
from tests.learner.pages import parsed, report
from tests.learner.streams import ROWS, PublishedStream
from tests.learner.test_report import TAGS, part, shown, words
from tests.learner.world import World, verified
from tests.support.noise import ZeroNoise

TARGET, FEATURES = "glucose", ("age", "smoker=yes")
PATIENTS = sum(ROWS)


@pytest.fixture(scope="module")
def stream(trio: World) -> PublishedStream:
    return PublishedStream(trio, ZeroNoise())


@pytest.fixture(scope="module")
def opened(stream: PublishedStream, trio: World, place: Path) -> Opened:
    """The third checkpoint, made without noise."""
    with closing(Storage(place / "storage", 1 << 30)) as storage:
        folder = [stream.publish(storage) for _ in ROWS][-1]
    return verified(folder, trio, place / "home")


def test_a_report_has_every_checkpoint(opened: Opened) -> None:
    made = report(opened, [TARGET], FEATURES, "ols")
    tree = parsed(page(made))
    assert {node.tag for node in tree.iter()} <= TAGS
    time = part(tree, "time")
    assert "This release has the numbers of all 3 checkpoints so far" in words(time)
    table = shown(tree, f"Coefficients for {TARGET} at each checkpoint, standard errors in brackets")
    assert list(table) == ["1", "2", "3"]
    for number, at in opened.release.checkpoints().items():
        found = fit(at, [TARGET], FEATURES, "ols")
        share = Estimate(float(found.quality.explained[0]), float(found.quality.explained_se[0]))
        assert table[str(number)] == [f"{found.patients:,}", *(slope(found, 0, at).text for at in range(2)), share.text]
    svg = next(time.iter("svg"))
    assert len(list(svg.iter("circle"))) == len(FEATURES) * len(ROWS)
    assert [node.text for node in svg.iter("text") if node.text in FEATURES] == list(FEATURES)
    assert "#time" in {node.get("href") for node in tree.iter("a")}
    assert f"{PATIENTS:,} patients" in words(tree)
    assert "checkpoint 3 of 4" in words(part(tree, "release"))


def test_a_report_of_many_checkpoints_fits_some_of_them(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MOST_CHECKPOINTS", 2)
    made = report(opened, [TARGET], FEATURES, "ols")
    assert list(made.checkpoints) == [1, 3]
    assert made.checkpoints[3] is made.fit
    assert "2 of them are shown" in words(part(parsed(page(made)), "time"))


def test_every_command_reads_a_checkpoint_and_counts_everybody(run: Run, opened: Opened, tmp_path: Path) -> None:
    folder, gram = opened.folder.path, opened.release.moments().gram

    def said(*arguments: object) -> str:
        found = run(*arguments)
        assert found.exit_code == 0, found.output
        return found.stdout

    assert json.loads(said("verify", folder, "--json"))["patients"] == PATIENTS
    assert re.search(f"^patients +{PATIENTS:,}$", said("verify", folder), re.M)
    assert "checkpoint 3 of 4" in said("verify", folder)
    assert json.loads(said("describe", folder, "--json"))["patients"] == PATIENTS
    assert json.loads(said("analyze", "correlate", folder, "age,glucose", "--json"))["patients"] == PATIENTS
    assert f"patients   {PATIENTS}" in said("fit", folder, "--target", TARGET, "--method", "ols")
    asked = (folder, "--target", TARGET, "--method", "ols")
    assert json.loads(said("card", *asked))["release"]["patients"] == PATIENTS
    assert "ols of 1 target on" in said("report", *asked, "--output", tmp_path / "report.html")
    said("export", folder, "--format", "npz", "--output", tmp_path / "matrix.npz")
    with np.load(tmp_path / "matrix.npz") as exported:
        matrices = [exported[name] for name in exported.files if exported[name].shape == gram.shape]
    assert any(np.array_equal(matrix, gram) for matrix in matrices)
    assert gram[0, 0] == PATIENTS
    said("export", folder, "--format", "csv", "--as", "rows", "--output", tmp_path / "rows.csv")
    assert json.loads((tmp_path / "rows.csv.json").read_text())["patients"] == PATIENTS


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_has_a_panel_for_each_coefficient(opened: Opened, tmp_path: Path, ending: str, magic: bytes) -> None:
    path = tmp_path / f"stream.{ending}"
    draw({at: fit(each, [TARGET], method="ols") for at, each in opened.release.checkpoints().items()}, path)
    assert path.read_bytes().startswith(magic)


def test_a_picture_that_cannot_be_written(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    fits = {3: fit(opened.release, [TARGET], method="ols")}
    with pytest.raises(InvalidInput, match="cannot write the plot"):
        draw(fits, tmp_path / "none" / "stream.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = run("follow", opened.release.digest, "--target", TARGET, "--plot", tmp_path / "stream.png")
    assert "pip install 'dprelease[plot]'" in refused.stderr
