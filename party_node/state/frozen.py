"""The rows that an approval commits to, on the hospital's own disk: everything after the approval reads them and not the source.

    frozen/RELEASE/codes    codes in canonical order, row by row, as little-endian int32; then the digest of the checkpoint

The last field is the SHA-256 of what a checkpoint of a stream was compared with, as 64 letters, and zeros for any other release.
The folder goes when the last block is sealed, or when the release ends before that. A node that has lost it reads the source
again, and takes rows only with the digest that was approved.

Source: docs/party.md, "Approved rows".
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from dprelease.arrays import pieces
from dprelease.data.bounding import BoundedRows, codes_digest
from dprelease.data.columns import Column, released_names
from dprelease.files.durable import remove_folder, remove_leftovers, write_secret
from party_node.state.streams import CheckpointRows

_OUTSIDE_STREAMS = "0" * 64


class FrozenRows:
    """The approved rows of one release."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "codes"

    def keep(self, bounded: BoundedRows, at: CheckpointRows | None) -> None:
        """Write rows piece by piece, whole or not at all; on disk when this returns.

        Args:
            bounded: (n, d) codes of our columns.
            at: the checkpoint that they are of; None outside streams.
        """
        remove_leftovers(self._folder)
        codes = (np.ascontiguousarray(piece, "<i4").data for piece in pieces(bounded.codes))
        write_secret(self._path, chain(codes, [_ending(at)]))

    def read(
        self, columns: tuple[Column, ...], grid_bits: int, at: CheckpointRows | None, digest: str | None
    ) -> BoundedRows | None:
        """The approved rows, mapped from the file.

        Returns:
            None where the file is missing or damaged, or other checkpoints were sealed since.
        """
        ending, width = _ending(at), 4 * len(released_names(columns))
        if not self.exists():
            return None
        size = self._path.stat().st_size - len(ending)
        if size <= 0 or size % width:
            return None
        whole = np.asarray(np.memmap(self._path, np.uint8, "r"))
        codes = whole[:size].view("<i4").reshape(size // width, -1)
        if whole[size:].tobytes() != ending or codes_digest(codes, grid_bits) != digest:
            return None
        return BoundedRows(codes, columns, grid_bits)

    def exists(self) -> bool:
        """Tells whether there is a file of them, whatever is in it."""
        return self._path.exists()

    def erase(self) -> None:
        """Forget the rows; again changes nothing."""
        remove_folder(self._folder)


def _ending(at: CheckpointRows | None) -> bytes:
    return (_OUTSIDE_STREAMS if at is None else at.digest()).encode()
