"""Exports read back equal, and say what their rows are."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from learner.client.library import Opened
from learner.export.table import CONSTANT, WRITERS, ExportTable, table
from tests.learner.world import World, stored, verified


@pytest.fixture(params=["mixed", "rows"])
def opened(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Opened:
    folder = stored(tmp_path / "storage", world, world.sealed(mechanism=request.param, delta=1e-3))
    return verified(folder, world, tmp_path / "home")


def test_the_table_is_the_scaled_release_behind_its_constant(opened: Opened) -> None:
    made, scaled = table(opened), opened.release.scaled()
    assert made.names == (CONSTANT, *scaled.names)
    assert np.array_equal(made.values[:, 0], scaled.ones)
    assert np.array_equal(made.values[:, 1:], scaled.values)
    columns = made.metadata["columns"]
    assert [column["name"] for column in columns] == list(made.names)
    assert [column["noise_sd"] for column in columns] == [0.0, *scaled.noise_sd.tolist()]
    age = next(column for column in columns if column["name"] == "age")
    assert (age["unit"], age["midpoint"], age["half_width"]) == ("years", 60.0, 60.0)
    assert "not patients" in made.metadata["meaning_of_rows"]
    assert made.metadata["release"] == opened.release.digest
    assert made.metadata["guarantee"] == list(opened.release.guarantee)
    assert made.metadata["released_rows"] == opened.release.spec.blocks("north")[0].rows


def read_csv(path: Path) -> tuple[list[str], np.ndarray, dict[str, object]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    metadata = json.loads(path.with_name(path.name + ".json").read_text())
    return header, np.array([[float(cell) for cell in row] for row in rows]), metadata


def read_npz(path: Path) -> tuple[list[str], np.ndarray, dict[str, object]]:
    with np.load(path, allow_pickle=False) as arrays:
        metadata = json.loads(str(arrays["metadata"]))
        columns = metadata["columns"]
        for name in ("noise_sd", "midpoint", "half_width"):
            assert arrays[name].tolist() == [column[name] for column in columns]
        assert arrays["units"].tolist() == [column["unit"] for column in columns]
        return arrays["names"].tolist(), arrays["values"], metadata


def read_parquet(path: Path) -> tuple[list[str], np.ndarray, dict[str, object]]:
    read = pq.read_table(path)
    metadata = json.loads(read.schema.metadata[b"dprelease"])
    for field, column in zip(read.schema, metadata["columns"], strict=True):
        assert {key.decode(): value.decode() for key, value in field.metadata.items()} == {
            key: str(value) for key, value in column.items()
        }
    return read.column_names, np.column_stack([column.to_numpy() for column in read.columns]), metadata


READERS = {"csv": read_csv, "npz": read_npz, "parquet": read_parquet}


@pytest.mark.parametrize("kind", WRITERS)
def test_exports_read_back_equal(opened: Opened, tmp_path: Path, kind: str) -> None:
    made: ExportTable = table(opened)
    path = tmp_path / f"release.{kind}"
    WRITERS[kind](made, path)
    names, values, metadata = READERS[kind](path)
    assert tuple(names) == made.names
    assert np.array_equal(values, made.values)
    assert metadata == made.metadata
