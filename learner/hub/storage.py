"""The hub's files. Everything is written under a temporary name, synced and renamed, so a restart finds only whole things.

    staging/DIGEST/record.json             spec and approvals, checked
    staging/DIGEST/run.json                instead of it: task and acceptances of an alignment run, which has parcels only
    staging/DIGEST/parts/NAME.SEQUENCE.part         bytes of a block so far
    staging/DIGEST/parts/NAME.SEQUENCE.sealed.json  its sealed identity and the party's certificate
    staging/DIGEST/release/                         a `ReleaseFolder` that is being filled with complete blocks
    staging/DIGEST/parcels/                         see `learner.hub.mailbox`
    staging/DIGEST/parcels/NAME.reserved            most bytes that the party's parcels may take
    published/DIGEST/                               a `ReleaseFolder` that everybody may read
    published/index.json                            see `PublishedIndex`

A staging folder goes away when the coordinator knows of the publication; until then it marks what is left to do.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from dprelease.arrays import mapped
from dprelease.canonical import Value
from dprelease.errors import DpReleaseError, IntegrityError, InvalidInput, NotFound, PeerUnavailable, TooManyRequests
from dprelease.files.durable import TEMPORARY, make_folder, rename_durably, sync_folder, write_durably
from dprelease.release.folder import BLOCKS, ReleaseFolder
from dprelease.release.manifest import BlockEntry
from dprelease.release.spec import BlockKey
from learner.hub.approved import AcceptedRun, ApprovedRelease
from learner.hub.uploads import held_at, lock, on_disk, put_at
from learner.listing import INDEX, Index, Listed

log = logging.getLogger(__name__)


class PublishedIndex:
    """The list of a folder of published releases. A reader waits for nobody.

    Attributes:
        lines: digest to line, oldest first; replaced as a whole, never changed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / INDEX
        self._writing = threading.Lock()
        self._written: bytes | None = None
        self.lines: Mapping[str, Listed] = {}

    def digests(self) -> frozenset[str]:
        """Digests of the releases that are in the folder."""
        return frozenset(path.name for path in self._folder.iterdir() if _DIGEST.fullmatch(path.name))

    def mend(self, root_pem: str | None = None) -> None:
        """Take the file for what it says of releases that are there, read the manifests of the others, and put it right.

        Args:
            root_pem: the consortium root; given, those others were put here by somebody, and are listed only if they verify.
        """
        with self._writing:
            known = self._read()
            self._keep(known.get(digest) or self._line(digest, root_pem) for digest in self.digests())

    def add(self, digest: str) -> None:
        """List a release that has just become visible; may be repeated."""
        with self._writing:
            others = (line for line in self.lines.values() if line.digest != digest)
            self._keep([*others, self.lines.get(digest) or self._line(digest)])

    def _keep(self, lines: Iterable[Listed | None]) -> None:
        ordered = sorted((line for line in lines if line is not None), key=lambda line: line.token)
        self.lines = {line.digest: line for line in ordered}
        data = Index(releases=tuple(reversed(ordered))).to_bytes()
        if data != self._written:
            write_durably(self._path, data)
            self._written = data

    def _read(self) -> Mapping[str, Listed]:
        try:
            self._written = self._path.read_bytes()
            return {line.digest: line for line in Index.from_bytes(self._written).releases}
        except FileNotFoundError:
            self._written = None
        except InvalidInput as error:
            log.warning("%s is made anew: %s", INDEX, error.message)
        return {}

    def _line(self, digest: str, root_pem: str | None = None) -> Listed | None:
        folder = ReleaseFolder(self._folder / digest)
        try:
            manifest = folder.manifest()
            if root_pem is not None and folder.verify(root_pem).digest != digest:
                raise IntegrityError(f"it is release {manifest.spec.digest()[:12]}")
            return Listed.of(digest, manifest)
        except DpReleaseError as error:
            log.error("published release %s is not listed: %s", digest[:12], error.message)
            return None


_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_SEALED, _RESERVED = ".sealed.json", ".reserved"

Kept = TypeVar("Kept", bound=Value)


@dataclass(frozen=True)
class PartyShare:
    """Most that one party may have staged.

    Attributes:
        releases: unpublished releases with a block or parcels of its.
        size: bytes of these blocks and parcels together.
    """

    releases: int = 32
    size: int = 25 << 30


