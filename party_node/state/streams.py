"""State of a hospital's streams between checkpoints: the exact integers of each one's new rows, or our shares of them.

    streams/FIRST/NUMBER.increment      release, shape, and after a line feed the integers, row by row, as little-endian int64

FIRST is the digest of the stream's first spec. A file is written before any noise is drawn for its checkpoint, and replaced only
while no block of that is sealed; the ledger notes its SHA-256 beside those of the blocks. Nothing can make it again.

Source: docs/party.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from dprelease.arrays import Integers
from dprelease.canonical import Digest, Value, sha256
from dprelease.errors import IntegrityError
from dprelease.files.durable import remove_folder, write_secret
from party_node.state.journal import PUBLISHED, Record, Status


class Increment(Value):
    """Which integers a file has."""

    release: Digest
    rows: int
    columns: int


class CheckpointRows(Value):
    """Rows of the table that a stream reads.

    Attributes:
        number: t; the batch that is released now.
        released: earlier checkpoints of which a block was made, or may have been, and digests of the codes that were approved.
    """

    number: int
    released: tuple[tuple[int, str], ...] = ()


class Streams:
    """Increments of all streams of one party."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, stream: str, number: int, release: str, integers: Integers) -> None:
        """Write the (a, b) increment of a checkpoint, in place of one that no block was made of."""
        rows, columns = integers.shape
        header = Increment(release=release, rows=rows, columns=columns).to_bytes()
        data = np.ascontiguousarray(integers, dtype="<i8").data
        write_secret(self._path(stream, number), (header, b"\n", data))

    def digest(self, stream: str, number: int) -> str:
        """SHA-256 of a checkpoint's file; empty where there is none."""
        path = self._path(stream, number)
        return sha256(path.read_bytes()) if path.exists() else ""

    def read(self, stream: str, number: int, noted: str) -> Integers:
        """The increment of a checkpoint.

        Args:
            stream: digest of its first spec.
            number: of the checkpoint.
            noted: SHA-256 of its file, as the ledger has it.

        Raises:
            IntegrityError: it is gone, or not the one that was noted.
        """
        self.check(stream, number, noted)
        header, _, data = self._path(stream, number).read_bytes().partition(b"\n")
        shape = Increment.from_bytes(header)
        return np.frombuffer(data, "<i8").reshape(shape.rows, shape.columns).astype(np.int64)

    def check(self, stream: str, number: int, noted: str) -> None:
        """Refuse to go on without the increment of a checkpoint; raises as `read`."""
        found = self.digest(stream, number)
        if not found or found != noted:
            raise IntegrityError(
                f"what later checkpoints of stream {stream[:12]} add to is {'older' if found else 'gone'}: "
                f"{self._path(stream, number).relative_to(self._folder.parent)} of checkpoint {number}; restore streams/ from "
                "the latest backup, nothing can make it again"
            )

    def kept(self) -> list[str]:
        """First digests of all streams of which something is kept."""
        return sorted(path.name for path in self._folder.glob("*"))

    def erase(self, stream: str) -> None:
        """Forget a stream; again changes nothing."""
        remove_folder(self._folder / stream)

    def _path(self, stream: str, number: int) -> Path:
        return self._folder / stream / f"{number}.increment"


def over(records: Iterable[Record], stages: Mapping[str, str]) -> set[str]:
    """First digests of the streams that have no more checkpoints: the last one was published or spent, or they were ended here."""
    ended = set()
    for record in records:
        place = record.spec.place
        declined = record.status is Status.DECLINED and record.digest == place.stream
        spent = place.number == place.last and record.status is Status.ENDED and stages.get(record.digest) == "send"
        if declined or spent or (record.note == PUBLISHED and place.ended):
            ended.add(place.stream)
    return ended
