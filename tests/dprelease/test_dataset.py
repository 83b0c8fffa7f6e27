"""A loaded release does what its docstrings show, and notebooks display it."""

import doctest
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import dprelease
from dprelease import analyses, dataset
from dprelease.analyses.beyond import BEYOND
from dprelease.dataset import Dataset
from dprelease.description.columns import describe
from dprelease.document import shown
from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from tests.support.chains import chains
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, categorical, new_consortium, numeric, publish

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit="years"), categorical("smoker", "no", "yes")),
    "south": (numeric("glucose", 20.0, 300.0, unit="mg/dl"),),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Joint moments and a mixed release as files, and the root certificate beside them."""
    home, consortium = tmp_path_factory.mktemp("library"), new_consortium(*COLUMNS)
    for name, mechanism in (("blood-pressure", "moments"), ("rows", "mixed")):
        spec = build_spec(COLUMNS, keys=consortium.keys, mechanism=mechanism, rows=2000, outputs=20, title="<b>x</b>")
        published = publish(consortium, spec, SeededNoise(3))
        published.write(home / name)
        (home / "root.pem").write_text(published.root)
    return home


@pytest.fixture(scope="module")
def release(folder: Path) -> Dataset:
    return dprelease.load(folder / "blood-pressure", root=folder / "root.pem")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch):
    with chains(20, 10):
        yield


def test_examples_of_docstrings_run(folder: Path, release: Dataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    found = doctest.testmod(dataset, extraglobs={"release": release}, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
    assert found.attempted >= 9


def test_it_gives_what_the_functions_give(release: Dataset):
    np.testing.assert_array_equal(release.fit("glucose", ["age"]).coef, fit(release, ["glucose"], ["age"]).coef)
    assert str(release.describe("age")) == str(describe(release, ["age"]))
    table = release.analyze.correlations(["age", "glucose"])
    assert table.document() == analyses.correlations(release, ["age", "glucose"]).document()


def test_lists_and_names_are_told_apart(release: Dataset):
    for wrong in (
        lambda: release.analyze.correlations("age"),
        lambda: release.analyze.compare_groups("age", by="smoker"),
        lambda: release.analyze.principal_components(columns="age", count=1),
        lambda: release.fit("glucose", "age"),
    ):
        with pytest.raises(InvalidInput, match=r"give names as a list: \['(age|smoker)'\]"):
            wrong()
    with pytest.raises(InvalidInput, match=r"name of a column is text, not \['age'\]"):
        release.describe(["age"])  # type: ignore[arg-type]


def test_every_analysis_is_offered_and_no_other(release: Dataset):
    assert set(dir(release.analyze)) == set(analyses.__all__) - {"Analysis", "Survival", "SyntheticRows"}
    with pytest.raises(AttributeError, match="did you mean 'correlations'"):
        release.analyze.correlation  # noqa: B018
    with pytest.raises(AttributeError, match="Cox regression needs"):
        release.analyze.cox  # noqa: B018
    assert all(not hasattr(release.analyze, name) for name in BEYOND)


def test_data_frames_hold_the_released_numbers(folder: Path, release: Dataset):
    frame, moments = release.to_pandas(), release.moments()
    np.testing.assert_array_equal(frame.to_numpy(), moments.gram)
    assert list(frame.index) == list(frame.columns) == ["(constant)", *moments.names]
    assert frame.attrs["noise_sd"] == moments.noise_sd.tolist()
    rows = dprelease.load(folder / "rows", root=folder / "root.pem")
    assert rows.to_pandas()["age"].tolist() == rows.scaled().values[:, 0].tolist()


@pytest.mark.parametrize("package", ["pandas", "matplotlib"])
def test_what_a_missing_package_would_do_is_refused_with_what_to_install(
    release: Dataset, package: str, monkeypatch: pytest.MonkeyPatch
):
    model = release.fit("glucose", ["age"])
    asked = {
        "pandas": (release.to_pandas, model.to_frame),
        "matplotlib": (model.plot, release.plot.means, release.plot.correlations),
    }
    monkeypatch.setitem(sys.modules, package, None)
    for call in asked[package]:
        with pytest.raises(InvalidInput, match=f"this needs {package}, which is not installed.*pip install 'dprelease"):
            call()


def test_pictures_have_what_was_described(release: Dataset):
    found, axes = release.describe(), release.plot.correlations()
    np.testing.assert_array_equal(axes.images[0].get_array(), found.correlation)
    places = release.plot.means("age", "smoker=yes").lines[0].get_xdata()
    assert places == pytest.approx([found.mean[0] / 120, found.mean[2]])


def test_notebooks_display_markup_that_strangers_cannot_write(release: Dataset, monkeypatch: pytest.MonkeyPatch):
    for each in (
        release,
        release.describe(),
        release.fit("glucose", ["age"]),
        release.analyze.correlations(["age", "glucose"]),
    ):
        displayed = each._repr_html_()
        assert ElementTree.fromstring(f"<div>{displayed}</div>").find(".//table") is not None  # noqa: S314 - ours
        assert "<b>x</b>" not in displayed
    monkeypatch.setattr(shown, "installed", lambda package: False)
    assert release.describe()._repr_html_() is None
    assert "<table" not in release._repr_html_()


def test_without_what_fetches_a_folder_is_all(release: Dataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dataset, "entry_points", lambda group: ())
    with pytest.raises(InvalidInput, match="only a folder with root=FILE can be loaded"):
        dprelease.load("https://mirror.example.org", root="00" * 32)


def test_a_checkout_that_nobody_installed_loads_a_folder(folder: Path, release: Dataset):
    hidden = "import importlib.metadata as m; m.MetadataPathFinder.find_distributions = lambda *_: iter(())"
    places = f"{str(folder / 'blood-pressure')!r}, {str(folder / 'root.pem')!r}"
    asked = f"import dprelease; print(dprelease.load({places}).digest)"
    words = [sys.executable, "-c", f"{hidden}; {asked}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == release.digest
    assert dprelease.__version__ == version("dprelease")
