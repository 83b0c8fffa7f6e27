"""The learner's own folder of releases. A release gets in only after it has verified, and is verified at every use."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import IntegrityError, InvalidInput, NotFound
from dprelease.files.durable import rename_durably, write_durably
from dprelease.files.home import RELEASES
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release
from learner.client.pinned_roots import Trusted, TrustStore

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"([0-9a-f]{2}){4,32}")


@dataclass(frozen=True)
class Opened:
    """A release that has just been verified."""

    folder: ReleaseFolder
    consortium: Trusted
    manifest: Manifest
    release: Release


def open_verified(folder: ReleaseFolder, trust: TrustStore, name: str | None = None) -> Opened:
    """Verify a release against the pinned root of its consortium, or of a named one; nothing else gives a `Release` to a command.

    Args:
        folder: the release.
        trust: pinned roots.
        name: the consortium that it must come from; the one it names unless given.

    Raises:
        NotFound: no release there, or its consortium is not trusted.
        IntegrityError: any link of the chain is broken.
    """
    manifest = folder.manifest()
    consortium = trust.get(name or manifest.spec.consortium)
    release = folder.verify(consortium.root)
    check_origin(manifest, consortium)
    return Opened(folder, consortium, manifest, release)


def open_release(home: Path, release: str, name: str | None = None) -> Opened:
    """Find a release in a learner's folder or any other one, and verify it; raises as `Library.find` and `open_verified`."""
    return open_verified(Library(home).find(release), TrustStore(home), name)


def check_origin(manifest: Manifest, consortium: Trusted) -> None:
    """Refuse a release of another consortium, even under the same root.

    Raises:
        IntegrityError: it is one.
    """
    if manifest.spec.consortium != consortium.name:
        named = manifest.spec.consortium
        raise IntegrityError(
            f"this is a release of {named}, not of {consortium.name}; if its root is the one that you pinned under that name, "
            f"pin it as {named} (learner trust add {named})"
        )


def check_prefix(text: str) -> str:
    """The first 8 to 64 hexadecimal digits of a release's digest, in lower case.

    Raises:
        InvalidInput: it is something else.
    """
    if not _PREFIX.fullmatch(text.lower()):
        raise InvalidInput(f"{text!r} does not name a release; give an even number of 8 to 64 hexadecimal digits")
    return text.lower()


class Library:
    """Fetched releases, and those that are being fetched."""

    def __init__(self, home: Path) -> None:
        self._releases, self._partial, self._streams = (home / name for name in (RELEASES, "partial", "streams"))

    def kept(self, digest: str) -> ReleaseFolder:
        """Folder of a fetched release, which need not be there."""
        return ReleaseFolder(self._releases / digest)

    def holds_sound(self, digest: str, consortium: Trusted) -> bool:
        """Tells whether the release is here and verifies; one that no longer does is removed."""
        kept = self.kept(digest)
        try:
            kept.verify(consortium.root)
        except (NotFound, IntegrityError):
            shutil.rmtree(kept.path, ignore_errors=True)
            return False
        return True

    def draft(self, digest: str) -> ReleaseFolder:
        """Folder into which a release is being fetched."""
        return ReleaseFolder(self._partial / digest)

    def keep(self, digest: str) -> ReleaseFolder:
        """Move a verified draft to the fetched releases, whole."""
        kept = self.kept(digest)
        if kept.path.exists():
            shutil.rmtree(self.draft(digest).path)
        else:
            rename_durably(self.draft(digest).path, kept.path)
        return kept

    def followed(self, stream: str) -> str | None:
        """Digest of the checkpoint up to which a stream was found to continue itself; None where none was followed.

        Raises:
            IntegrityError: the note of it is damaged.
        """
        note = self._streams / stream
        try:
            digest = note.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return None
        if not _DIGEST.fullmatch(digest):
            raise IntegrityError(f"{note} is damaged; remove it, and the stream is checked from its beginning")
        return digest

    def keep_followed(self, stream: str, digest: str) -> None:
        """Note how far a stream was followed."""
        write_durably(self._streams / stream, digest.encode())

    def find(self, name: str) -> ReleaseFolder:
        """The release that a person means: a fetched one by its digest's first digits, or any folder that holds one.

        Raises:
            NotFound: there is none.
            InvalidInput: the digits fit several, or it is neither digits nor a folder.
        """
        digits = _PREFIX.fullmatch(name.lower())
        if digits:
            found = sorted(self._releases.glob(f"{name.lower()}*"))
            if len(found) > 1:
                raise InvalidInput(f"{len(found)} fetched releases start with {name}; give more digits")
            if found:
                return ReleaseFolder(found[0])
        if os.path.isdir(name):  # noqa: PTH112 - false also of a text too long for a name
            return ReleaseFolder(Path(name))
        if not digits:
            raise InvalidInput(
                f"{name!r} does not name a release: no folder is there, and it is no even number of 8 to 64 hexadecimal digits"
            )
        raise NotFound(f"release {name} is not here; learner list shows what the hub has; then: learner fetch {name}")
