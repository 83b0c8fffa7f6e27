"""The hub's list of what is published: in memory, and as published/index.json for mirrors, which cannot list by themselves.

It is made from the manifests of the releases beside it, and whatever is wrong with the file is mended at the next start.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from dprelease.errors import DpReleaseError, IntegrityError, InvalidInput
from dprelease.files.durable import write_durably
from dprelease.release.folder import ReleaseFolder
from learner.listing import INDEX, Index, Listed

log = logging.getLogger(__name__)

_DIGEST = re.compile(r"[0-9a-f]{64}")


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
