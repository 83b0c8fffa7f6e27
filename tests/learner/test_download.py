"""Fetching: resumable, and nothing is kept that does not verify."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dprelease.errors import IntegrityError, InvalidInput, PeerUnavailable
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import BlockKey
from dprelease.wire.v1 import release_pb2
from learner.cli.releases import download_bar
from learner.client import download
from learner.client.download import Patience, fetch
from learner.client.library import Library
from learner.client.pinned_roots import Trusted
from learner.hub.storage import Storage
from tests.learner.tampering import MANIFEST, copy
from tests.learner.world import FolderSource, Sealed, World, publish_to
from tests.support.certificates import mint

NEVER = Patience(attempts=1, sleep=lambda seconds: None)


class Waits:
    """Instead of sleeping: how often, and for how long."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def patience(self, attempts: int) -> Patience:
        return Patience(attempts=attempts, least_bytes=100, sleep=self.seconds.append)


def source_of(folder: ReleaseFolder, on_chunk: Callable[..., release_pb2.Chunk] = lambda piece: piece) -> FolderSource:
    data, signature = folder.signed_manifest()
    blocks = {path.stem: path.read_bytes() for path in (folder.path / "blocks").iterdir()}
    return FolderSource(data, signature, blocks, on_chunk)


class Breaking:
    """Passes a number of chunks, then breaks; again and again."""

    def __init__(self, every: int) -> None:
        self.every, self.count = every, 0

    def __call__(self, piece: release_pb2.Chunk) -> release_pb2.Chunk:
        self.count += 1
        if self.count > self.every:
            self.count = 0
            raise PeerUnavailable("broken")
        return piece


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "home")


def test_an_honest_release_is_fetched_kept_and_not_fetched_again(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed
) -> None:
    source, seen = source_of(folder), []
    kept = fetch(source, trusted, library, sealed.digest[:8], lambda *held: seen.append(held))
    assert kept.verify(trusted.root).digest == sealed.digest
    assert kept.path == library.kept(sealed.digest).path
    assert not library.draft(sealed.digest).path.exists()
    sizes = {party: len(block) for party, block in sealed.blocks.items()}
    assert {key.party: held for key, held, size in seen} == sizes
    assert source.served == [("north", 0), ("south", 0)]
    assert fetch(source, trusted, library, sealed.digest).path == kept.path
    assert len(source.served) == 2


def test_it_goes_on_from_the_last_byte_in_another_run(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed
) -> None:
    with pytest.raises(PeerUnavailable):
        fetch(source_of(folder, Breaking(3)), trusted, library, sealed.digest, patience=NEVER)
    assert not library.kept(sealed.digest).path.exists()
    source = source_of(folder)
    fetch(source, trusted, library, sealed.digest, patience=NEVER)
    assert source.served == [("north", 300), ("south", 0)]


def test_breaks_are_survived_as_long_as_bytes_come(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed
) -> None:
    waits = Waits()
    source = source_of(folder, Breaking(1))
    fetch(source, trusted, library, sealed.digest, patience=waits.patience(2))
    assert [offset for party, offset in source.served if party == "north"][:3] == [0, 100, 200]
    assert len(waits.seconds) >= len(sealed.blocks["north"]) // 100 - 1
    assert max(waits.seconds) <= Patience().backoff.first_seconds  # each piece starts the waits anew


def test_a_source_that_brings_less_than_a_piece_each_time_is_given_up(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed
) -> None:
    source, patience = source_of(folder, Breaking(1)), Patience(3, least_bytes=101, sleep=lambda seconds: None)
    with pytest.raises(PeerUnavailable):
        fetch(source, trusted, library, sealed.digest, patience=patience)
    assert source.served == [("north", 0), ("north", 100), ("north", 200)]


def test_a_false_manifest_is_refused_before_any_block(
    library: Library, folder: ReleaseFolder, trusted: Trusted, world: World, sealed: Sealed, tmp_path: Path
) -> None:
    for number, tamper in enumerate(MANIFEST.values()):
        false = copy(folder, tmp_path / str(number))
        tamper(false, world)
        source = source_of(false)
        with pytest.raises(IntegrityError):
            fetch(source, trusted, library, sealed.digest)
        assert source.served == []


@pytest.mark.parametrize("fault", ["early end", "offset", "checksum", "too long", "empty"])
def test_chunks_that_do_not_fit_are_refused(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed, fault: str
) -> None:
    def spoil(piece: release_pb2.Chunk) -> release_pb2.Chunk:
        changes = {
            "offset": {"offset": piece.offset + 1},
            "checksum": {"crc32": piece.crc32 ^ 1},
            "empty": {"data": b""},
            "too long": {"data": bytes(1 << 20)},
        }.get(fault, {})
        spoiled = release_pb2.Chunk(offset=piece.offset, data=piece.data, crc32=piece.crc32)
        for name, value in changes.items():
            setattr(spoiled, name, value)
        return spoiled

    class Short(FolderSource):
        def block(self, key: BlockKey, offset: int, size: int) -> Iterator[bytes]:
            yield from list(super().block(key, offset, size))[:-1]

    data, signature = folder.signed_manifest()
    made = Short if fault == "early end" else FolderSource
    blocks = {f"{party}.0": block for party, block in sealed.blocks.items()}
    with pytest.raises(IntegrityError):
        fetch(made(data, signature, blocks, spoil), trusted, library, sealed.digest, patience=NEVER)
    assert not library.kept(sealed.digest).path.exists()


def test_damage_on_our_own_disk_is_mended(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed
) -> None:
    kept = fetch(source_of(folder), trusted, library, sealed.digest)
    kept.block("north").write_bytes(b"damaged")
    assert fetch(source_of(folder), trusted, library, sealed.digest).verify(trusted.root)
    draft = library.draft(sealed.digest)
    kept.path.rename(kept.path.with_name("moved-away"))
    copy(folder, draft.path)
    draft.block("south").write_bytes(b"damaged")
    source = source_of(folder)
    assert fetch(source, trusted, library, sealed.digest).verify(trusted.root)
    assert source.served == [("south", 0)]


def test_another_release_than_asked_for_is_refused(
    library: Library, world: World, folder: ReleaseFolder, trusted: Trusted, storage: Storage
) -> None:
    other = publish_to(storage, world, world.sealed("another release"))
    with pytest.raises(IntegrityError, match="not asked for"):
        fetch(source_of(folder), trusted, library, other.manifest().spec.digest())


def test_a_false_root_or_consortium_is_refused(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed
) -> None:
    for change in ({"root": mint("trial", None).certificate}, {"name": "elsewhere"}):
        with pytest.raises(IntegrityError):
            fetch(source_of(folder), trusted.model_copy(update=change), library, sealed.digest)


def test_a_disk_without_room_is_said_before_downloading(
    library: Library, folder: ReleaseFolder, trusted: Trusted, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = download.shutil.disk_usage("/")
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage._replace(free=10))
    source = source_of(folder)
    with pytest.raises(InvalidInput, match="make room"):
        fetch(source, trusted, library, sealed.digest)
    assert source.served == []


def test_what_is_no_prefix_is_not_sent(library: Library, folder: ReleaseFolder, trusted: Trusted) -> None:
    with pytest.raises(InvalidInput):
        fetch(source_of(folder), trusted, library, "abc")


def test_a_block_that_comes_at_once_has_no_speed_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    with download_bar() as progress:
        for held in (0, 3, 3):
            progress(BlockKey("a" * 64, "north"), held, 3)
    assert capsys.readouterr().err.rstrip().endswith("3/3 bytes")
