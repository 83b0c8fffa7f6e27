"""`learner deposit`: flat files for a repository, an archive that verifies, metadata of its form, and checksums."""

import json
import zipfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dprelease.about import About
from dprelease.release.folder import ReleaseFolder
from learner.hub.storage import Storage
from tests.learner.commands import EXIT, Run, runner
from tests.learner.world import CONSORTIUM, World, publish_to
from tests.support.web import Handler, serving

ABOUT: dict[str, Any] = {
    "description": "Blood & sugar",
    "licence": "CC-BY-4.0",
    "creators": [
        {"name": "Author, Anna", "orcid": "0000-0002-1825-0097"},
        {"name": "A clinic", "ror": "https://ror.org/05gq02987"},
    ],
    "keywords": ["glucose"],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def run(world: World, tmp_path_factory: pytest.TempPathFactory) -> Run:
    commands = runner(tmp_path_factory.mktemp("home"))
    nowhere = ("--mirror", "https://mirror.example.org", "--yes")
    assert commands("trust", "add", CONSORTIUM, "--root", world.root_path, *nowhere).exit_code == 0
    return commands


def published(world: World, storage: Path, **changes: Any) -> ReleaseFolder:
    about = About.model_validate(ABOUT | changes) if changes != {"about": None} else None
    with closing(Storage(storage, 1 << 30)) as hub:
        return publish_to(hub, world, world.sealed("A deposit", mechanism="moments", rows=4000, about=about))


def test_a_deposit_is_flat_and_its_archive_verifies_anywhere(world: World, run: Run, tmp_path: Path) -> None:
    release = published(world, tmp_path / "hub")
    to = tmp_path / "new" / "deposit"
    result = run("deposit", release.path, to, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert all(path.is_file() for path in to.iterdir())
    listed = dict(reversed(line.split("  ")) for line in (to / "SHA256SUMS").read_text().splitlines())
    assert listed == {
        name.name: sha256(name.read_bytes()).hexdigest() for name in to.iterdir() if name.name != "SHA256SUMS"
    }
    assert {each["name"]: (each["sha256"], each["bytes"]) for each in said["files"]} == {
        name: (digest, (to / name).stat().st_size) for name, digest in listed.items()
    }
    assert {"README.txt", "moments.csv", "croissant.json", "CITATION.cff", "metadata.json", "root.pem"} <= set(listed)
    assert [path.name for path in to.parent.iterdir()] == ["deposit"]
    (archive,) = to.glob("*.zip")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "unpacked")
    unpacked = tmp_path / "unpacked" / said["release"]
    names = {path.relative_to(release.path): path.read_bytes() for path in release.path.rglob("*") if path.is_file()}
    assert {path.relative_to(unpacked): path.read_bytes() for path in unpacked.rglob("*") if path.is_file()} == names
    assert ReleaseFolder(unpacked).verify((to / "root.pem").read_text()).digest == said["release"]
    again = tmp_path / "again"
    assert run("deposit", unpacked, again).exit_code == 0
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in to.iterdir()
    }


def test_metadata_are_those_of_a_draft(world: World, run: Run, tmp_path: Path) -> None:
    release = published(world, tmp_path / "hub")
    assert run("deposit", release.path, tmp_path / "deposit").exit_code == 0
    record = json.loads((tmp_path / "deposit" / "metadata.json").read_text())
    metadata = record["metadata"]
    assert metadata.pop("description").startswith("<p>Blood &amp; sugar</p><p>Joint: (epsilon, delta) = (1, 1e-05)")
    assert metadata == {
        "resource_type": {"id": "dataset"},
        "title": "A deposit",
        "creators": [
            {
                "person_or_org": {
                    "type": "personal",
                    "family_name": "Author",
                    "given_name": "Anna",
                    "identifiers": [{"scheme": "orcid", "identifier": "0000-0002-1825-0097"}],
                }
            },
            {
                "person_or_org": {
                    "type": "organizational",
                    "name": "A clinic",
                    "identifiers": [{"scheme": "ror", "identifier": "05gq02987"}],
                }
            },
        ],
        "publication_date": release.manifest().published[:10],
        "publisher": CONSORTIUM,
        "subjects": [{"subject": "glucose"}],
        "rights": [{"id": "cc-by-4.0"}],
        "identifiers": [{"scheme": "other", "identifier": f"sha256:{release.manifest().spec.digest()}"}],
    }
    assert record["files"]["default_preview"] == "README.txt"


