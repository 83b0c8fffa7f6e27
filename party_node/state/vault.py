"""The sealed blocks on disk. Ours are written once, signed once, sent as often as asked, never made again.

    sealed/RELEASE.SEQUENCE.block         a block of ours
    rounds/RELEASE/PARTY.SEQUENCE.block   a block of an earlier round as its party sealed it
    rounds/RELEASE/kept.json              which of these count, once all of a round are here and were checked

The next round builds on the same blocks whatever the hub says later. They go when the release is over. A node that loses them
fetches them again: a session in which hospitals do not mean the same blocks ends before anything is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from dprelease.canonical import Value, sha256
from dprelease.errors import IntegrityError
from dprelease.files.durable import remove_folder, sync_folder, write_secret
from dprelease.identity.signing import PrivateKey
from dprelease.release.block import Block, SealedBlock
from dprelease.release.manifest import sealed_block


class Seal(Value):
    """Sealed blocks of a release that count: of one party by sequence number, or of all round after round."""

    most_bytes: ClassVar[None] = None

    blocks: tuple[SealedBlock, ...]


class Vault:
    """Sealed blocks in the party's state folder. Blocks of a round count as sealed, all at once, once the seal on disk has them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, release: str, sequence: int = 0) -> Path:
        """The file of one of a release's blocks."""
        return self._folder / f"{release}.{sequence}.block"

    def _seal(self, release: str) -> Path:
        return self._folder / f"{release}.seal"

    def seal(self, blocks: tuple[Block, ...], key: PrivateKey) -> tuple[SealedBlock, ...]:
        """Freeze all blocks of a round; if it has sealed ones already, these stand and the new ones are dropped.

        Returns:
            The sealed blocks of all rounds so far.

        Raises:
            IntegrityError: a block on disk was altered, or one of an earlier round is not there.
        """
        release, first = blocks[0].header.spec, blocks[0].header.sequence
        existing = self.find(release)
        if len(existing) > first:
            return existing
        if len(existing) < first:
            raise IntegrityError(f"a block of an earlier round of release {release[:12]} is gone from sealed/")
        sealed = [*existing]
        for block in blocks:
            data = block.to_bytes()
            sealed.append(sealed_block(key, block.header, data))
            write_secret(self.path(release, block.header.sequence), [data])
        seal = Seal(blocks=tuple(sealed))
        write_secret(self._seal(release), [seal.to_bytes()])
        return seal.blocks

    def find(self, release: str) -> tuple[SealedBlock, ...]:
        """The sealed blocks of a release, by sequence number; none of a round before all of it are sealed.

        Raises:
            IntegrityError: a block on disk is not the one that was sealed; it must never be sent.
        """
        if not self._seal(release).exists():
            return ()
        blocks = Seal.from_bytes(self._seal(release).read_bytes()).blocks
        for sealed in blocks:
            path = self.path(release, sealed.sequence)
            if not path.exists() or sha256(path.read_bytes()) != sealed.sha256:
                raise IntegrityError(
                    f"sealed block {sealed.sequence} of release {release[:12]} was altered on disk; restore it"
                )
        return blocks

    def check(self, release: str, made: tuple[str, ...]) -> None:
        """Refuse to build on blocks that are not here as they were made.

        Raises:
            IntegrityError: one is gone or was altered.
        """
        for sequence, digest in enumerate(made):
            path = self.path(release, sequence)
            if not path.exists() or sha256(path.read_bytes()) != digest:
                raise IntegrityError(
                    f"block {sequence} of release {release[:12]}, which this one begins with, is "
                    f"{'not the one that was made' if path.exists() else 'gone'}; restore sealed/ from the latest backup"
                )

    def holds(self, release: str) -> bool:
        """Tells whether any block of a release counts as sealed; its bytes are not looked at."""
        return self._seal(release).exists()

    def discard(self, release: str) -> None:
        """Destroy blocks that never left, after their reservation was given back; again changes nothing."""
        there = [path for path in (self._seal(release), *self._folder.glob(f"{release}.*.block")) if path.exists()]
        for path in there:
            path.unlink()
        if there:
            sync_folder(self._folder)


class RoundFolder:
    """Blocks that all parties sent in earlier rounds of one release."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kept(self) -> tuple[SealedBlock, ...]:
        """The blocks that count, in the order in which they were kept."""
        return Seal.from_bytes(self._list.read_bytes()).blocks if self._list.exists() else ()

    def keep(self, blocks: Mapping[SealedBlock, bytes]) -> None:
        """Make blocks of a round count, all together, after those of the rounds before."""
        for sealed, data in blocks.items():
            write_secret(self._path(sealed), [data])
        write_secret(self._list, [Seal(blocks=(*self.kept(), *blocks)).to_bytes()])

    def read(self, sealed: SealedBlock) -> bytes:
        """The bytes of a block that counts.

        Raises:
            IntegrityError: they are gone, or not those that were kept.
        """
        path = self._path(sealed)
        data = path.read_bytes() if path.exists() else b""
        if sha256(data) != sealed.sha256:
            raise IntegrityError(
                f"{sealed.key.words} was altered in {self._folder}; remove the folder, to fetch it again"
            )
        return data

    def erase(self) -> None:
        """Forget them; again changes nothing."""
        remove_folder(self._folder)

    @property
    def _list(self) -> Path:
        return self._folder / "kept.json"

    def _path(self, sealed: SealedBlock) -> Path:
        return self._folder / f"{sealed.party}.{sealed.sequence}.block"
