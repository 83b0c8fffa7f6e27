"""A release in one line of a notebook: verified against the root that was pinned, and no other."""

from pathlib import Path

import pytest

import learner
from dprelease.errors import InvalidInput, NotFound
from dprelease.release.folder import ReleaseFolder
from learner.client.library import Library
from learner.client.pinned_roots import TrustStore
from tests.learner.tampering import copy
from tests.learner.world import CONSORTIUM, World


@pytest.fixture
def home(world: World, tmp_path: Path) -> Path:
    """A client's folder with the root pinned and nothing fetched."""
    TrustStore(tmp_path / "home").add(CONSORTIUM, world.root.certificate, "h:1")
    return tmp_path / "home"


def test_a_folder_is_loaded_under_the_pinned_root(
    home: Path, folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = folder.manifest().spec.digest()
    assert learner.load(folder.path, home).digest == digest
    monkeypatch.setenv("LEARNER_HOME", str(home))
    assert learner.load(str(folder.path)).digest == digest


def test_a_fetched_release_is_loaded_by_its_first_digits(home: Path, folder: ReleaseFolder) -> None:
    digest = folder.manifest().spec.digest()
    with pytest.raises(NotFound, match="is not here"):
        learner.load(digest[:8], home)
    copy(folder, Library(home).kept(digest).path)
    assert learner.load(digest[:8], home).digest == digest
    with pytest.raises(InvalidInput, match="does not name a release"):
        learner.load("nowhere", home)


def test_without_a_pinned_root_nothing_is_loaded(
    folder: ReleaseFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEARNER_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(NotFound, match="not trusted yet"):
        learner.load(folder.path)
