"""The releases of docs/vectors: each good one verifies, years after its certificates ended, and each bad one is refused."""

import json
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import IntegrityError
from dprelease.identity.certificates import read_certificate
from dprelease.mechanisms.registry import names
from dprelease.publication.beside import files_beside
from dprelease.publication.plain import LAYOUT, plain_files
from dprelease.release.folder import ReleaseFolder
from tests.learner.commands import EXIT, Run, runner
from tests.vectors import BAD, LIST, NUMBERS, ROOT, VECTORS, write

LISTED = json.loads((VECTORS / LIST).read_text())
AGAIN = "docs/vectors are no longer of this format; if it was to change, write them again: python -m tests.vectors"
BESIDE = 3, "e2803d21a32aad31e004e632987a1b63d8992cf2a0669238ef01304ea572b065"
"""Layout of files beside releases, and a digest of those beside all good vectors."""


def folders(each: dict[str, Any]) -> str:
    return str(each["folder"])


@pytest.fixture(scope="module")
def root() -> str:
    return (VECTORS / ROOT).read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    commands = runner(tmp_path_factory.mktemp("home"))
    nowhere = ("--mirror", "https://vectors.example.org", "--yes")
    assert commands("trust", "add", LISTED["consortium"], "--root", VECTORS / ROOT, *nowhere).exit_code == 0
    return commands


@pytest.mark.parametrize("good", LISTED["good"], ids=folders)
def test_a_good_vector_verifies_and_reads_as_its_table(good: dict[str, Any], root: str, run: Run) -> None:
    folder = ReleaseFolder(VECTORS / good["folder"])
    hub = read_certificate(folder.manifest().hub_certificate)
    assert hub.not_valid_after_utc < datetime.now(UTC)  # it is judged at the signed time
    release = folder.verify(root)
    assert (release.digest, release.spec.mechanism, good["must"]) == (good["release"], good["mechanism"], "verify")
    plain = plain_files(release, folder.manifest())
    for name in NUMBERS:
        path = folder.path / name
        assert (path.read_bytes() if path.exists() else None) == plain.get(name), AGAIN
    result = run("verify", folder.path, "--json")
    assert result.exit_code == 0, f"{result.output}\n{AGAIN}"
    assert json.loads(result.stdout)["verified"] is True


def test_files_beside_releases_change_only_with_the_number_of_their_layout(root: str) -> None:
    made = sha256()
    for good in LISTED["good"]:
        folder = ReleaseFolder(VECTORS / good["folder"])
        for name, data in sorted(files_beside(folder, folder.verify(root)).items()):
            made.update(f"{name} {len(data)}\n".encode() + data)
    told = (
        "every verifier would call files of the version before altered; raise LAYOUT, and write it and the digest here"
    )
    assert (LAYOUT, made.hexdigest()) == BESIDE, told


@pytest.mark.parametrize("bad", LISTED["bad"], ids=folders)
def test_a_bad_vector_is_refused_by_one_clear_error(bad: dict[str, Any], root: str, run: Run) -> None:
    folder = ReleaseFolder(VECTORS / bad["folder"])
    with pytest.raises(IntegrityError, match=bad["learner_says"]):
        folder.verify(root)
    result = run("verify", folder.path)
    assert (result.exit_code, result.stdout) == (EXIT["IntegrityError"], "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert bad["must"] == "refuse"


def test_every_folder_is_listed_and_holds_what_may_be_published() -> None:
    assert {each["mechanism"] for each in LISTED["good"]} == set(names())
    listed = {each["folder"] for kind in ("good", "bad") for each in LISTED[kind]}
    assert listed == {str(path.relative_to(VECTORS)) for kind in ("good", "bad") for path in (VECTORS / kind).iterdir()}
    for path in VECTORS.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [word for word in (b"PRIVATE", b"/home", b"/tmp", b"/work", b"/root/") if word in data], path
    assert "docs/vectors/** -text" in (VECTORS.parent.parent / ".gitattributes").read_text()


def test_the_script_writes_vectors_that_hold_again(tmp_path: Path) -> None:
    write(tmp_path)
    listed = json.loads((tmp_path / LIST).read_text())
    assert listed["bad"] == LISTED["bad"], AGAIN
    assert [each["folder"] for each in listed["good"]] == [each["folder"] for each in LISTED["good"]], AGAIN
    root = (tmp_path / ROOT).read_text()
    for name, (_, _, says, _) in BAD.items():
        with pytest.raises(IntegrityError, match=says):
            ReleaseFolder(tmp_path / "bad" / name).verify(root)
