"""A release as files: written, read back, verified, and what is said when something is missing."""

from pathlib import Path

import pytest

from dprelease.errors import IntegrityError, NotFound
from dprelease.release.folder import MANIFEST, SIGNATURE, ReleaseFolder
from tests.support.hostile_folders import FILES, HOSTILE
from tests.support.noise import SeededNoise
from tests.support.specs import Published, build_spec, new_consortium, publish


@pytest.fixture(scope="module")
def published() -> Published:
    consortium = new_consortium("north", "south")
    return publish(consortium, build_spec(keys=consortium.keys), SeededNoise(3))


@pytest.fixture
def folder(published: Published, tmp_path: Path) -> ReleaseFolder:
    return published.write(tmp_path / "release")


@pytest.mark.parametrize("name", [MANIFEST, SIGNATURE])
def test_a_folder_without_a_manifest_holds_no_release(folder: ReleaseFolder, published: Published, name: str) -> None:
    (folder.path / name).unlink()
    with pytest.raises(NotFound, match=name):
        folder.verify(published.root)


def test_a_block_that_is_gone_or_altered_is_named(folder: ReleaseFolder, published: Published) -> None:
    block = folder.block("south")
    block.write_bytes(published.blocks["north"])
    with pytest.raises(IntegrityError, match="south"):
        folder.verify(published.root)
    block.unlink()
    with pytest.raises(IntegrityError, match="block 0 of south is missing"):
        folder.verify(published.root)


def test_a_manifest_that_cannot_be_read_is_no_manifest(folder: ReleaseFolder) -> None:
    (folder.path / MANIFEST).write_bytes(b"{}")
    with pytest.raises(IntegrityError):
        folder.manifest()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", HOSTILE)
def test_only_a_file_of_its_size_is_read(folder: ReleaseFolder, published: Published, name: str, what: str) -> None:
    replace, words = HOSTILE[what]
    replace(folder.path / name)
    with pytest.raises(IntegrityError, match=f"{name}.* {words}"):
        folder.verify(published.root)
    if "blocks" not in name:
        with pytest.raises(IntegrityError, match=words):
            folder.manifest()


def test_the_folder_of_blocks_is_no_link_either(folder: ReleaseFolder, published: Published, tmp_path: Path) -> None:
    blocks = folder.path / "blocks"
    blocks.rename(tmp_path / "outside")
    blocks.symlink_to(tmp_path / "outside")
    with pytest.raises(IntegrityError, match="blocks is a link"):
        folder.verify(published.root)