@pytest.mark.parametrize(
    ("licence", "rights"),
    [
        ("etalab-2.0", {"title": {"en": "etalab-2.0"}, "link": "https://spdx.org/licenses/etalab-2.0.html"}),
        ("LicenseRef-ours", {"title": {"en": "LicenseRef-ours"}}),
    ],
)
def test_a_licence_that_the_repository_does_not_list_is_named(
    world: World, run: Run, tmp_path: Path, licence: str, rights: dict[str, Any]
) -> None:
    release = published(world, tmp_path / "hub", licence=licence)
    assert run("deposit", release.path, tmp_path / "deposit").exit_code == 0
    assert json.loads((tmp_path / "deposit" / "metadata.json").read_text())["metadata"]["rights"] == [rights]


def test_a_list_tells_what_signed_manifests_say_of_releases(world: World, tmp_path: Path) -> None:
    digests = [published(world, tmp_path / "hub", **said).path.name for said in ({"about": None}, {})]
    list_of = runner(tmp_path / "home")
    with serving(tmp_path / "hub" / "published", Handler) as web:
        told = ("--root", world.root_path, "--mirror", web.url, "--yes")
        assert list_of("trust", "add", CONSORTIUM, *told).exit_code == 0
        lines = json.loads(list_of("list", "--about", "--json").stdout)["releases"]
        plain = json.loads(list_of("list", "--json").stdout)["releases"]
        shown = list_of("list", "--about").stdout
    said = {line["digest"]: [line.pop(name) for name in ("licence", "creators", "description")] for line in lines}
    assert said == dict(
        zip(digests, (["", "", ""], ["CC-BY-4.0", "Author, Anna; A clinic", "Blood & sugar"]), strict=True)
    )
    assert lines == plain
    assert all(word in " ".join(shown.split()) for word in ("licence", "CC-BY-4.0", "Blood & sugar"))


def test_a_model_card_has_what_the_release_says_of_itself(world: World, run: Run, tmp_path: Path) -> None:
    release, card = published(world, tmp_path / "hub"), tmp_path / "card.json"
    assert run("card", release.path, "--target", "glucose", "--output", card).exit_code == 0
    about = json.loads(card.read_text())["release"]["about"]
    assert {name: about[name] for name in ("description", "licence", "keywords")} == {
        name: ABOUT[name] for name in ("description", "licence", "keywords")
    }


def test_what_cannot_be_deposited_is_refused_and_leaves_nothing(world: World, run: Run, tmp_path: Path) -> None:
    bare = published(world, tmp_path / "hub", about=None)
    refused = run("deposit", bare.path, tmp_path / "deposit")
    assert refused.exit_code == EXIT["InvalidInput"]
    assert "has no description, licence and creators" in refused.stderr
    assert not (tmp_path / "deposit").exists()
    release = published(world, tmp_path / "other")
    (tmp_path / "full").mkdir()
    refused = run("deposit", release.path, tmp_path / "full")
    assert (refused.exit_code, "is there already" in refused.stderr) == (EXIT["InvalidInput"], True)
    block = release.block("north")
    block.write_bytes(block.read_bytes()[:-1] + b"\1")
    assert run("deposit", release.path, tmp_path / "deposit").exit_code == EXIT["IntegrityError"]
    assert {path.name for path in tmp_path.iterdir()} == {"hub", "other", "full"}
