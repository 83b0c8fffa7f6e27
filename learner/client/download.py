"""Fetching a release: manifest first, checked; then every block, resumable; stored only once the whole verifies."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from dprelease.errors import IntegrityError, InvalidInput, PeerUnavailable, refused_as
from dprelease.files.durable import make_folder, rename_durably
from dprelease.release.block import SealedBlock
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.spec import BlockKey
from dprelease.release.verification import check_manifest
from dprelease.wire.retry import PROGRESS_BYTES, Backoff
from learner.client.library import Library, check_origin, check_prefix
from learner.client.pinned_roots import Trusted


class Source(Protocol):
    """A place that releases come from, such as `learner.client.sources.PublicHub` and `learner.client.mirror.Mirror`."""

    def manifest(self, prefix: str) -> tuple[bytes, str]:
        """Manifest and signature, unchecked."""
        ...

    def block(self, key: BlockKey, offset: int, size: int) -> Iterator[bytes]:
        """The bytes of a block of this size from an offset on, and never more of them; only their digest says whose they are."""
        ...


@dataclass(frozen=True)
class Patience:
    """How a broken download is taken up again.

    Attributes:
        attempts: how often in a row with fewer than `least_bytes` new ones before giving up.
        least_bytes: what a connection has to bring, or whoever sends one byte on each would never be given up.
        backoff: waits in between.
        sleep: waits that many seconds.
    """

    attempts: int = 5
    least_bytes: int = PROGRESS_BYTES
    backoff: Backoff = field(default_factory=Backoff)
    sleep: Callable[[float], None] = time.sleep


Progress = Callable[[BlockKey, int, int], None]
"""Called with a block's name, bytes held and bytes in all."""


def fetch(
    source: Source,
    consortium: Trusted,
    library: Library,
    prefix: str,
    progress: Progress = lambda key, held, size: None,
    patience: Patience | None = None,
) -> ReleaseFolder:
    """Fetch a release and keep it if, and only if, it verifies. Bytes that arrived are kept for the next attempt.

    Raises:
        InvalidInput: the prefix names no release, or the disk has no room.
        NotFound: the source has no such release.
        IntegrityError: something does not verify; damaged bytes are thrown away.
        PeerUnavailable: the source is away; run it again to go on.
    """
    prefix = check_prefix(prefix)
    data, signature = source.manifest(prefix)
    manifest = check_manifest(data, signature, consortium.root)
    check_origin(manifest, consortium)
    digest = manifest.spec.digest()
    if not digest.startswith(prefix):
        raise IntegrityError(f"what came is release {digest[:12]}, which was not asked for")
    if library.holds_sound(digest, consortium):
        return library.kept(digest)
    draft = library.draft(digest)
    _check_room(draft, [entry.sealed for entry in manifest.blocks])
    for entry in manifest.blocks:
        _fetch_block(source, draft, entry.sealed, progress, patience or Patience())
    draft.write_manifest(data, signature)
    draft.verify(consortium.root)
    return library.keep(digest)


def signed_manifest(source: Source, consortium: Trusted, digest: str, patience: Patience | None = None) -> Manifest:
    """The manifest of a release, checked; asked for again while the source is away or wants fewer calls.

    Raises:
        NotFound: the source has no such release.
        IntegrityError: it does not verify, or is another one.
        PeerUnavailable: the source is away.
    """
    data, signature = _patiently(partial(source.manifest, digest), patience or Patience())
    manifest = check_manifest(data, signature, consortium.root)
    check_origin(manifest, consortium)
    if manifest.spec.digest() != digest:
        raise IntegrityError(f"what came is another release than {digest[:12]}")
    return manifest


def _patiently(call: Callable[[], tuple[bytes, str]], patience: Patience) -> tuple[bytes, str]:
    waits = patience.backoff.waits()
    for _ in range(patience.attempts - 1):
        try:
            return call()
        except PeerUnavailable:
            patience.sleep(next(waits))
    return call()


def consortium_of(source: Source, digest: str) -> str:
    """The consortium that a release says it is of, unchecked: enough to look for the pinned root.

    Raises:
        IntegrityError: the manifest is malformed.
    """
    data, _ = source.manifest(digest)
    with refused_as(IntegrityError):
        return Manifest.from_bytes(data).spec.consortium


def _fetch_block(
    source: Source, draft: ReleaseFolder, sealed: SealedBlock, progress: Progress, patience: Patience
) -> None:
    block = draft.block(sealed.party, sealed.sequence)
    part = block.with_suffix(".part")
    if block.exists() and _digest(block) != sealed.sha256:
        block.unlink()
    while not block.exists():
        resumed = _size(part) > 0
        try:
            _fill(source, part, sealed, progress, patience)
            if _digest(part) != sealed.sha256:
                raise IntegrityError(f"{sealed.key.words} differs from the digest that it was signed under")
            rename_durably(part, block)
        except IntegrityError:
            part.unlink(missing_ok=True)  # else the next attempt would build on damaged bytes
            if not resumed:
                raise  # else they may have come from elsewhere: this source gets the chance to send all of them
    progress(sealed.key, sealed.size, sealed.size)


def _fill(source: Source, part: Path, sealed: SealedBlock, progress: Progress, patience: Patience) -> None:
    failures, waits = 0, patience.backoff.waits()
    while (held := _size(part)) < sealed.size:
        try:
            _append(source, part, sealed, held, progress)
        except PeerUnavailable:
            if _size(part) - held >= patience.least_bytes:
                failures, waits = 0, patience.backoff.waits()
            failures += 1
            if failures >= patience.attempts:
                raise
            patience.sleep(next(waits))
        else:
            if _size(part) < sealed.size:
                raise IntegrityError(f"{sealed.key.words} ended before its end")


def _append(source: Source, part: Path, sealed: SealedBlock, held: int, progress: Progress) -> None:
    with part.open("ab") as file:
        progress(sealed.key, held, sealed.size)
        for data in source.block(sealed.key, held, sealed.size):
            held += file.write(data)
            progress(sealed.key, held, sealed.size)


def _digest(path: Path) -> str:
    with path.open("rb") as file:  # which may be larger than memory
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _check_room(draft: ReleaseFolder, blocks: list[SealedBlock]) -> None:
    folder = draft.block("any").parent
    make_folder(folder)
    wanted = sum(sealed.size for sealed in blocks) - sum(file.stat().st_size for file in folder.iterdir())
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise InvalidInput(
            f"the release needs {wanted} more bytes and the disk of {folder} has {free}; make room first"
        )
