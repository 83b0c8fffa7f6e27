"""Blocks of a release's earlier rounds on the hospital's own disk: the same ones for the next round, whatever the hub says later.

    rounds/RELEASE/PARTY.SEQUENCE.block   a block as its party sealed it
    rounds/RELEASE/kept.json              which blocks count, once all of a round are here and were checked

Everything is removed when the release is over. A node that loses it fetches it again: a session in which hospitals do not
mean the same blocks ends before anything is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.errors import IntegrityError
from dprelease.files.durable import make_folder, remove_folder, write_durably
from dprelease.release.block import SealedBlock
from party_node.state.vault import Seal

_SECRET = 0o600


class EarlierRounds:
    """Blocks that all parties sent in earlier rounds of one release."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kept(self) -> tuple[SealedBlock, ...]:
        """The blocks that count, in the order in which they were kept."""
        return Seal.from_bytes(self._list.read_bytes()).blocks if self._list.exists() else ()

    def keep(self, blocks: Mapping[SealedBlock, bytes]) -> None:
        """Make blocks of a round count, all together, after those of the rounds before."""
        make_folder(self._folder)
        for sealed, data in blocks.items():
            write_durably(self._path(sealed), data, mode=_SECRET)
        write_durably(self._list, Seal(blocks=(*self.kept(), *blocks)).to_bytes(), mode=_SECRET)

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
