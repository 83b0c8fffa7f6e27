"""Published releases, as the public may ask for it: pages of a list, manifests by prefix, blocks from an offset.

No call waits for another: the list is in memory, and of a release only what was asked for is read, once for many callers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from dprelease.errors import InvalidInput, NotFound
from dprelease.release.folder import MANIFEST, ReleaseFolder
from dprelease.release.spec import BlockKey
from learner.hub.storage import Storage
from learner.listing import Listed

SHORTEST_PREFIX_BYTES = 4
LARGEST_PAGE = 200
KEPT_MANIFESTS = 32
KEPT_SIZES = 4096
_TOKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/[0-9a-f]{64}")

Stamp = tuple[str, int, int]
"""Digest, and of its manifest's file the inode and the time of the last change: what was kept under another is not used."""


class Shelf:
    """Published releases."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._signed = lru_cache(KEPT_MANIFESTS)(self._read_signed)
        self._sizes = lru_cache(KEPT_SIZES)(self._read_sizes)

    def page(self, size: int, token: str) -> tuple[list[Listed], str]:
        """A page of the list, newest first, and the token of the next (empty on the last page).

        Raises:
            InvalidInput: the token was not made here.
        """
        if token and not _TOKEN.fullmatch(token):
            raise InvalidInput("this page token was not given out here")
        lines = list(self._storage.index.lines.values())
        end = bisect_left(lines, token, key=lambda line: line.token) if token else len(lines)
        start = max(0, end - min(size or LARGEST_PAGE, LARGEST_PAGE))
        return lines[start:end][::-1], lines[start].token if start else ""

    def signed_manifest(self, prefix: bytes) -> tuple[bytes, str]:
        """Manifest and signature of the release whose digest starts with a prefix of at least 4 bytes.

        Raises:
            InvalidInput: the prefix is too short, too long, or names several releases.
            NotFound: it names none.
        """
        if not SHORTEST_PREFIX_BYTES <= len(prefix) <= 32:
            raise InvalidInput(f"a release is named by its digest's first {SHORTEST_PREFIX_BYTES} to 32 bytes")
        digits = prefix.hex()
        found = [digest for digest in self._storage.index.lines if digest.startswith(digits)]
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} releases start so; give more digits")
        if not found:
            raise NotFound("no published release starts so")
        return self._signed(self._stamp(found[0]))

    def block(self, key: BlockKey, offset: int) -> Path:
        """The file of a published block, once it is sure that it exists and reaches to the offset.

        Raises:
            NotFound: no such release, party or sequence number.
            InvalidInput: the offset lies past the end.
        """
        sizes = self._sizes(self._stamp(key.release)) if key.release in self._storage.index.lines else {}
        if key not in sizes:
            raise NotFound("no such published block")
        if offset > sizes[key]:
            raise InvalidInput(f"the block has {sizes[key]} bytes; there is nothing at {offset}")
        return self._folder(key.release).block(key.party, key.sequence)

    def _folder(self, digest: str) -> ReleaseFolder:
        folder = self._storage.published(digest)
        if folder is None:
            raise NotFound(f"release {digest[:12]} is no longer published")
        return folder

    def _stamp(self, digest: str) -> Stamp:
        try:
            found = (self._folder(digest).path / MANIFEST).stat()
        except FileNotFoundError as error:
            raise NotFound(f"release {digest[:12]} has no manifest") from error
        return digest, found.st_ino, found.st_ctime_ns

    def _read_signed(self, stamp: Stamp) -> tuple[bytes, str]:
        return self._folder(stamp[0]).signed_manifest()

    def _read_sizes(self, stamp: Stamp) -> Mapping[BlockKey, int]:
        return {entry.sealed.key: entry.sealed.size for entry in self._folder(stamp[0]).manifest().blocks}
