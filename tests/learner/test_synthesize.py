"""`learner synthesize` on a published release: rows, the file of cautions, the page, and what is refused."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.analyses.synthetic import APART, FEW, NOBODYS, ONE_SET, POOR, RARE, SCORED, THIRD, synthesize
from dprelease.description.columns import describe
from dprelease.errors import InvalidInput
from dprelease.estimators.joint.fit import price_of
from dprelease.one_line import listed
from dprelease.report.synthetic_page import synthetic_page
from learner.client.library import Opened
from learner.export.synthetic import SET, sidecar
from tests.dprelease.analyses import releases
from tests.learner.commands import EXIT, Run, runner
from tests.learner.moments import COLUMNS, SMOKER, STAGE, opened
from tests.learner.pages import LEVELS, hostile, parsed
from tests.learner.world import World
from tests.support.specs import categorical, numeric

ROWS = 400


@pytest.fixture(scope="module")
def release(place: Path) -> Opened:
    return opened(World(place, COLUMNS[3]), place)


def test_rows_have_peoples_levels_and_say_that_they_are_nobodys(run: Run, release: Opened, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    asked = ("synthesize", release.folder.path, "--rows", ROWS, "--output", out)
    shown = run(*asked)
    assert shown.exit_code == 0, shown.output
    assert NOBODYS in " ".join(shown.output.split())
    first = out.read_bytes()
    header, *lines = csv.reader(first.decode().splitlines())
    assert header == ["age", "smoker", "glucose", "stage"]
    assert len(lines) == ROWS
    assert {line[1] for line in lines} <= {"yes", "other"}
    assert {line[3] for line in lines} <= {"I", "II", "other"}
    assert all(0 <= float(line[0]) <= 120 for line in lines)
    beside = json.loads(out.with_name("rows.csv.json").read_text())
    assert list(beside)[:2] == ["note", "use"]
    assert (beside["note"], beside["use"]) == (NOBODYS, ONE_SET)
    assert beside["release"] == release.release.digest
    assert beside["guarantee"] == list(release.release.guarantee)
    assert beside["cautions"][2:] == list(synthesize(release.release, 1).cautions[2:])
    assert 0 < beside["chi2"] < 1.5
    page = out.with_name("rows.csv.html").read_text()
    parsed(page)
    assert "smoker and stage" in page
    refused = run(*asked)
    assert refused.exit_code == EXIT["InvalidInput"]
    assert "--force" in refused.output
    out.write_bytes(b"")
    assert run(*asked, "--force").exit_code == 0
    assert out.read_bytes() == first


def test_several_sets_stand_in_one_file_with_the_rule(run: Run, release: Opened, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    shown = run("synthesize", release.folder.path, "--rows", ROWS, "--sets", 2, "--output", out, "--json")
    assert shown.exit_code == 0, shown.output
    table = pq.read_table(out)
    assert table.column(SET).to_pylist() == [number for number in range(3) for _ in range(ROWS)]
    beside = json.loads(table.schema.metadata[b"dprelease"])
    assert "(1 + 1/2) * mean of (q_i - q)^2" in beside["use"]
    assert "reaches 4.30 roots of it" in beside["use"]  # Student's t of 2 degrees of freedom
    assert f"e^2 * {ROWS} / 3000" in beside["use"]
    assert beside["note"] == NOBODYS


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--rows", 5, "--output", "rows.txt"), "--output ends in .csv or .parquet"),
        (("--rows", 10**6, "--sets", 2, "--output", "rows.csv"), "ask for 1 to 1,000,000 rows"),
    ],
)
def test_what_cannot_be_is_refused(more: tuple[object, ...], words: str, run: Run, release: Opened) -> None:
    refused = run("synthesize", release.folder.path, *more)
    assert refused.exit_code == EXIT["InvalidInput"]
    assert words in refused.output
    assert not Path("rows.csv").exists()


def test_no_spreadsheet_takes_a_level_for_a_formula_and_parquet_has_it_as_it_is(tmp_path: Path) -> None:
    levels = ("=cmd|'/C calc'!A0", "-1 to 0", "+1+1")
    found = opened(World(tmp_path, {"north": (categorical("x", *levels), SMOKER)}), tmp_path)
    for name in ("rows.csv", "rows.parquet"):
        made = runner(tmp_path / "home")("synthesize", found.folder.path, "--rows", 200, "--output", tmp_path / name)
        assert made.exit_code == 0, made.output
    with (tmp_path / "rows.csv").open(newline="") as file:
        cells = [row[0] for row in csv.reader(file)][1:]
    assert {*cells} == {"'=cmd|'/C calc'!A0", "-1 to 0", "'+1+1", "other"}
    exact = pq.read_table(tmp_path / "rows.parquet")["x"].to_pylist()
    assert {*exact} == {*levels, "other"}
    assert [cell.removeprefix("'") for cell in cells] == exact
    assert {*json.loads((tmp_path / "rows.csv.json").read_text())["columns"][0]["values"]} == {*exact}


def test_a_hostile_release_gives_a_page_without_its_markup(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    made = synthesize(found.release, 50)
    page = synthetic_page(found.release, made, "again")
    assert "the line is the made-up rows. Hollow" in page
    assert not [each for each in parsed(page).iter() if each.tag in {"script", "img"}]
    assert "\x1b" not in page
    assert LEVELS[0] in dict(zip(made.names, made.columns(0), strict=True))["stage"]


def test_outcomes_have_no_table_with_each_other(tmp_path: Path) -> None:
    columns = {"north": (SMOKER, STAGE), "south": (categorical("died", "yes"), categorical("pain", "mild", "severe"))}
    found = opened(World(tmp_path, columns), tmp_path, outcomes=("died", "pain"))
    made = synthesize(found.release, 100)
    assert ("died", "pain") not in {pair.names for pair in made.pairs}
    assert len(made.pairs) == 5
    assert APART.format(names="died, pain") in made.cautions


def test_cautions_say_when_a_release_tells_little(release: Opened) -> None:
    """From 60 times the noise on, and up to a chi-square of 1.5 an entry."""
    made = synthesize(release.release, 10)
    joint, entries = made.joint, made.joint.entries
    assert made.cautions == (NOBODYS, ONE_SET, THIRD, SCORED.format(names="age, glucose"))
    assert joint.price == price_of(entries, "rows")

    def says(sentence: str, **changed: object) -> bool:
        other = replace(joint, entries=replace(entries, **changed))  # type: ignore[arg-type]
        return any(each.startswith(sentence.split("{")[0]) for each in replace(made, joint=other).cautions)

    assert [says(FEW, typical=entries.rows / ratio) for ratio in (59, 61)] == [True, False]
    chi2 = joint.residuals().chi2
    assert [says(POOR, noise=entries.noise * np.sqrt(chi2 / level)) for level in (1.49, 1.51)] == [False, True]


def test_a_column_alone_has_no_table_of_two(tmp_path: Path) -> None:
    found = opened(World(tmp_path, {"north": (SMOKER,)}), tmp_path)
    assert sidecar(found, synthesize(found.release, 10))["pairs"] == []


def test_cautions_and_description_name_the_same_levels() -> None:
    """In ranges a level has more noise than the numbers beside it: what is printed is the level's, and hides what it hides."""
    site = categorical("site", "a", "b", "c", "d")
    columns, n, noise = (numeric("age", 18, 90), SMOKER, site), 3000, (4.0, 70.0)
    random = np.random.default_rng(5)
    cells = {
        "age": random.normal(50, 12, n).clip(18, 90),
        "smoker": np.where(random.random(n) < 0.3, "yes", "no"),
        "site": random.choice(["a", "b", "c", "d", "e"], n, p=[0.6, 0.37, 0.01, 0.01, 0.01]),
    }
    whole = releases.released(columns, cells).moments().joint
    wide = np.maximum.outer(*[np.where(whole.layout.measured, *noise)] * 2)
    wide[0], wide[:, 0], wide[0, 0] = wide[1:].min(axis=0), wide[1:].min(axis=0), 0.0
    draw = np.triu(random.normal(size=wide.shape) * wide)
    release = releases.viewed(columns, replace(whole, gram=whole.gram + draw + np.triu(draw, 1).T, noise_sd=wide))
    made, told = synthesize(release, 200), describe(release)
    hidden = [name for name, each in zip(told.names, told.hidden, strict=True) if each]
    assert {*hidden} <= {"site=c", "site=d", "site=other"}
    assert RARE.format(names=listed(hidden)) in made.cautions
    assert made.document().facts["noise"] == "35 to 70 patients, of a level"
    assert FEW.format(ratio=n / noise[1], noise=noise[1]) in made.cautions


def test_rows_of_another_kind_of_release_are_refused(tmp_path: Path) -> None:
    mixed = opened(World(tmp_path, COLUMNS[2]), tmp_path, mechanism="mixed", rows=40)
    with pytest.raises(InvalidInput, match="rows, not moments"):
        synthesize(mixed.release, 10)
