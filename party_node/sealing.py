"""The sealed block on disk: written once, signed once, sent as often as asked, never made again."""

from __future__ import annotations

from pathlib import Path

from dprelease.block import Block, SealedBlock
from dprelease.canonical import sha256
from dprelease.durable import sync_folder, write_durably
from dprelease.errors import IntegrityError
from dprelease.manifest import sign_block
from dprelease.signing import PrivateKey


class Vault:
    """Sealed blocks in the party's state folder. A block counts as sealed once its seal is on disk.

    Args:
        folder: where they are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, release: str) -> Path:
        """The file of a release's block."""
        return self._folder / f"{release}.block"

    def _seal(self, release: str) -> Path:
        return self._folder / f"{release}.seal"

    def seal(self, block: Block, key: PrivateKey) -> SealedBlock:
        """Freeze a block; if the release has one already, that one stands and the new one is dropped."""
        existing = self.find(block.header.spec)
        if existing is not None:
            return existing
        data = block.to_bytes()
        digest = sha256(data)
        sealed = SealedBlock(
            party=block.header.party,
            spec=block.header.spec,
            sha256=digest,
            size=len(data),
            signature=sign_block(key, block.header.spec, digest),
        )
        write_durably(self.path(sealed.spec), data, mode=0o600)
        write_durably(self._seal(sealed.spec), sealed.to_bytes(), mode=0o600)
        return sealed

    def find(self, release: str) -> SealedBlock | None:
        """The seal of a release's block, or None.

        Raises:
            IntegrityError: the block on disk is not the one that was sealed; it must never be sent.
        """
        if not self._seal(release).exists():
            return None
        sealed = SealedBlock.from_bytes(self._seal(release).read_bytes())
        path = self.path(release)
        if not path.exists() or sha256(path.read_bytes()) != sealed.sha256:
            raise IntegrityError(f"the sealed block of release {release[:12]} was altered on disk; restore it")
        return sealed

    def discard(self, release: str) -> None:
        """Destroy a block that never left, after its reservation was given back; again changes nothing."""
        there = [path for path in (self._seal(release), self.path(release)) if path.exists()]
        for path in there:
            path.unlink()
        if there:
            sync_folder(self._folder)
