"""What is published, as the public may ask for it: pages of a list, manifests by prefix, blocks from an offset."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import DpReleaseError, InvalidInput, NotFound
from dprelease.manifest import Manifest
from learner.hub.storage import Storage

log = logging.getLogger(__name__)

SHORTEST_PREFIX_BYTES = 4
LARGEST_PAGE = 200
_TOKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/[0-9a-f]{64}")


@dataclass(frozen=True)
class Line:
    """A published release in a list.

    Attributes:
        digest: of the spec.
        manifest: as published; verified before it became visible.
    """

    digest: str
    manifest: Manifest

    @property
    def token(self) -> str:
        """Place in the list: later publications have greater tokens."""
        return f"{self.manifest.published}/{self.digest}"

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(entry.sealed.size for entry in self.manifest.blocks)


class Shelf:
    """Published releases. Each manifest is read once: a release never changes.

    Args:
        storage: the hub's files.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lines: dict[str, Line] = {}
        self._lock = threading.Lock()

    def page(self, size: int, token: str) -> tuple[list[Line], str]:
        """A page of the list, newest first, and the token of the next (empty on the last page).

        Raises:
            InvalidInput: the token was not made here.
        """
        if token and not _TOKEN.fullmatch(token):
            raise InvalidInput("this page token was not given out here")
        size = min(size or LARGEST_PAGE, LARGEST_PAGE)
        lines = sorted(self._all().values(), key=lambda line: line.token, reverse=True)
        rest = [line for line in lines if not token or line.token < token]
        return rest[:size], rest[size - 1].token if len(rest) > size else ""

    def signed_manifest(self, prefix: bytes) -> tuple[bytes, str]:
        """Manifest and signature of the release whose digest starts with a prefix of at least 4 bytes.

        Raises:
            InvalidInput: the prefix is too short, too long, or names several releases.
            NotFound: it names none.
        """
        if not SHORTEST_PREFIX_BYTES <= len(prefix) <= 32:
            raise InvalidInput(f"a release is named by its digest's first {SHORTEST_PREFIX_BYTES} to 32 bytes")
        found = [digest for digest in self._all() if digest.startswith(prefix.hex())]
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} releases start so; give more digits")
        folder = self._storage.published(found[0]) if found else None
        if folder is None:
            raise NotFound("no published release starts so")
        return folder.signed_manifest()

    def block(self, digest: bytes, party: str, offset: int) -> Path:
        """The file of a published block, once it is sure that it exists and reaches to the offset.

        Raises:
            NotFound: no such release or party.
            InvalidInput: the offset lies past the end.
        """
        line = self._all().get(digest.hex())
        entries = {entry.sealed.party: entry.sealed for entry in line.manifest.blocks} if line else {}
        folder = self._storage.published(line.digest) if line else None
        if folder is None or party not in entries:
            raise NotFound("no such published block")
        if offset > entries[party].size:
            raise InvalidInput(f"the block has {entries[party].size} bytes; there is nothing at {offset}")
        return folder.block(party)

    def _all(self) -> dict[str, Line]:
        with self._lock:
            for digest in self._storage.published_digests() - self._lines.keys():
                folder = self._storage.published(digest)
                try:
                    if folder is not None:
                        self._lines[digest] = Line(digest, folder.manifest())
                except DpReleaseError as error:
                    log.error("published release %s cannot be read: %s", digest[:12], error.message)
            return dict(self._lines)
