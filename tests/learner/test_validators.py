"""What a hub publishes, read by the validators of its formats: mlcroissant and frictionless, of the extra `validators`.

`make check-published` installs both beside the project, where nothing else needs them, and runs this file.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from dprelease.about import About
from learner.hub.storage import Storage
from tests.learner.world import World, publish_to
from tests.support.specs import categorical, numeric

WANTED = "run by `make check-published`, which installs the extra `validators`"
mlcroissant = pytest.importorskip("mlcroissant", reason=WANTED)
frictionless = pytest.importorskip("frictionless", reason=WANTED)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the validators' own

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit='"years", or so'), categorical("stage", "=1+1", "Zürich", "I, II")),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"),),
}
CREATORS = (
    {"name": "A. Author", "orcid": "0000-0002-1825-0097"},
    {"name": "A clinic", "ror": "https://ror.org/05a28rw58"},
    {"name": "Another clinic"},
)
FULL = {
    "description": 'A "cohort", of two hospitals',
    "licence": "CC-BY-4.0",
    "creators": CREATORS,
    "contact": "data@example.org",
    "keywords": ["glucose", "Zürich"],
    "intended_use": "Teaching",
    "period": "2015/2019",
    "region": "Switzerland",
}
LEAST = {"description": "Ages", "licence": "LicenseRef-Own-1.0", "creators": CREATORS[2:]}
ASKED = {
    "moments": {"mechanism": "moments", "about": FULL},
    "outcomes": {"mechanism": "moments", "outcomes": ("glucose",), "about": LEAST},
    "mixed": {"mechanism": "mixed", "about": FULL},
    "ranges": {"mechanism": "ranges", "about": FULL},
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Path]]:
    """Kind to its published folder."""
    world = World(tmp_path_factory.mktemp("world"), COLUMNS)
    with closing(Storage(tmp_path_factory.mktemp("hub"), 1 << 30)) as storage:
        yield {
            kind: publish_to(
                storage,
                world,
                world.sealed(kind, rows=4000, **{**asked, "about": About.model_validate(asked["about"])}),
            ).path
            for kind, asked in ASKED.items()
        }


@pytest.mark.parametrize("kind", ASKED)
def test_croissant_has_nothing_to_correct_and_gives_the_records(published: Mapping[str, Path], kind: str) -> None:
    folder = published[kind]
    found = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert "/croissant/1.1" in str(found.metadata.conforms_to)
    issues = found.metadata.ctx.issues
    assert (list(issues.errors), list(issues.warnings)) == ([], [])
    tables = {path.stem: path for path in folder.glob("*.csv")}
    assert {each.uuid for each in found.metadata.record_sets} == tables.keys()
    for each in found.metadata.record_sets:
        names = {field.uuid: field.name for field in each.fields}
        lines = list(csv.DictReader(tables[each.uuid].read_text().splitlines()))
        records = [{names[key]: value for key, value in record.items()} for record in found.records(each.uuid)]
        assert len(records) == len(lines) > 0
        for line, record in zip(lines, records, strict=True):
            wanted = {key: _wanted(value, record[key]) for key, value in line.items()}
            assert {key: _read(value) for key, value in record.items()} == wanted


def _read(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    return None if value != value else value


def _wanted(text: str, like: object) -> object:
    if isinstance(like, float):
        return float(text) if text else None
    return text or None if like is None else text


@pytest.mark.parametrize("kind", ASKED)
def test_frictionless_finds_every_cell_of_its_type(published: Mapping[str, Path], kind: str) -> None:
    report = frictionless.validate(str(published[kind] / "datapackage.json"))
    assert report.flatten(["type", "note"]) == []
    assert report.valid
    assert {task.name for task in report.tasks} == {path.stem for path in published[kind].glob("*.csv")}


def test_validators_find_what_is_wrong(published: Mapping[str, Path], tmp_path: Path) -> None:
    """A text where a number belongs, a digest of other bytes, a table that is not there."""
    for path in published["moments"].iterdir():
        if path.suffix in {".csv", ".json"}:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    table = tmp_path / "moments.csv"
    lines = table.read_text().splitlines()
    lines[1] = ",".join([*lines[1].split(",")[:2], "many", "1"])
    table.write_text("\n".join(lines) + "\n")
    found = {kind for (kind,) in frictionless.validate(str(tmp_path / "datapackage.json")).flatten(["type"])}
    assert {"type-error", "hash-count"} <= found
    path = tmp_path / "croissant.json"
    described = json.loads(path.read_text())
    described["recordSet"][0]["field"][0]["source"]["fileObject"]["@id"] = "nowhere.csv"
    path.write_text(json.dumps(described))
    with pytest.raises(mlcroissant.ValidationError, match=r"nowhere\.csv"):
        mlcroissant.Dataset(jsonld=str(path))
