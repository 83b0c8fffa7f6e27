"""Exports of joint moments: the matrix as it was released, and rows on which any tool's least squares come out right."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.estimators.evidence.evidence import Evidence
from learner.client.library import Opened
from learner.export.matrix import matrix, rows
from learner.export.table import CONSTANT, NOISE_PREFIX, WRITERS, ExportTable
from tests.learner.moments import COLUMNS, ROWS, VARIABLES, opened, truth
from tests.learner.world import World

NAMES = (CONSTANT, *VARIABLES)
MIDPOINT = np.array([0.0, 60.0, 0.5, 16.0, 0.0, 0.0, 0.0])
HALF_WIDTH = np.array([1.0, 60.0, 0.5, 14.0, 1.0, 1.0, 1.0])


@pytest.fixture(scope="module", params=[1, 2, 3])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    folder = tmp_path_factory.mktemp("moments")
    return opened(World(folder, COLUMNS[request.param]), folder)


# The matrix.


def test_the_matrix_is_what_was_released(release: Opened) -> None:
    made, moments = matrix(release), release.release.moments()
    assert made.names == NAMES
    assert np.array_equal(made.values, moments.gram)
    assert np.array_equal(made.noise_sd, moments.noise_sd)
    off = np.abs(made.values - np.array(truth(release.release.spec)))
    assert (off[made.noise_sd == 0] == 0).all()
    assert (off <= 5 * made.noise_sd).all()
    assert (off > 0).any()
    assert made.values[0, 0] == made.values[2, 2] == ROWS  # the constant, and a binary coded +-1


Read = tuple[list[str], np.ndarray, np.ndarray, dict[str, Any]]


def square(path: Path) -> tuple[list[str], np.ndarray]:
    with path.open(newline="") as file:
        (corner, *header), *lines = csv.reader(file)
    assert corner == "name"
    assert [name for name, *_ in lines] == header
    return header, np.array([[float(cell) for cell in cells] for _, *cells in lines])


def read_csv(path: Path) -> Read:
    names, values = square(path)
    beside, noise_sd = square(path.with_name(f"{path.name}.noise.csv"))
    assert beside == names
    return names, values, noise_sd, json.loads(path.with_name(f"{path.name}.json").read_text())


def read_npz(path: Path) -> Read:
    with np.load(path, allow_pickle=False) as arrays:
        metadata = json.loads(str(arrays["metadata"]))
        for plural, fact in (("units", "unit"), ("midpoint", "midpoint"), ("half_width", "half_width")):
            assert arrays[plural].tolist() == [column[fact] for column in metadata["columns"]]
        return arrays["names"].tolist(), arrays["values"], arrays["noise_sd"], metadata


def read_parquet(path: Path) -> Read:
    read = pq.read_table(path)
    names = read["name"].to_pylist()
    assert read.column_names == ["name", *names, *(f"{NOISE_PREFIX}{name}" for name in names)]
    values, noise_sd = (
        np.column_stack([read[f"{prefix}{name}"].to_numpy() for name in names]) for prefix in ("", NOISE_PREFIX)
    )
    metadata = json.loads(read.schema.metadata[b"dprelease"])
    for column in metadata["columns"]:
        assert read.schema.field(column["name"]).metadata[b"unit"].decode() == column["unit"]
    return names, values, noise_sd, metadata


MATRIX_READERS = {"csv": read_csv, "npz": read_npz, "parquet": read_parquet}


@pytest.mark.parametrize("kind", WRITERS)
def test_matrices_read_back_equal(release: Opened, tmp_path: Path, kind: str) -> None:
    made: ExportTable = matrix(release)
    path = tmp_path / f"moments.{kind}"
    WRITERS[kind](made, path)
    names, values, noise_sd, metadata = MATRIX_READERS[kind](path)
    assert tuple(names) == made.names
    assert np.array_equal(values, made.values)
    assert np.array_equal(noise_sd, made.noise_sd)
    assert metadata == made.metadata


# The rows.


def in_original_units(gram: np.ndarray) -> np.ndarray:
    """The Gram matrix of (1, midpoint + half_width * z)."""
    change = np.diag(HALF_WIDTH)
    change[0] = np.append(1.0, MIDPOINT[1:])
    return change.T @ gram @ change


def test_rows_have_the_repaired_moments(release: Opened) -> None:
    made = rows(release)
    expected = in_original_units(ROWS * Evidence(release.release.moments()).likely()) / ROWS
    assert made.names == NAMES
    assert made.values.shape == (len(NAMES), len(NAMES))
    assert (made.values[:, 0] == 1).all()
    mean, covariance = made.values.mean(axis=0), np.cov(made.values[:, 1:].T, ddof=0)
    assert mean == pytest.approx(expected[0], rel=1e-12)
    outer = np.outer(expected[0, 1:], expected[0, 1:])
    spread = np.sqrt(np.diag(expected[1:, 1:] - outer))
    off = np.abs(covariance - (expected[1:, 1:] - outer)) / np.outer(spread, spread)
    assert off.max() < 1e-10


@pytest.mark.parametrize(
    ("target", "features"),
    [
        ("glucose", ["age", "smoker=yes", "stage=I", "stage=II"]),
        ("age", ["glucose", "stage=II"]),
        ("smoker=yes", ["age", "glucose", "stage=I", "stage=other"]),
    ],
)
def test_least_squares_on_rows_are_those_on_the_repaired_matrix(
    release: Opened, target: str, features: list[str]
) -> None:
    made = rows(release)
    gram = in_original_units(ROWS * Evidence(release.release.moments()).likely())
    x = [0, *(NAMES.index(feature) for feature in features)]
    expected = np.linalg.solve(gram[np.ix_(x, x)], gram[x, NAMES.index(target)])
    table = made.values
    found, *_ = np.linalg.lstsq(table[:, x], table[:, NAMES.index(target)])
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)
    statsmodels = pytest.importorskip("statsmodels.api")
    fitted = statsmodels.OLS(table[:, NAMES.index(target)], table[:, x]).fit()
    assert fitted.params == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_rows_say_what_they_are_not(release: Opened) -> None:
    made = rows(release)
    meaning = made.metadata["meaning_of_rows"]
    for words in ("Rows are not patients", "n is not the number of rows", "standard errors", "meaningless"):
        assert words in meaning
    assert meaning in made.sentence()
    assert (made.metadata["rows"], made.metadata["patients"]) == (len(NAMES), ROWS)
    assert made.metadata["rank"] == len(VARIABLES) - 1  # the levels of one category add up to 1
    noise_sd = matrix(release).noise_sd[0] * HALF_WIDTH / ROWS
    assert [column["mean_noise_sd"] for column in made.metadata["columns"]] == pytest.approx(noise_sd)
    assert made.metadata["trust"] == list(release.manifest.trust)
