"""Plain files beside releases: numbers that read back to the released ones, and metadata that archives take."""

import csv
import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from dprelease.about import About
from dprelease.data.columns import numbers
from dprelease.description.described import described
from dprelease.document.text import text
from dprelease.mechanisms.ranges.rounds import Row
from dprelease.publication import plain
from dprelease.publication.beside import compared, missing
from dprelease.publication.plain import CONSTANT, LAYOUT, README, plain_files
from dprelease.publication.registry import registry_record
from dprelease.release.folder import PAGE, ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release
from learner.cli.main import main
from learner.client.pinned_roots import TrustStore
from learner.hub.pages import mend
from learner.hub.storage import Storage
from tests.learner.commands import EXIT
from tests.learner.world import CONSORTIUM, World, publish_to
from tests.support.noise import SeededNoise
from tests.support.rounds import made_alone, ranges_first_without_bounds
from tests.support.specs import build_spec, categorical, numeric, random_rows

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit='"years", or so'), categorical("stage", "=1+1", "Z\u00fcrich", "I, II")),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"), numeric("score", 0.0, 20.0)),
}
ABOUT = About.model_validate(
    {
        "description": 'A "cohort", of two hospitals',
        "licence": "CC-BY-4.0",
        "creators": [{"name": "A. Author \U0001d4d0", "orcid": "0000-0002-1825-0097"}, {"name": "A clinic"}],
        "keywords": ["glucose"],
    }
)
MEANT = About.model_validate(
    {
        **ABOUT.model_dump(),
        "columns": {
            "glucose": {"label": "Fasting glucose", "concept": "LOINC:14771-0"},
            "score": {"unit": "points", "label": "=1+1"},
            "stage": {"label": "Stage"},
        },
    }
)
Published = tuple[ReleaseFolder, Release]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"), COLUMNS)


@pytest.fixture
def root(world: World) -> str:
    return world.root.certificate


