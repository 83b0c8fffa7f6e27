"""A release as files: the same layout at the hub, at a learner and in a dry run, so that a copied folder verifies as it is.

    manifest.json   canonical bytes of the manifest
    manifest.sig    the hub's signature, hexadecimal
    blocks/NAME.block

Nothing in it is believed before `ReleaseFolder.verify` has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dprelease.durable import write_durably
from dprelease.errors import IntegrityError, InvalidInput, NotFound
from dprelease.manifest import Manifest
from dprelease.release import Release
from dprelease.verification import verify_release

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
BLOCKS = "blocks"


@dataclass(frozen=True)
class ReleaseFolder:
    """A folder that holds a release, or is being filled with one."""

    path: Path

    def block(self, party: str) -> Path:
        """Where the block of a party stands; the name comes from a checked spec or manifest."""
        return self.path / BLOCKS / f"{party}.block"

    def write_manifest(self, data: bytes, signature: str) -> None:
        """Write the manifest and its signature durably."""
        write_durably(self.path / SIGNATURE, signature.encode())
        write_durably(self.path / MANIFEST, data)

    def signed_manifest(self) -> tuple[bytes, str]:
        """The manifest's bytes and the hub's signature, unchecked.

        Raises:
            NotFound: the folder holds no release.
        """
        try:
            data, signature = (self.path / MANIFEST).read_bytes(), (self.path / SIGNATURE).read_bytes()
        except OSError as error:
            raise NotFound(f"{self.path} holds no release: {MANIFEST} or {SIGNATURE} cannot be read") from error
        return data, signature.decode("ascii", "replace").strip()

    def manifest(self) -> Manifest:
        """The manifest, unchecked: enough to name the release, never to believe it.

        Raises:
            NotFound: the folder holds no release.
            IntegrityError: the manifest is malformed.
        """
        try:
            return Manifest.from_bytes(self.signed_manifest()[0])
        except InvalidInput as error:
            raise IntegrityError(error.message) from error

    def verify(self, root_pem: str) -> Release:
        """Check manifest and blocks against a pinned root, offline.

        Raises:
            NotFound: the folder holds no release.
            IntegrityError: any link of the chain is broken.
        """
        data, signature = self.signed_manifest()
        return verify_release(data, signature, self._read_block, root_pem)

    def _read_block(self, party: str) -> bytes:
        try:
            return self.block(party).read_bytes()
        except OSError as error:
            raise IntegrityError(f"the block of {party} is missing; fetch the release again") from error
