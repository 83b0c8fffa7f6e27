"""The hub's files. Everything is written under a temporary name, synced and renamed, so a restart finds only whole things.

    staging/DIGEST/record.json             spec and approvals, checked
    staging/DIGEST/parts/NAME.part         bytes of a block so far
    staging/DIGEST/parts/NAME.sealed.json  its sealed identity and the party's certificate
    staging/DIGEST/release/                a `ReleaseFolder` that is being filled with complete blocks
    published/DIGEST/                      a `ReleaseFolder` that everybody may read

A staging folder goes away when the coordinator knows of the publication; until then it marks what is left to do.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dprelease.block import SealedBlock
from dprelease.durable import TEMPORARY, make_folder, rename_durably, sync_folder, write_durably
from dprelease.errors import IntegrityError, InvalidInput, NotFound, PeerUnavailable, TooManyRequests
from dprelease.manifest import BlockEntry
from learner.hub.record import Record
from learner.release_folder import BLOCKS, ReleaseFolder

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class PartyShare:
    """Most that one party may have staged.

    Attributes:
        releases: unpublished releases with a block of its.
        size: bytes of these blocks together.
    """

    releases: int = 32
    size: int = 25 << 30


class Storage:
    """Staged and published releases under one folder.

    Args:
        root: the folder; made if it is not there.
        limit_bytes: most that all announced and published blocks may take together.
        share: most that one party may have staged.

    Raises:
        InvalidInput: the folder cannot be used, or another hub uses it.
    """

    def __init__(self, root: Path, limit_bytes: int, share: PartyShare = PartyShare()) -> None:
        self._root, self._limit, self._share = root, limit_bytes, share
        self._staging, self._published = root / "staging", root / "published"
        # A release must not be moved away between the renaming of its last block and the syncing of its folder.
        self._moving = threading.Lock()
        try:
            make_folder(self._staging)
            make_folder(self._published)
            self._lock = _lock(root / "lock")
            for leftover in self._staging.rglob(f".*{TEMPORARY}"):
                leftover.unlink()
        except OSError as error:
            raise InvalidInput(f"the storage {root} cannot be used: {error.strerror}") from error

    def close(self) -> None:
        """Let another hub use the folder."""
        os.close(self._lock)

    def writable(self) -> bool:
        """Whether a file can be written now."""
        try:
            (self._root / "probe").write_bytes(b"ok")
        except OSError:
            return False
        return True

    def staged(self) -> tuple[str, ...]:
        """Digests of releases that are not finished with."""
        return tuple(sorted(path.name for path in self._staging.iterdir() if _DIGEST.fullmatch(path.name)))

    def record(self, digest: str) -> Record | None:
        """The release's record; None where none can be read, for the coordinator has it too."""
        try:
            return Record.from_bytes((self._stage(digest) / "record.json").read_bytes())
        except FileNotFoundError:
            return None

    def keep_record(self, record: Record) -> None:
        """Keep a record that was checked."""
        with _disk():
            write_durably(self._stage(record.spec.digest()) / "record.json", record.to_bytes())

    def entry(self, digest: str, party: str) -> BlockEntry | None:
        """The sealed block that the party announced, if it did."""
        published = self.published(digest)
        if published:
            return next((entry for entry in published.manifest().blocks if entry.sealed.party == party), None)
        path = self._sealed(digest, party)
        return BlockEntry.from_bytes(path.read_bytes()) if path.exists() else None

    def keep_entry(self, digest: str, entry: BlockEntry) -> None:
        """Keep an announced block that was checked.

        Raises:
            PeerUnavailable: there is no room for it.
            TooManyRequests: the party has its share staged already.
        """
        sealed = entry.sealed
        path = self._sealed(digest, sealed.party)
        with _disk():
            self._check_share(sealed, path)
            if self._announced(except_for=path) + sealed.size > self._limit:
                raise PeerUnavailable("the storage has reached storage_limit_gib")
            if sealed.size - self.held(digest, sealed.party) > shutil.disk_usage(self._root).free:
                raise PeerUnavailable("the disk has no room for another block")
            write_durably(path, entry.to_bytes())

    def held(self, digest: str, party: str) -> int:
        """How many bytes of the party's block are here."""
        for path in (self._block(digest, party), self._part(digest, party)):
            if path.exists():
                return path.stat().st_size
        return 0

    def is_complete(self, digest: str, party: str) -> bool:
        """Whether the party's block is here and verified."""
        return self._block(digest, party).exists()

    def put(self, digest: str, party: str, offset: int, data: bytes) -> None:
        """Write bytes at an offset up to which the block is held; bytes beyond it are given up.

        Raises:
            IntegrityError: the block is complete and has other bytes there.
            PeerUnavailable: the disk does not take them.
        """
        with _disk():
            if self.is_complete(digest, party):
                with self._block(digest, party).open("rb") as file:
                    file.seek(offset)
                    if file.read(len(data)) != data:
                        raise IntegrityError(f"{party} sent other bytes than those it sealed")
                return
            path = self._part(digest, party)
            with path.open("r+b" if path.exists() else "xb") as file:
                file.truncate(offset)
                file.seek(offset)
                file.write(data)

    def part_bytes(self, digest: str, party: str) -> bytes:
        """What is held of a block that is not complete."""
        path = self._part(digest, party)
        return path.read_bytes() if path.exists() else b""

    def discard_part(self, digest: str, party: str) -> None:
        """Give up the bytes of a block that is not complete."""
        self._part(digest, party).unlink(missing_ok=True)

    def forget(self, digest: str, party: str) -> None:
        """Give up a block that is not complete, and that it was announced."""
        self.discard_part(digest, party)
        self._sealed(digest, party).unlink(missing_ok=True)

    def complete(self, digest: str, party: str) -> None:
        """Turn a verified part into a block of the release."""
        with _disk(), self._moving:
            rename_durably(self._part(digest, party), self._block(digest, party))

    def drop(self, digest: str) -> None:
        """Remove what is staged of a release."""
        with _disk(), self._moving:
            shutil.rmtree(self._stage(digest), ignore_errors=True)
            sync_folder(self._staging)

    def release(self, digest: str) -> ReleaseFolder:
        """The release as everybody may read it, or where it is being filled."""
        return self.published(digest) or ReleaseFolder(self._stage(digest) / "release")

    def published(self, digest: str) -> ReleaseFolder | None:
        """The published release, or None."""
        folder = ReleaseFolder(self._published / _checked(_DIGEST, digest))
        return folder if folder.path.is_dir() else None

    def published_digests(self) -> frozenset[str]:
        """Digests of all published releases."""
        return frozenset(path.name for path in self._published.iterdir() if _DIGEST.fullmatch(path.name))

    def reveal(self, digest: str) -> None:
        """Make a staged release visible, whole, in one rename.

        Raises:
            NotFound: nothing is staged under this digest.
        """
        source = self._stage(digest) / "release"
        if not source.is_dir():
            raise NotFound(f"release {digest[:12]} is not staged")
        with _disk(), self._moving:
            rename_durably(source, self._published / digest)

    def _check_share(self, sealed: SealedBlock, path: Path) -> None:
        others = [other for other in self._staging.glob(f"*/parts/{path.name}") if other != path]
        staged = sum(BlockEntry.from_bytes(other.read_bytes()).sealed.size for other in others)
        if len(others) >= self._share.releases or staged + sealed.size > self._share.size:
            raise TooManyRequests(f"{sealed.party} has {len(others)} unpublished blocks of {staged} bytes here already")

    def _announced(self, except_for: Path) -> int:
        sealed = (path for path in self._staging.glob("*/parts/*.sealed.json") if path != except_for)
        staged = sum(BlockEntry.from_bytes(path.read_bytes()).sealed.size for path in sealed)
        return staged + sum(path.stat().st_size for path in self._published.glob(f"*/{BLOCKS}/*.block"))

    def _stage(self, digest: str) -> Path:
        return self._staging / _checked(_DIGEST, digest)

    def _block(self, digest: str, party: str) -> Path:
        return self.release(digest).block(_checked(_NAME, party))

    def _part(self, digest: str, party: str) -> Path:
        return self._stage(digest) / "parts" / f"{_checked(_NAME, party)}.part"

    def _sealed(self, digest: str, party: str) -> Path:
        return self._stage(digest) / "parts" / f"{_checked(_NAME, party)}.sealed.json"


def _checked(pattern: re.Pattern[str], text: str) -> str:
    # The last door before the file system: whatever a caller forgot, nothing else becomes part of a path.
    if not pattern.fullmatch(text):
        raise InvalidInput(
            "a release is named by 64 hexadecimal digits, a party by a letter, then letters, digits, _ . -"
        )
    return text


def _lock(path: Path) -> int:
    import fcntl  # the hub runs where there is flock; a learner's machine may not have it

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise InvalidInput(f"another hub uses {path.parent}; stop it first") from error
    return handle


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PeerUnavailable(f"the storage does not take what is written: {error.strerror}") from error
