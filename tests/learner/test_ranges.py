"""The commands on a release of ranges: what each says of the columns, and that nothing is fitted on it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.ranges import GuessedNoise
from dprelease.description.columns import BELOW, CLIPPED, NORMAL, NOT_CLIPPED, describe
from dprelease.description.ranges import BOUNDED, describe_ranges
from dprelease.document.cells import Estimate
from dprelease.document.text import text
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence import evidence
from dprelease.mechanisms.ranges.mechanism import RECOMPUTED
from dprelease.mechanisms.ranges.terms import CELLS
from dprelease.privatization import privatize
from dprelease.release.release import Release
from learner.client.library import Opened
from tests.learner.moments import opened
from tests.learner.pages import LEVELS, TITLE, UNIT, parsed
from tests.learner.test_moments_cli import Run
from tests.learner.test_report import TAGS, words
from tests.learner.test_report import shown as shown_cells
from tests.learner.world import World
from tests.support.noise import SeededNoise
from tests.support.rounds import in_published_ranges, made_alone, ranges_first
from tests.support.specs import build_spec, categorical, numeric, one_block_each, random_rows

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit=UNIT), categorical("stage", *LEVELS)),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"),),
}


@pytest.fixture(scope="module")
def release(place: Path) -> Opened:
    return opened(World(place, COLUMNS), place, mechanism="ranges", title=TITLE)


def test_verify_recomputes_every_range(run: Run, release: Opened) -> None:
    shown = run("verify", release.folder.path)
    assert shown.exit_code == 0, shown.output
    assert RECOMPUTED in shown.output
    assert "centre and scale of 2 private numeric columns" in shown.output


def test_describe_has_means_spreads_and_quantiles_with_errors(run: Run, release: Opened) -> None:
    shown = run("describe", release.folder.path)
    assert shown.exit_code == 0, shown.output
    glucose = release.release.ranges().of("glucose")
    (line,) = [line for line in shown.output.splitlines() if line.startswith("glucose ")]
    told = [(glucose.mean, glucose.mean_error), (glucose.deviation, glucose.deviation_error)]
    for value, error in (*told, *zip(glucose.quantiles, glucose.quantile_errors, strict=True)):
        assert f" {Estimate(value, error).text} " in line
    assert "\x1b" not in shown.output
    found = json.loads(run("describe", release.folder.path, "--columns", "glucose", "--json").output)
    (column,) = found["columns"]
    assert column["mean"]["estimate"] == glucose.mean
    shares = ("5%", "25%", "50%", "75%", "95%")
    assert [column[share]["estimate"] for share in shares] == glucose.quantiles.tolist()
    assert len(column["below"]["share"]) == len(column["below"]["error"]) == 255
    assert column["range"] == glucose.range.model_dump(mode="json")
    refused = run("describe", release.folder.path, "--columns", "stage")
    assert refused.exit_code
    assert "no range of stage; it has those of age, glucose" in refused.output


def test_quantiles_beyond_what_was_counted_are_at_most_and_at_least(release: Opened) -> None:
    found = describe_ranges(release.release, ["glucose"])
    (glucose,) = found.columns
    piled = np.concatenate(
        [[0.0], np.linspace(0.2, 0.9, CELLS - 1), [1.0]]
    )  # a fifth and a tenth of the rows at the ends
    distribution = replace(glucose.distribution, monotone=piled, noise_sd=np.full(CELLS - 1, 0.01))
    document = replace(found, columns=(replace(glucose, distribution=distribution),)).document()
    shown = " ".join(text(document).split())
    assert "at most 2.1" in shown
    assert "at least 29.8" in shown
    assert BOUNDED in shown
    (column,) = document.to_json()["columns"]
    told = [column[share] for share in ("5%", "25%", "50%", "75%", "95%")]
    assert [each["said"] for each in told] == ["at most", "", "", "", "at least"]
    assert told[0]["estimate"] == pytest.approx(2 + 28 / CELLS)
    assert told[4]["estimate"] == pytest.approx(30 - 28 / CELLS)


def test_quantiles_that_noise_lets_be_anywhere_are_hidden(release: Opened) -> None:
    found = describe_ranges(release.release, ["glucose"])
    (glucose,) = found.columns
    drowned = replace(glucose, distribution=replace(glucose.distribution, noise_sd=np.full(CELLS - 1, 3.0)))
    document = replace(found, columns=(drowned,)).document()
    (line,) = [line for line in text(document).splitlines() if line.startswith("glucose ")]
    assert line.count("hidden") == 5
    assert "at most " not in line
    assert "at least " not in line
    (column,) = document.to_json()["columns"]
    told = [column[share] for share in ("5%", "25%", "50%", "75%", "95%")]
    assert [(each["said"], each["estimate"]) for each in told] == [("hidden", None)] * 5


@pytest.fixture(scope="module")
def two_rounds() -> Release:
    columns = {"north": (*COLUMNS["north"], *COLUMNS["south"])}
    spec = ranges_first(build_spec(columns, mechanism="moments", grid_bits=16, rows=2000))
    return made_alone(spec, random_rows(spec, "north"), SeededNoise(4))


def test_moments_of_two_rounds_are_described_with_the_ranges_of_the_first(two_rounds: Release) -> None:
    found = describe(two_rounds)
    assert [each.column.name for each in found.ranges] == ["age", "glucose"]
    first = {party: blocks[:1] for party, blocks in two_rounds.blocks.items()}
    clipping: Any = in_published_ranges(two_rounds.spec, first).terms
    assert tuple(each.range for each in found.ranges) == clipping.clipping.ranges
    glucose = found.ranges[1]
    assert f" {Estimate(glucose.mean, glucose.mean_error).text} " in text(found.document())
    data = describe(two_rounds, ["glucose", "stage"]).document().to_json()
    assert [(each["name"], each["range"]) for each in data["ranges"]] == [("glucose", glucose.range.model_dump())]
    assert len(data["columns"]) > 1


@pytest.fixture(scope="module")
def normal_rows() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(11)
    together = generator.normal(size=4000)
    age, glucose, height = (0.6 * together + 0.8 * generator.normal(size=4000) for _ in range(3))
    return {"age": 60 + 12 * age, "glucose": 8 + 1.5 * glucose, "height": 170 + 9 * height}


@pytest.fixture(scope="module")
def clipped(normal_rows: dict[str, np.ndarray]) -> Release:
    columns = (COLUMNS["north"][0], *COLUMNS["south"], numeric("height", 80.0, 240.0, unit="cm"))
    plain = build_spec({"north": columns}, mechanism="moments", grid_bits=16, rows=4000, epsilon=3.0)
    spec = ranges_first(plain, clip=0.0)
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # where noise is as large as this, nothing reaches further than it has to
        patch.setattr("dprelease.mechanisms.ranges.terms.guess", lambda *_: GuessedNoise(1.0, 100.0))
        release = made_alone(spec, BoundedRows(bound(normal_rows, columns, 16), columns, 16), SeededNoise(4))
        assert {each.range.reach for each in (release.first_ranges or release.ranges()).columns} == {0}
        assert release.moments().clipping is not None
    return release


def test_means_spreads_and_correlations_of_normal_rows_before_clipping(
    clipped: Release, normal_rows: dict[str, np.ndarray]
) -> None:
    """Within four of its errors and .01, for what is worked out to first order; without the correction far beyond."""
    rows = np.column_stack(list(normal_rows.values()))
    plain, found = describe(clipped), describe(clipped, clipping_corrected=True)
    truth = np.corrcoef(rows.T)
    assert (np.abs(found.mean - rows.mean(axis=0)) < 4 * found.mean_noise_sd + 0.01 * rows.std(axis=0)).all()
    assert (
        np.abs(found.deviation / rows.std(axis=0) - 1) < 4 * found.deviation_noise_sd / rows.std(axis=0) + 0.01
    ).all()
    assert found.correlation is not None
    assert found.correlation_noise_sd is not None
    assert plain.correlation is not None
    assert (np.abs(found.correlation - truth) < 4 * found.correlation_noise_sd + 0.01).all()
    assert (plain.deviation < 0.87 * rows.std(axis=0)).all()
    assert (np.abs(plain.correlation - truth)[np.triu_indices(3, 1)] > 0.05).all()
    # What ranges do not say for sure of how much was clipped is in the errors.
    assert (found.deviation_noise_sd > 1.2 * plain.deviation_noise_sd).all()
    assert (found.deviation_noise_sd < 0.06 * rows.std(axis=0)).all()


def test_of_a_release_too_wide_for_draws_the_same(
    clipped: Release, normal_rows: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "WIDEST", 2)
    rows = np.column_stack(list(normal_rows.values()))
    plain, found = describe(clipped), describe(clipped, clipping_corrected=True)
    np.testing.assert_allclose(found.deviation, rows.std(axis=0), rtol=0.1)
    assert (found.mean_noise_sd > 1.05 * plain.mean_noise_sd).all()
    assert (np.abs(found.mean - rows.mean(axis=0)) < 4 * found.mean_noise_sd + 0.01 * rows.std(axis=0)).all()


def test_a_description_says_which_rows_it_is_about(clipped: Release) -> None:
    for clipping_corrected, sentence in ((False, CLIPPED), (True, NORMAL)):
        found = describe(clipped, ["age", "glucose"], clipping_corrected=clipping_corrected)
        assert found.rows[:2] == (sentence, BELOW)
        apart = [row.partition(":")[0] for row in found.rows[2:]]
        assert clipping_corrected or apart == ["age"]
        for row in found.rows[2:]:
            assert "before clipping" in row
            assert row.endswith("Use the former for all records.")
        assert sentence in text(found.document())
        data = found.document().to_json()
        assert data["clipping_corrected"] is clipping_corrected
        assert set(found.rows) <= set(data["notes"])
        assert data["columns"][0]["standard_deviation"]["estimate"] == found.deviation[0]


def test_where_rows_are_not_clipped_there_is_nothing_to_correct_for(run: Run, release: Opened) -> None:
    refused = run("describe", release.folder.path, "--clipping-corrected")
    assert refused.exit_code
    assert NOT_CLIPPED in refused.output
    spec = build_spec({"north": COLUMNS["south"]}, mechanism="moments")
    (block,) = privatize(random_rows(spec, "north"), spec, "north", SeededNoise(4))
    with pytest.raises(InvalidInput, match=NOT_CLIPPED):
        describe(one_block_each(spec, {"north": block}), clipping_corrected=True)


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "--target", "age"),
        ("card", "--target", "age"),
        ("report", "--target", "age", "--output", "page.html"),
        ("export", "--format", "csv", "--output", "release.csv"),
    ],
)
def test_nothing_else_is_made_of_it(run: Run, release: Opened, command: tuple[str, ...], tmp_path: Path) -> None:
    name, *options = command
    asked = [str(tmp_path / each) if "." in each else each for each in options]
    refused = run(name, release.folder.path, *asked)
    assert refused.exit_code
    assert "a release of ranges says nothing on how columns go together" in refused.output
    assert not list(tmp_path.iterdir())


def test_the_page_has_every_column_s_distribution(run: Run, release: Opened, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    shown = run("report", release.folder.path, "--output", path)
    assert shown.exit_code == 0, shown.output
    assert "ranges of 2 columns" in shown.output
    written = path.read_text()
    tree = parsed(written)
    assert {node.tag for node in tree.iter()} <= TAGS
    assert written.count("<script") == written.count("<img") == 0
    assert [words(next(plot.iter("title"))) for plot in tree.iter("svg")] == [
        "Distribution of age",
        "Distribution of glucose",
    ]
    glucose = release.release.ranges().of("glucose")
    told = [(glucose.mean, glucose.mean_error), (glucose.deviation, glucose.deviation_error)]
    told += zip(glucose.quantiles, glucose.quantile_errors, strict=True)
    cells = shown_cells(tree, "Means, standard deviations and quantiles, errors in brackets")["glucose"]
    assert cells[:7] == [Estimate(*each).text for each in told]
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    assert {node.get("href", "#")[1:] for node in tree.iter("a")} <= set(ids)
