"""A release in one line of a notebook: verified against the root that was pinned, and no other."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import dprelease
from dprelease.errors import IntegrityError, InvalidInput, NotFound
from dprelease.release.folder import ReleaseFolder
from learner.client.library import Library
from learner.client.pinned_roots import TrustStore
from learner.hub.server import Hub
from learner.hub.storage import Storage
from tests.learner.tampering import copy
from tests.learner.world import CONSORTIUM, Sealed, World, publish_to, stored
from tests.support.specs import new_consortium
from tests.support.web import Handler, serving

ROOT = Path(__file__).parents[2]
GUIDE, EXAMPLE = ROOT / "docs" / "guide_learner.md", ROOT / "r" / "inst" / "extdata" / "example"
ADDRESS = "https://mirror.example.org/trial/DIGEST"


@pytest.fixture
def home(world: World, tmp_path: Path) -> Path:
    """A client's folder with the root pinned and nothing fetched."""
    TrustStore(tmp_path / "home").add(CONSORTIUM, world.root.certificate, "h:1")
    return tmp_path / "home"


def test_a_folder_is_loaded_under_the_pinned_root(
    home: Path, folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = folder.manifest().spec.digest()
    assert dprelease.load(folder.path, home=home).digest == digest
    monkeypatch.setenv("LEARNER_HOME", str(home))
    assert dprelease.load(str(folder.path)).digest == digest


def test_a_fetched_release_is_loaded_by_its_first_digits(home: Path, folder: ReleaseFolder) -> None:
    digest = folder.manifest().spec.digest()
    with pytest.raises(NotFound, match="is not here"):
        dprelease.load(digest[:8], home=home)
    copy(folder, Library(home).kept(digest).path)
    assert dprelease.load(digest[:8], home=home).digest == digest
    with pytest.raises(InvalidInput, match="does not name a release"):
        dprelease.load("nowhere", home=home)


def test_a_root_that_was_pinned_is_named_by_its_fingerprint(home: Path, folder: ReleaseFolder, world: World) -> None:
    fingerprint = TrustStore(home).get(CONSORTIUM).fingerprint
    colons = ":".join(re.findall("..", fingerprint.upper()))
    assert dprelease.load(folder.path, root=colons, home=home).digest == folder.manifest().spec.digest()
    with pytest.raises(NotFound, match="no root of fingerprint 0000"):
        dprelease.load(folder.path, root="00" * 32, home=home)


def test_a_mirror_is_asked_by_its_url(folder: ReleaseFolder, world: World, tmp_path: Path, home: Path) -> None:
    """By the address of the release, of a mirror with one release, or beside the digest; then it is here."""
    digest, root = folder.manifest().spec.digest(), tmp_path / "root.pem"
    root.write_text(world.root.certificate)
    with serving(folder.path.parent, Handler) as web:
        for given, told in ((f"{web.url}/{digest}", None), (web.url, None), (digest[:8], web.url)):
            fresh = tmp_path / f"home {given[-9:].strip('/')}"
            assert dprelease.load(given, root, mirror=told, home=fresh).digest == digest
            assert dprelease.load(digest, root, home=fresh).digest == digest
        assert dprelease.load(web.url, home=home).digest == digest
        stranger = tmp_path / "stranger.pem"
        stranger.write_text(new_consortium("north").root.certificate)
        with pytest.raises(IntegrityError):
            dprelease.load(f"{web.url}/{digest}", stranger, home=tmp_path / "other")
        assert not (tmp_path / "other" / "releases").exists()


def test_the_lines_of_the_guide_fit_from_a_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the example of the R package, whose intervals have two ends."""
    (lines,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    digest = ReleaseFolder(EXAMPLE).manifest().spec.digest()
    shutil.copytree(EXAMPLE, tmp_path / "mirror" / digest)
    shutil.copy(EXAMPLE / "root.pem", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEARNER_HOME", str(tmp_path / "home"))
    with serving(tmp_path / "mirror", Handler) as web:
        assert ADDRESS in lines
        exec(lines.replace(ADDRESS, f"{web.url}/{digest}"), {})  # noqa: S102 - the very lines that a reader types
    model = dprelease.load(digest, root="root.pem").fit("systolic", ["age", "smoker"])
    assert capsys.readouterr().out.strip() == model.summary().strip()
    assert model.inference.bounded.all()


def test_a_hub_is_asked_by_its_address(
    world: World, sealed: Sealed, tmp_path: Path, start_hub: Callable[..., Hub]
) -> None:
    stored(tmp_path / "storage", world, sealed)
    address, root = f"localhost:{start_hub().public_port}", tmp_path / "root.pem"
    root.write_text(world.root.certificate)
    assert dprelease.load(address, root, home=tmp_path / "home").digest == sealed.digest
    assert dprelease.load(sealed.digest[:8], root, hub=address, home=tmp_path / "home").digest == sealed.digest
    with pytest.raises(InvalidInput, match="'blood-pressure' does not name a release"):
        dprelease.load("blood-pressure", root, hub=address, home=tmp_path / "home")
    with pytest.raises(NotFound, match="no root is pinned for a hub"):
        dprelease.load(address, home=tmp_path / "home")


def test_several_releases_are_named(world: World, sealed: Sealed, tmp_path: Path, storage: Storage) -> None:
    for each in (sealed, world.sealed("another release")):
        publish_to(storage, world, each)
    (tmp_path / "root.pem").write_text(world.root.certificate)
    with (
        serving(tmp_path / "storage" / "published", Handler) as web,
        pytest.raises(InvalidInput, match=r"several releases .*another release"),
    ):
        dprelease.load(web.url, tmp_path / "root.pem", home=tmp_path / "home")


def test_without_a_pinned_root_nothing_is_loaded(
    folder: ReleaseFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEARNER_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(NotFound, match="not trusted yet"):
        dprelease.load(folder.path)
