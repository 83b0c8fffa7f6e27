"""`learner analyze` on a published release of joint moments: every family, bad names, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dprelease import analyses
from dprelease.analyses.beyond import BEYOND
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput
from dprelease.one_line import listed
from dprelease.release.accounting import trust
from dprelease.release.folder import ReleaseFolder
from dprelease.report.content import asked
from dprelease.wire.boundary import TABLE
from learner.cli.analyze import analyze
from learner.cli.kept import kept
from learner.cli.main import main
from learner.client.library import Opened
from tests.learner.moments import COLUMNS, opened
from tests.learner.world import CONSORTIUM, World
from tests.support.exits import exit_columns
from tests.support.specs import categorical

Run = Callable[..., Result]

EXIT = {row.error.__name__: row.exit_code for row in TABLE}

LINES = {
    "table": ("smoker", "stage"),
    "logistic": ("smoker", "--on", "age,stage"),
    "poisson": ("falls", "--on", "smoker,ward"),
    "effect": ("smoker", "stage=I", "--adjust", "ward"),
    "means": ("glucose", "--by", "stage,smoker", "--adjust", "age"),
    "nested": ("glucose", "--on", "age,stage", "--without", "stage"),
    "correlate": ("age", "glucose", "--given", "smoker"),
    "lasso": ("glucose", "--on", "age", "--on", "smoker,stage"),
    "iv": ("glucose", "--on", "age", "--instruments", "stage", "--given", "smoker"),
    "mediation": ("glucose", "smoker", "--through", "age", "--given", "stage"),
    "missing": ("smoker=yes", "stage=other"),
    "components": ("age", "glucose", "smoker", "--count", "1"),
    "alpha": ("age", "glucose"),
    "rates": ("smoker", "--time", "age", "--by", "stage"),
    "survival": ("exit", "--by", "smoker"),
    "hazards": ("exit", "--on", "smoker,ward"),
}

(EXIT_COLUMN,) = exit_columns(Exits((0.5, 1.0)), {})


@pytest.fixture(scope="module")
def release(place: Path) -> Opened:
    """Enough patients for everything to be told."""
    ward = categorical("ward", "a", "b", exhaustive=True, fill="a")
    falls = categorical("falls", "0", "1", ">= 2", exhaustive=True, fill="0")
    columns = {**COLUMNS[3], "east": (*COLUMNS[3]["east"], ward, falls, EXIT_COLUMN)}
    return opened(World(place, columns), place, rows=20_000, epsilon=3.0)


@pytest.fixture
def run(release: Opened, place: Path) -> Run:
    return lambda *arguments: CliRunner().invoke(main, ["--home", str(place / "home"), "analyze", *map(str, arguments)])


def test_every_command_is_tried_here_and_has_its_line_in_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "analyses.md").read_text()
    assert [name for name in (*LINES, *BEYOND) if f"`{name}" not in page] == []
    assert set(LINES) == set(analyze.commands)
    assert not set(LINES) & set(BEYOND)


@pytest.mark.parametrize("name", LINES)
def test_every_family_as_text_as_data_and_from_a_file(name: str, run: Run, release: Opened, tmp_path: Path) -> None:
    """A saved analysis is worked out again, and its words make the same once more."""
    shown = run(name, release.folder.path, *LINES[name])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith(f"verified: release {release.release.digest} of {CONSORTIUM}")
    assert "When not to believe it" in shown.output
    assert release.release.promise.line in shown.output
    explained = run(name, release.folder.path, *LINES[name], "--explain").output
    for sentence in (*release.release.guarantee, *trust(release.release.spec)):
        assert sentence in explained
    data = json.loads(
        run(name, release.folder.path, *LINES[name], "--json", "--output", tmp_path / "saved.json").output
    )
    assert (data["release"], data["patients"]) == (release.release.digest, 20_000)
    assert json.loads((tmp_path / "saved.json").read_text()) == data
    analysis = kept(tmp_path / "saved.json", release.release)
    command, digest, *words = asked(analysis)
    assert (command, digest, analysis.document().to_json()) == (name, release.release.digest, data)
    assert json.loads(run(command, release.folder.path, *words, "--json").output) == data
    assert data["title"] in shown.output
    for row in (*data["tables"], *data.get("tests", ())):
        assert [each for each in (row.get("table"), row.get("name"), row.get("null hypothesis")) if each] != []
        assert all(row[key] in shown.output for key in ("table", "name", "null hypothesis") if key in row)
    assert [note for note in data["notes"] if note not in explained] == []


def test_survival_is_plotted(run: Run, release: Opened, tmp_path: Path) -> None:
    path = tmp_path / "survival.png"
    shown = run("survival", release.folder.path, "exit", "--by", "smoker", "--plot", path)
    assert shown.exit_code == 0, shown.output
    assert path.read_bytes().startswith(b"\x89PNG")


def test_unknown_names_are_refused_with_the_list(run: Run, release: Opened) -> None:
    refused = run("correlate", release.folder.path, "age", "pressure")
    assert refused.exit_code == EXIT["InvalidInput"]
    assert refused.stderr == f"error: not in this release: pressure; it has {listed(release.release.spec.released)}\n"
    refused = run("correlate", release.folder.path, "age", "Glucos")
    assert refused.stderr == "error: not in this release: Glucos; did you mean 'glucose'?\n"


@pytest.mark.parametrize("name", BEYOND)
def test_what_second_moments_cannot_give_is_refused_with_the_reason(name: str, run: Run) -> None:
    refused = run(name, "00000000", "glucose")
    assert refused.exit_code == EXIT["InvalidInput"]
    assert refused.stderr == f"error: {BEYOND[name]}\n"
    assert "before the release" in BEYOND[name]
    assert name in run("--help").output


def test_a_release_of_rows_is_refused(folder: ReleaseFolder, world: World, tmp_path: Path) -> None:
    home = ["--home", str(tmp_path / "home")]
    root = ["--root", str(world.root_path), "--hub", "localhost:1", "--yes"]
    CliRunner().invoke(main, [*home, "trust", "add", CONSORTIUM, *root])
    refused = CliRunner().invoke(main, [*home, "analyze", "correlate", str(folder.path), "age", "glucose"])
    assert refused.exit_code == EXIT["InvalidInput"]
    assert "mechanism 'mixed' has rows, not moments; ask for one of 'moments'" in refused.stderr


def test_an_outcome_apart_is_refused(tmp_path: Path) -> None:
    release = opened(World(tmp_path, COLUMNS[3]), tmp_path, rows=3000, outcomes=("glucose",)).release
    with pytest.raises(InvalidInput, match="glucose is an outcome-only column"):
        analyses.nested(release, "glucose", ["age"])
    assert analyses.correlations(release, ["age", "smoker"]).tables["correlations"].names == ("age, smoker=yes",)
