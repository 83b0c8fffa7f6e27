"""The published list without a network."""

import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import InvalidInput, NotFound
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import BlockKey
from learner.hub import published as shelf_module
from learner.hub.published import LARGEST_PAGE, Shelf
from learner.hub.storage import Storage
from learner.listing import INDEX
from tests.learner.world import PATIENCE_SECONDS, Sealed, World, publish_to


def test_the_list_follows_the_signed_time_and_what_was_published_meanwhile(storage: Storage, world: World) -> None:
    shelf = Shelf(storage)
    assert shelf.page(0, "") == ([], "")
    now = datetime.now(UTC)
    releases = [world.sealed(f"release {number}") for number in range(3)]
    for release, hours in zip(releases, (-2, -3, -1), strict=True):
        publish_to(storage, world, release, now + timedelta(hours=hours))
    lines, _ = shelf.page(0, "")
    assert [line.digest for line in lines] == [releases[index].digest for index in (2, 0, 1)]
    first, token = shelf.page(1, "")
    newest = world.sealed("release 3")
    publish_to(storage, world, newest, now)
    rest, _ = shelf.page(LARGEST_PAGE + 1, token)  # a page that was begun does not shift
    assert [line.digest for line in [*first, *rest]] == [line.digest for line in lines]
    assert shelf.page(1, "")[0][0].digest == newest.digest


def test_an_ambiguous_prefix_asks_for_more(storage: Storage, world: World, sealed: Sealed) -> None:
    published = publish_to(storage, world, sealed)
    twin = sealed.digest[:10] + "0" * 54
    shutil.copytree(published.path, published.path.with_name(twin))
    storage.index.mend()
    shelf = Shelf(storage)
    digest = bytes.fromhex(sealed.digest)
    with pytest.raises(InvalidInput, match="more digits"):
        shelf.signed_manifest(digest[:5])
    assert shelf.signed_manifest(digest[:7]) == published.signed_manifest()


def test_a_release_that_cannot_be_read_does_not_hide_the_others(storage: Storage, world: World, sealed: Sealed) -> None:
    damaged = publish_to(storage, world, world.sealed("damaged"))
    (damaged.path / "manifest.json").write_bytes(b"{")
    publish_to(storage, world, sealed)
    (damaged.path.parent / INDEX).unlink()
    storage.index.mend()
    lines, _ = Shelf(storage).page(0, "")
    assert [line.digest for line in lines] == [sealed.digest]


@contextmanager
def files_opened(below: Path) -> Iterator[list[str]]:
    """Every file below a folder that anything in this process opens, as the interpreter reports it."""
    found: list[str] = []
    _watched.append((str(below), found))
    yield found
    _watched.clear()


_watched: list[tuple[str, list[str]]] = []


@sys.addaudithook
def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched and event == "open" and str(arguments[0]).startswith(_watched[0][0]):
        _watched[0][1].append(Path(str(arguments[0])).name)


def test_a_list_reads_no_file_and_a_release_is_read_once_for_all(tmp_path: Path, world: World, sealed: Sealed) -> None:
    storage = Storage(tmp_path, 1 << 30)
    releases = [sealed, *(world.sealed(f"release {number}") for number in range(4))]
    for release in releases:
        publish_to(storage, world, release)
    storage.close()
    again = Storage(tmp_path, 1 << 30)
    shelf, digest = Shelf(again), bytes.fromhex(sealed.digest)
    with files_opened(tmp_path / "published") as opened:
        first, token = shelf.page(3, "")
        second, _ = shelf.page(3, token)
        assert {line.digest for line in (*first, *second)} == {release.digest for release in releases}
        assert opened == []
        with ThreadPoolExecutor(8) as learners:
            manifests = set(learners.map(lambda _: shelf.signed_manifest(digest[:8]), range(50)))
            blocks = set(learners.map(lambda _: shelf.block(BlockKey(digest.hex(), "north"), 0), range(50)))
        assert len(manifests) == len(blocks) == 1
        at_most = 2 * 8 * 2  # two files, eight callers who came before the first was done, for manifest and for sizes
        assert set(opened) == {"manifest.json", "manifest.sig"}
        assert len(opened) <= at_most
        opened.clear()
        shelf.signed_manifest(digest)
        shelf.block(BlockKey(digest.hex(), "south"), 0)
        assert opened == []
    again.close()


def test_what_is_kept_of_releases_is_bounded(
    storage: Storage, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_module, "KEPT_MANIFESTS", 2)
    shelf = Shelf(storage)
    digests = []
    for number in range(3):
        release = world.sealed(f"release {number}")
        publish_to(storage, world, release)
        digests.append(bytes.fromhex(release.digest))
    with files_opened(tmp_path) as opened:
        for digest, reads in zip([*digests, digests[2], digests[0]], (2, 2, 2, 0, 2), strict=True):
            opened.clear()
            shelf.signed_manifest(digest)
            assert len(opened) == reads


def test_nobody_waits_for_a_manifest_that_somebody_else_reads(
    storage: Storage, world: World, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = world.sealed("another")
    for release in (sealed, other):
        publish_to(storage, world, release)
    shelf = Shelf(storage)
    entered, go_on = threading.Event(), threading.Event()
    read = ReleaseFolder.signed_manifest

    def slowly(folder: ReleaseFolder) -> tuple[bytes, str]:
        if folder.path.name == sealed.digest:
            entered.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return read(folder)

    monkeypatch.setattr(ReleaseFolder, "signed_manifest", slowly)
    with ThreadPoolExecutor(1) as slow:
        reading = slow.submit(shelf.signed_manifest, bytes.fromhex(sealed.digest))
        assert entered.wait(PATIENCE_SECONDS)
        assert len(shelf.page(0, "")[0]) == 2
        assert shelf.signed_manifest(bytes.fromhex(other.digest))
        assert shelf.block(other.key("north"), 0)
        assert not reading.done()
        go_on.set()
        assert reading.result(PATIENCE_SECONDS)[0] == read(storage.release(sealed.digest))[0]


def test_only_a_file_that_was_changed_is_read_again(storage: Storage, world: World, sealed: Sealed) -> None:
    published = publish_to(storage, world, sealed)
    shelf, digest = Shelf(storage), bytes.fromhex(sealed.digest)
    with files_opened(published.path) as opened:
        assert shelf.signed_manifest(digest) == shelf.signed_manifest(digest[:4])
        assert len(opened) == 2
    data, _ = published.signed_manifest()
    published.write_manifest(data, "00")
    assert shelf.signed_manifest(digest) == (data, "00")
    shutil.rmtree(published.path)
    for call in (lambda: shelf.signed_manifest(digest), lambda: shelf.block(BlockKey(digest.hex(), "north"), 0)):
        with pytest.raises(NotFound):
            call()
