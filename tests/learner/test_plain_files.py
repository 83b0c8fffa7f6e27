"""Plain files beside releases: numbers that read back to the released ones, and metadata that archives take."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from hashlib import sha256

import numpy as np
import pytest
import yaml

from dprelease.about import About
from dprelease.publication.beside import altered
from dprelease.publication.plain import CONSTANT
from dprelease.release.folder import ReleaseFolder
from dprelease.release.release import Release
from learner.hub.storage import Storage
from tests.learner.world import World, publish_to
from tests.support.specs import categorical, numeric

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit='"years", or so'), categorical("stage", "=1+1", "Z\u00fcrich", "I, II")),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"),),
}
ABOUT = About.model_validate(
    {
        "description": 'A "cohort", of two hospitals',
        "licence": "CC-BY-4.0",
        "creators": [{"name": "A. Author", "orcid": "0000-0002-1825-0097"}, {"name": "A clinic"}],
        "keywords": ["glucose"],
    }
)
Published = tuple[ReleaseFolder, Release]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Published]]:
    """Kind to its folder and verified release; one has outcome-only columns, and one says nothing of itself."""
    world = World(tmp_path_factory.mktemp("world"), COLUMNS)
    asked = {
        "moments": {"mechanism": "moments", "about": ABOUT},
        "outcomes": {"mechanism": "moments", "outcomes": ("glucose",), "about": ABOUT},
        "mixed": {"mechanism": "mixed", "about": ABOUT},
        "ranges": {"mechanism": "ranges", "about": ABOUT},
        "little noise": {"mechanism": "moments", "epsilon": 5000.0, "about": ABOUT},
        "bare": {"mechanism": "moments"},
    }
    found = {}
    with closing(Storage(tmp_path_factory.mktemp("hub"), 1 << 30)) as storage:
        for name, spec in asked.items():
            folder = publish_to(storage, world, world.sealed(name, rows=4000, **spec))
            found[name] = folder, folder.verify(world.root.certificate)
        yield found


def read(folder: ReleaseFolder, name: str) -> list[dict[str, str]]:
    text = (folder.path / name).read_bytes().decode()
    assert "\r" not in text
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("kind", ["moments", "outcomes"])
def test_moments_read_back_to_the_released_numbers(published: Mapping[str, Published], kind: str) -> None:
    folder, release = published[kind]
    view = release.products
    names = [CONSTANT, *view.names]
    lines = read(folder, "moments.csv")
    pairs = [(names.index(line["row"]), names.index(line["column"])) for line in lines]
    assert len(set(pairs)) == len(pairs)
    apart = set(np.flatnonzero(view.layout.outcome).tolist())
    assert set(pairs) == {
        (row, column)
        for row in range(len(names))
        for column in range(len(names))
        if (row not in apart and (column in apart or column >= row)) or (row == column and row in apart)
    }
    for line, (row, column) in zip(lines, pairs, strict=True):
        own = row == column
        wanted = view.own([row])[0] if own else view.between([row], [column])[0, 0]
        noise = view.noise_own([row])[0] if own else view.noise_between([row], [column])[0, 0]
        assert (float(line["sum"]), float(line["noise_sd"])) == (wanted, noise)


def test_rows_and_columns_read_back(published: Mapping[str, Published]) -> None:
    folder, release = published["mixed"]
    rows = [[float(cell) for cell in line.values()] for line in read(folder, "rows.csv")]
    np.testing.assert_array_equal(rows, release.scaled().values)
    columns = {line["name"]: line for line in read(folder, "columns.csv")}
    assert list(columns) == list(release.columns)
    assert (columns["age"]["unit"], columns["age"]["midpoint"]) == ('"years", or so', "60")
    assert columns["stage=I, II"]["column"] == "stage"


def test_metadata_name_the_files_the_licence_and_the_makers(published: Mapping[str, Published]) -> None:
    folder, release = published["moments"]
    croissant = json.loads((folder.path / "croissant.json").read_text())
    needed = "@context @type conformsTo description license name url creator datePublished distribution"
    assert set(needed.split()) <= croissant.keys()
    package = json.loads((folder.path / "datapackage.json").read_text())
    for name, digest in [(each["contentUrl"], each["sha256"]) for each in croissant["distribution"]] + [
        (each["path"], each["hash"].removeprefix("sha256:")) for each in package["resources"]
    ]:
        assert sha256((folder.path / name).read_bytes()).hexdigest() == digest
    datacite = json.loads((folder.path / "datacite.json").read_text())
    assert {"identifiers", "creators", "titles", "publisher", "publicationYear", "types"} <= datacite.keys()
    assert datacite["creators"][0]["nameIdentifiers"][0]["nameIdentifier"] == "https://orcid.org/0000-0002-1825-0097"
    citation = yaml.safe_load((folder.path / "CITATION.cff").read_text())
    assert (citation["license"], citation["identifiers"][0]["value"]) == ("CC-BY-4.0", f"sha256:{release.digest}")
    readme = (folder.path / "README.txt").read_text()
    assert 'description: A "cohort", of two hospitals' in readme
    assert all(sentence in readme for sentence in release.guarantee)


def test_what_says_nothing_of_itself_has_tables_alone(published: Mapping[str, Published]) -> None:
    names = {path.name for path in published["bare"][0].path.iterdir() if path.is_file()}
    assert names == {"manifest.json", "manifest.sig", "index.html", "README.txt", "columns.csv", "moments.csv"}
    assert "croissant.json" in {path.name for path in published["ranges"][0].path.iterdir()}


def test_an_epsilon_whose_exponential_is_no_double_is_said(published: Mapping[str, Published]) -> None:
    assert "at most exp(epsilon) times as probable" in (published["little noise"][0].path / "index.html").read_text()


def test_an_altered_table_is_found_out(published: Mapping[str, Published]) -> None:
    folder, release = published["moments"]
    assert altered(folder, release) == ()
    path = folder.path / "moments.csv"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"age", b"wage", 1))
    assert altered(folder, release) == ("moments.csv",)
    path.write_bytes(whole)
