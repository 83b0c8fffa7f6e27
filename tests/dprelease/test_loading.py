"""A release out of a folder in one line: verified, or not there at all."""

import re
from pathlib import Path

import pytest

import dprelease
from dprelease.errors import IntegrityError, InvalidInput, NotFound
from dprelease.release.folder import ReleaseFolder
from tests.support.noise import SeededNoise
from tests.support.specs import Consortium, build_spec, new_consortium, publish

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def consortium() -> Consortium:
    return new_consortium("north", "south")


@pytest.fixture
def folder(consortium: Consortium, tmp_path: Path) -> Path:
    """A published release as files, and the root certificate beside it."""
    published = publish(consortium, build_spec(keys=consortium.keys, rows=60, outputs=20), SeededNoise(3))
    published.write(tmp_path / "release")
    (tmp_path / "root.pem").write_text(published.root)
    (tmp_path / "other.pem").write_text(new_consortium("north").root.certificate)
    return tmp_path


def test_the_lines_of_the_readme_print_a_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (lines,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    release = dprelease.load(folder / "release", root=folder / "root.pem")
    kept = folder / "demo-run" / "stranger"  # the demo leaves releases here; the survey's outcome is not in this one
    (kept / "library" / "releases").mkdir(parents=True)
    (folder / "release").rename(kept / "library" / "releases" / "DIGEST")
    (folder / "root.pem").rename(kept / "root.pem")
    monkeypatch.chdir(folder)
    exec(lines.replace("yrs_married", "glucose"), {})  # noqa: S102 - the very lines that a reader types
    assert capsys.readouterr().out.strip() == release.fit("glucose", ["age"]).summary().strip()


def test_nothing_is_loaded_unverified(folder: Path):
    with pytest.raises(IntegrityError):
        dprelease.load(folder / "release", root=folder / "other.pem")
    block = ReleaseFolder(folder / "release").block("south")
    data = bytearray(block.read_bytes())
    data[-1] ^= 1
    block.write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match="block 0 of south differs"):
        dprelease.load(folder / "release", root=folder / "root.pem")


def test_files_that_are_not_there_are_named(folder: Path):
    with pytest.raises(InvalidInput, match="nowhere' does not name a release: no folder is there"):
        dprelease.load(folder / "nowhere", root=folder / "root.pem")
    with pytest.raises(InvalidInput, match="x' does not name a release"):
        dprelease.load("x" * 5000, root=folder / "root.pem")
    (folder / "empty").mkdir()
    with pytest.raises(NotFound, match="empty holds no release"):
        dprelease.load(folder / "empty", root=folder / "root.pem")
    with pytest.raises(InvalidInput, match=r"absent\.pem is not a consortium's root certificate"):
        dprelease.load(folder / "release", root=folder / "absent.pem")
    (folder / "empty.pem").write_text("")
    with pytest.raises(IntegrityError):
        dprelease.load(folder / "release", root=folder / "empty.pem")


def test_what_a_package_offers_is_listed() -> None:
    assert dir(dprelease) == sorted(dprelease.__all__)