class Storage:
    """Staged and published releases under one folder.

    Args:
        root: the folder; made if it is not there.
        limit_bytes: most that all announced and published blocks, and all parcels, may take together.
        share: most that one party may have staged.
        root_pem: the consortium root, to verify releases that were put back; None where nobody else writes here.

    Raises:
        InvalidInput: the folder cannot be used, or another hub uses it.
    """

    def __init__(
        self, root: Path, limit_bytes: int, share: PartyShare = PartyShare(), root_pem: str | None = None
    ) -> None:
        self._root, self._limit, self._share = root, limit_bytes, share
        self._staging, self._published = root / "staging", root / "published"
        self.index = PublishedIndex(self._published)
        # A release must not be moved away between the renaming of its last block and the syncing of its folder, nor while the
        # room that all take is added up.
        self._moving = threading.Lock()
        try:
            make_folder(self._staging)
            make_folder(self._published)
            self._lock = lock(root / "lock")
            for leftover in chain(self._staging.rglob(f".*{TEMPORARY}"), self._published.glob(f".*{TEMPORARY}")):
                leftover.unlink()
            self.index.mend(root_pem)
        except OSError as error:
            raise InvalidInput(f"the storage {root} cannot be used: {error.strerror}") from error

    def close(self) -> None:
        """Let another hub use the folder."""
        os.close(self._lock)

    def writable(self) -> bool:
        """Tells whether a file can be written now."""
        try:
            (self._root / "probe").write_bytes(b"ok")
        except OSError:
            return False
        return True

    def staged(self) -> tuple[str, ...]:
        """Digests of releases that are not finished with."""
        return tuple(sorted(path.name for path in self._staging.iterdir() if _DIGEST.fullmatch(path.name)))

    def record(self, digest: str) -> ApprovedRelease | None:
        """The release's record; None where none can be read, for the coordinator has it too."""
        return _read(ApprovedRelease, self._stage(digest) / "record.json")

    def keep_record(self, record: ApprovedRelease) -> None:
        """Keep a record that was checked."""
        with on_disk():
            write_durably(self._stage(record.spec.digest()) / "record.json", record.to_bytes())

    def run(self, digest: str) -> AcceptedRun | None:
        """The record of an alignment run; None where there is none."""
        return _read(AcceptedRun, self._stage(digest) / "run.json")

    def keep_run(self, run: AcceptedRun) -> None:
        """Keep a record of an alignment run that was checked."""
        with on_disk():
            write_durably(self._stage(run.task.digest()) / "run.json", run.to_bytes())

    def entry(self, key: BlockKey) -> BlockEntry | None:
        """The sealed block that was announced under this name, if one was."""
        published = self.published(key.release)
        if published:
            return next((entry for entry in published.manifest().blocks if entry.sealed.key == key), None)
        return _read(BlockEntry, self._sealed(key))

    def keep_entry(self, entry: BlockEntry) -> None:
        """Keep an announced block that was checked.

        Raises:
            PeerUnavailable: there is no room for it.
            TooManyRequests: the party has its share staged already.
        """
        sealed = entry.sealed
        path = self._sealed(sealed.key)
        with on_disk(), self._moving:
            self._check_room(path, sealed.party, sealed.size, self.held(sealed.key))
            write_durably(path, entry.to_bytes())

    def reserve(self, digest: str, party: str, size: int) -> None:
        """Set room aside for all parcels that a party may have in a release at once.

        Raises:
            PeerUnavailable: there is no room for them.
            TooManyRequests: the party has its share staged already.
        """
        path = self.parcels(digest) / f"{_checked(_NAME, party)}{_RESERVED}"
        with on_disk(), self._moving:
            if not path.exists():
                self._check_room(path, party, size, 0)
                write_durably(path, str(size).encode())

    def parcels(self, digest: str) -> Path:
        """The folder of the release's parcels; whether it exists or not."""
        return self._stage(digest) / "parcels"

    def held(self, key: BlockKey) -> int:
        """How many bytes of a block are here."""
        return held_at(self._block(key), self._part(key))

    def is_complete(self, key: BlockKey) -> bool:
        """Tells whether a block is here and verified."""
        return self._block(key).exists()

    def put(self, key: BlockKey, offset: int, data: bytes) -> None:
        """Write bytes at an offset up to which the block is held; bytes beyond it are given up.

        Raises:
            IntegrityError: the block is complete and has other bytes there.
            PeerUnavailable: the disk does not take them.
        """
        with on_disk():
            put_at(self._block(key), self._part(key), offset, data)

    def part(self, key: BlockKey) -> memoryview:
        """Bytes held of a block that is not complete."""
        return mapped(self._part(key))

    def discard_part(self, key: BlockKey) -> None:
        """Give up the bytes of a block that is not complete."""
        self._part(key).unlink(missing_ok=True)

    def forget(self, key: BlockKey) -> None:
        """Give up a block that is not complete, and that it was announced."""
        self.discard_part(key)
        with self._moving:
            self._sealed(key).unlink(missing_ok=True)

    def complete(self, key: BlockKey) -> None:
        """Turn a verified part into a block of the release."""
        with on_disk():
            with self._part(key).open("r+b") as file:
                os.fsync(file.fileno())  # here and not in the rename, which keeps all others waiting
            with self._moving:
                rename_durably(self._part(key), self._block(key))

    def drop(self, digest: str) -> None:
        """Remove what is staged of a release."""
        with on_disk(), self._moving:
            shutil.rmtree(self._stage(digest), ignore_errors=True)
            sync_folder(self._staging)

    def release(self, digest: str) -> ReleaseFolder:
        """The release as everybody may read it, or where it is being filled."""
        return self.published(digest) or ReleaseFolder(self._stage(digest) / "release")

    def published(self, digest: str) -> ReleaseFolder | None:
        """The published release, or None."""
        folder = ReleaseFolder(self._published / _checked(_DIGEST, digest))
        return folder if folder.path.is_dir() else None

    def reveal(self, digest: str) -> None:
        """Make a staged release visible, whole, in one rename, and list it; may be repeated.

        Raises:
            NotFound: nothing is staged under this digest.
            PeerUnavailable: the disk does not take it.
        """
        source, target = self._stage(digest) / "release", self._published / digest
        with on_disk(), self._moving:
            if not target.is_dir():
                if not source.is_dir():
                    raise NotFound(f"release {digest[:12]} is not staged")
                rename_durably(source, target)
        with on_disk():
            self.index.add(digest)

    def _check_room(self, claim: Path, party: str, size: int, held: int) -> None:
        own = self._claims(claim, party)
        releases = {release for release, _ in own} | {claim.parents[1].name}
        staged = sum(each for _, each in own)
        if len(releases) > self._share.releases or staged + size > self._share.size:
            raise TooManyRequests(
                f"{party} has {len(releases) - 1} other unpublished releases here already, and {staged} bytes in all"
            )
        published = sum(path.stat().st_size for path in self._published.glob(f"*/{BLOCKS}/*.block"))
        if sum(each for _, each in self._claims(claim)) + published + size > self._limit:
            raise PeerUnavailable("the storage has reached storage_limit_gib")
        if size - held > shutil.disk_usage(self._root).free:
            raise PeerUnavailable("the disk has no room for another block or parcel")

    def _claims(self, except_for: Path, party: str = "*") -> list[tuple[str, int]]:
        """Release and size of everything that was announced and is not published, of a party or of all."""
        entries = (
            (path, BlockEntry.from_bytes(path.read_bytes()).sealed)
            for path in self._staging.glob(f"*/parts/{party}.*{_SEALED}")
            if path != except_for
        )
        blocks = ((path, sealed.size) for path, sealed in entries if party in ("*", sealed.party))
        parcels = (
            (path, int(path.read_bytes()))
            for path in self._staging.glob(f"*/parcels/{party}{_RESERVED}")
            if path != except_for
        )
        return [(path.parents[1].name, size) for path, size in chain(blocks, parcels)]

    def _stage(self, digest: str) -> Path:
        return self._staging / _checked(_DIGEST, digest)

    def _block(self, key: BlockKey) -> Path:
        return self.release(key.release).block(_checked(_NAME, key.party), key.sequence)

    def _part(self, key: BlockKey, ending: str = ".part") -> Path:
        return self._stage(key.release) / "parts" / f"{_checked(_NAME, key.party)}.{key.sequence}{ending}"

    def _sealed(self, key: BlockKey) -> Path:
        return self._part(key, _SEALED)


def _read(kind: type[Kept], path: Path) -> Kept | None:
    """A value that was kept in a file; None where none was."""
    try:
        return kind.from_bytes(path.read_bytes())
    except FileNotFoundError:
        return None


def _checked(pattern: re.Pattern[str], text: str) -> str:
    # The last door before the file system: whatever a caller forgot, nothing else becomes part of a path.
    if not pattern.fullmatch(text):
        raise InvalidInput(
            "a release is named by 64 hexadecimal digits, a party by a letter, then letters, digits, _ . -"
        )
    return text
