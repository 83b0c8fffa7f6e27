"""The commands on releases with outcome-only columns: three hospitals in full privacy, and one with public features."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dprelease
from dprelease.analyses import missing_cells
from dprelease.errors import InvalidInput
from dprelease.estimators import LinearRegression, fit
from dprelease.mechanisms.moments.released import OutcomeMoments
from dprelease.report import page
from learner.cli.main import main
from learner.client.library import Opened
from learner.export.matrix import SQUARES, matrix, rows
from learner.export.table import CONSTANT
from tests.learner.commands import Run
from tests.learner.moments import AGE, COLUMNS, GLUCOSE, ROWS, opened, truth
from tests.learner.pages import report
from tests.learner.world import World
from tests.support.specs import categorical, numeric

OUTCOMES = ("glucose", "stage")
FEATURES = ("age", "smoker=yes")
OPEN = {
    "north": (AGE.model_copy(update={"public": True}), categorical("site", "A", "B", public=True)),
    "south": (GLUCOSE, numeric("bmi", 10.0, 60.0, unit="kg/m2")),
}


@pytest.fixture(scope="module")
def full(place: Path) -> Opened:
    """Three hospitals, nothing public."""
    return opened(World(place, COLUMNS[3]), place, outcomes=OUTCOMES, epsilon=20.0)


@pytest.fixture(scope="module")
def label(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """All features public at the north."""
    folder = tmp_path_factory.mktemp("label")
    return opened(World(folder, OPEN), folder, outcomes=("glucose", "bmi"), guarantee="label-DP")


def outcome_only(opened: Opened) -> OutcomeMoments:
    found = opened.release.products
    assert isinstance(found, OutcomeMoments)
    return found


def test_describe_has_all_columns_and_correlations_of_features(run: Run, full: Opened) -> None:
    facts = json.loads(run("describe", full.folder.path, "--json").output)
    found = {column["name"]: column for column in facts["columns"]}
    assert list(found) == [each for each in full.release.spec.released if each != "smoker=other"]
    exact, n = np.array(truth(full.release.spec)), ROWS
    for name, index, middle, half in (("glucose", 3, 16.0, 14.0), ("stage=II", 5, 0.0, 1.0), ("age", 1, 60.0, 60.0)):
        own = found[name]
        mean, deviation = own["mean"], own["standard_deviation"]
        assert mean["standard_error"] > 0
        assert abs(mean["estimate"] - (middle + half * exact[0, index] / n)) < 5 * mean["standard_error"]
        spread = half * np.sqrt(exact[index, index] / n - (exact[0, index] / n) ** 2)
        assert abs(deviation["estimate"] - spread) < 5 * deviation["standard_error"]
    assert facts["correlated"] == ["age", "smoker=yes"]
    assert np.array(facts["correlation"]).shape == (2, 2)
    shown = run("describe", full.folder.path)
    assert shown.exit_code == 0, shown.output
    assert "correlation with" in shown.output
    assert "Outcome-only columns have no correlations" in shown.output
    alone = run("describe", full.folder.path, "--columns", "glucose")
    assert alone.exit_code == 0, alone.output
    assert "correlation with" not in alone.output


def test_a_fit_takes_all_outcomes_unless_told(run: Run, full: Opened, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    shown = run("fit", full.folder.path, "--output", path)
    assert shown.exit_code == 0, shown.output
    made = json.loads(path.read_text())
    assert made["targets"] == ["glucose", "stage=I", "stage=II", "stage=other"]
    assert made["features"] == ["age", "smoker=yes"]
    assert "variance explained" in shown.output
    one = run("fit", full.folder.path, "--target", "glucose", "--features", "age", "--json")
    assert json.loads(one.output)["targets"] == ["glucose"]
    refused = run("fit", full.folder.path, "--target", "age", "--features", "glucose")
    assert refused.exit_code == 2
    assert "glucose cannot be a feature: it is an outcome of this release" in refused.output


def test_a_fit_without_target_needs_a_release_that_names_outcomes(tmp_path: Path) -> None:
    made = opened(World(tmp_path, COLUMNS[2]), tmp_path, rows=200)
    shown = CliRunner().invoke(main, ["--home", str(tmp_path / "home"), "fit", str(made.folder.path)])
    assert shown.exit_code == 2
    assert "name at least one target out of age" in shown.output


def test_classes_and_load_take_such_releases(full: Opened, tmp_path: Path) -> None:
    root = tmp_path / "root.pem"
    root.write_text(full.consortium.root)
    release = dprelease.load(full.folder.path, root=root)
    found = LinearRegression().fit(release, targets=["glucose", "stage"])
    assert found.coef_.shape == (4, 2)
    assert np.array_equal(found.coef_, fit(full.release, OUTCOMES).coef)
    assert found.result_.inference.estimate.shape == (4, 2)


def test_the_matrix_has_features_and_the_constant_as_rows(full: Opened) -> None:
    made, moments = matrix(full), outcome_only(full)
    assert made.names == (CONSTANT, "age", "smoker=yes", "glucose", "stage=I", "stage=II", "stage=other")
    assert made.row_names == (CONSTANT, *FEATURES, SQUARES)
    exact = np.array(truth(full.release.spec))
    whole = np.vstack([exact[:3], np.diag(exact)])
    assert (np.abs(made.values - whole) <= 5 * made.noise_sd).all()
    assert (made.values[made.noise_sd == 0] == whole[made.noise_sd == 0]).all()
    assert np.array_equal(made.values[-1], moments.squares)
    assert SQUARES in made.metadata["meaning_of_entries"]
    assert "a matrix, 4 x 7" in made.sentence()


def test_there_are_no_rows_with_moments_that_are_not_known(run: Run, full: Opened, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="products of two outcomes are not released"):
        rows(full)
    export = ("export", full.folder.path, "--format", "csv", "--output", tmp_path / "m.csv")
    assert run(*export, "--as", "rows").exit_code == 2
    assert run(*export).exit_code == 0


@pytest.mark.parametrize(("indicators", "on"), [(["stage=II"], []), (["smoker"], ["stage"])])
def test_missing_cells_of_outcomes_are_refused_by_name(full: Opened, indicators: list[str], on: list[str]) -> None:
    with pytest.raises(InvalidInput, match="stage is an outcome-only column"):
        missing_cells(full.release, indicators, on)


def test_public_features_are_exact_and_fits_use_them(label: Opened) -> None:
    moments = outcome_only(label)
    inner = ~moments.layout.outcome
    exact = np.array(truth(label.release.spec))
    np.testing.assert_allclose(moments.across[:, inner], exact[np.ix_(inner, inner)], rtol=1e-12)
    assert not moments.across_sd[:, inner].any()
    made = fit(label.release, ["glucose", "bmi"])
    assert made.features == ("age", "site=B", "site=other")
    assert any("label-DP" in sentence for sentence in made.promise.guarantee)
    assert np.isfinite(made.coef).all()
    shown = page(report(label, ()))
    assert "The released features carry no noise to compare with." in shown