@pytest.fixture(scope="module")
def published(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Published]]:
    """Kind to its folder and verified release; one has outcome-only columns, and one says nothing of itself."""
    asked = {
        "moments": {"mechanism": "moments", "about": ABOUT},
        "outcomes": {"mechanism": "moments", "outcomes": ("glucose",), "about": ABOUT},
        "mixed": {"mechanism": "mixed", "about": MEANT},
        "ranges": {"mechanism": "ranges", "about": MEANT},
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
    return read_csv((folder.path / name).read_bytes().decode())


def read_csv(text: str) -> list[dict[str, str]]:
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


def signed_steps(release: Release) -> dict[str, tuple[int, int, int]]:
    """Number to centre, half-width and power of its reach, from the signed integers of the blocks."""
    found = {}
    for part in release.spec.parties:
        own = [column.name for column in numbers(part.columns)]
        block = release.blocks[part.party][1 if any(not column.bounded for column in part.columns) else 0]
        for name, integers in zip(own, block.values, strict=True):
            row = Row.of(integers)
            found[name] = row.last.centre, 3 * row.last.scale * 5**row.reach // 4**row.reach, row.reach
    return found


def test_ranges_are_those_of_the_signed_integers(published: Mapping[str, Published]) -> None:
    folder, release = published["ranges"]
    spec = build_spec({"north": (*COLUMNS["north"], numeric("weight"))}, mechanism="moments", grid_bits=16, rows=2000)
    spec = ranges_first_without_bounds(spec, ("weight",))
    rounds = made_alone(spec, random_rows(spec, "north"), SeededNoise(4))
    tables = plain_files(rounds, Manifest.model_construct(published="2026-01-01T00:00:00Z"))
    later = read_csv(tables["ranges.csv"].decode())
    for lines, made in ((read(folder, "ranges.csv"), release), (later, rounds)):
        steps = signed_steps(made)
        assert [line["name"] for line in lines] == [column.name for column in numbers(made.spec.columns)]
        for line in lines:
            centre, half_width, power = steps[line["name"]]
            told = tuple(int(line[name]) for name in ("centre_steps", "half_width_steps", "reach_power"))
            assert told == (centre, half_width, power)
            low, high = float(line["bounds_lower"]), float(line["bounds_upper"])
            unit = (high - low) / 2 / 2**24
            middle, half = (low + high) / 2 + unit * centre, unit * half_width
            deviation = half / 3 / float(line["reach"])
            wanted = (middle - half, middle + half, middle, deviation, 1.25**power)
            shown = [float(line[name]) for name in ("lower", "upper", "mean", "standard_deviation", "reach")]
            np.testing.assert_allclose(shown, wanted, rtol=1e-9, atol=1e-9 * half)
    assert {line["name"]: line["unit"] for line in read(folder, "ranges.csv")}["glucose"] == "mmol/l"
    assert later[-1]["bounds_upper"] != "1"  # a box that the release found
    assert not (published["moments"][0].path / "ranges.csv").exists()


REGISTRY = {
    "": "url_slug deployment",
    "deployment": "basic dp_variant privacy_loss deployment_model implementation administrative",
    "basic": "name data_curators description intended_use data_product_type data_product_region data_product_sector "
    "publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details trust_assumptions actors release_type release_type_details "
    "data_source_type data_source_type_details access_type access_type_details",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification utility "
    "additional_information",
    "administrative": "evidence_sources status registry_authors tier",
}
"""Keys of the registry's record, section by section: it takes these and no others."""


@pytest.mark.parametrize("kind", ["moments", "mixed", "ranges"])
def test_the_registry_s_record_has_its_fields(published: Mapping[str, Published], kind: str) -> None:
    folder, release = published[kind]
    record = yaml.safe_load((folder.path / "registry.yaml").read_text(encoding="utf-8"))
    found = record["deployment"]
    sections = {"": record, "deployment": found, **found}
    assert {name: set(sections[name]) for name in REGISTRY} == {
        name: set(keys.split()) for name, keys in REGISTRY.items()
    }
    for section in list(found.values())[:5]:
        texts = {name: value for name, value in section.items() if name not in ("data_curators", "privacy_parameters")}
        assert all(isinstance(value, str) and value for value in texts.values()), texts
    basic, model, administrative = found["basic"], found["deployment_model"], found["administrative"]
    assert [each["data_curator_name"] for each in basic["data_curators"]] == ["trial", "north", "south"]
    assert basic["description"] == ABOUT.description
    assert basic["data_product_type"] == ("Dataset" if kind == "mixed" else "Summary statistics")
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", basic["publication_date"])
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    chosen = [model[name] for name in ("model_name", "release_type", "data_source_type", "access_type")]
    assert chosen == ["Federated", "One release", "Static", "Non-interactive"]
    assert (administrative["status"], administrative["tier"], administrative["registry_authors"]) == (
        "Draft",
        3,
        ["trial"],
    )
    assert release.digest in found["implementation"]["additional_information"]
    kinded = registry_record(release, ABOUT.model_copy(update={"curator": "Nonprofit"}), folder.manifest())
    assert yaml.safe_load(kinded)["deployment"]["basic"]["data_curators"] == [
        {"data_curator_name": "trial", "data_curator_type": "Nonprofit"}
    ]


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
    citation = yaml.safe_load((folder.path / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["authors"][0]["name"] == ABOUT.creators[0].name
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


def test_an_altered_table_is_found_out_and_one_of_another_layout_told_apart(
    published: Mapping[str, Published], root: str, tmp_path: Path
) -> None:
    made, release = published["moments"]
    folder = ReleaseFolder(Path(copytree(made.path, tmp_path / "copy")))
    TrustStore(tmp_path / "home").add(CONSORTIUM, root, "h:1")
    verify = ("--home", str(tmp_path / "home"), "verify", str(folder.path))
    assert compared(folder, release).altered == ()
    assert "follow from its signed bytes" in CliRunner().invoke(main, verify).output
    table, readme = folder.path / "moments.csv", folder.path / README
    table.write_bytes(table.read_bytes().replace(b"age", b"wage", 1))
    assert compared(folder, release).altered == ("moments.csv",)
    shown = CliRunner().invoke(main, verify)
    assert shown.exit_code == EXIT["IntegrityError"]
    assert "The signed release is genuine" in shown.output
    assert "altered beside the signed release: moments.csv" in shown.output
    for said, line in (("layout 1", b"Files (layout 1):"), ("no layout", b"Files:")):
        readme.write_bytes(re.sub(rb"Files.*:\n", line + b"\n", readme.read_bytes()))
        assert compared(folder, release).altered == ()
        shown = CliRunner().invoke(main, verify)
        words = " ".join(shown.output.split())
        assert shown.exit_code == 0
        assert f"README.txt says {said}, and this version makes layout {LAYOUT}" in words
        assert "it cannot check moments.csv, README.txt" in words


def test_labels_units_and_codes_stand_beside_columns(published: Mapping[str, Published]) -> None:
    folder, release = published["mixed"]
    lines = {line["name"]: line for line in read(folder, "columns.csv")}
    told = {name: (line["unit"], line["label"], line["concept"]) for name, line in lines.items()}
    assert told["glucose"] == ("mmol/l", "Fasting glucose", "LOINC:14771-0")
    assert told["score"] == ("points", "'=1+1", "")  # which a spreadsheet shows, and does not compute
    assert told["stage=I, II"] == ("", "Stage", "")
    croissant = json.loads((folder.path / "croissant.json").read_text())
    fields = {each["name"]: each for each in croissant["recordSet"][1]["field"]}
    assert fields["glucose"]["equivalentProperty"] == "https://loinc.org/14771-0"
    assert fields["score"]["description"] == "score: =1+1, points"
    package = json.loads((folder.path / "datapackage.json").read_text())
    fields = {each["name"]: each for each in package["resources"][1]["schema"]["fields"]}
    assert (fields["glucose"]["title"], fields["glucose"]["rdfType"]) == (
        "glucose: Fasting glucose, LOINC:14771-0",
        "https://loinc.org/14771-0",
    )
    page = (folder.path / "index.html").read_text()
    assert "Fasting glucose" in page
    assert '"propertyID": "https://loinc.org/14771-0"' in page
    ranges = {line["name"]: line["unit"] for line in read(published["ranges"][0], "ranges.csv")}
    assert (ranges["score"], ranges["glucose"]) == ("points", "mmol/l")
    for each in (release, published["ranges"][1]):
        shown = text(described(each, ()).document())
        assert "Fasting glucose, LOINC:14771-0" in shown
        assert "points" in shown
    assert not release.ranged


def test_a_file_that_cannot_be_made_or_is_gone_is_written_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "world").mkdir()
    world = World(tmp_path / "world", COLUMNS)
    sealed = world.sealed("one file fails", mechanism="moments", about=ABOUT)
    with closing(Storage(tmp_path / "hub", 1 << 30)) as storage:
        with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
            broken.setattr(plain, "_citation", lambda *_: 1 / 0)
            folder = publish_to(storage, world, sealed)
        (said,) = caplog.messages
        assert said == f"CITATION.cff of release {sealed.digest[:12]} cannot be written"
        assert missing(folder) == ("CITATION.cff",)
        (folder.path / "moments.csv").unlink()  # only the page says that there was one
        assert missing(folder) == ("CITATION.cff", "moments.csv")
        mend(storage, world.root.certificate)
        assert missing(folder) == compared(folder, folder.verify(world.root.certificate)).altered == ()
        assert 'href="CITATION.cff"' in (folder.path / PAGE).read_text()
