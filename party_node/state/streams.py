"""What a hospital keeps of its streams between checkpoints: the exact integers of each one's new rows, or our shares of them.

    streams/FIRST/NUMBER.increment      release, shape, and after a line feed the integers, row by row, as little-endian int64
    streams/FIRST/NUMBER.prefix         the file of the table when its rows were read; who loses it reads the whole file again

FIRST is the digest of the stream's first spec. A file is written before any noise is drawn for its checkpoint, and replaced only
while no block of that is sealed; the ledger notes its SHA-256 beside those of the blocks. Nothing can make it again.

Source: docs/party.md, "Streams".
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from dprelease.canonical import Digest, Value, sha256
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.files.durable import sync_folder, write_durably
from dprelease.mechanisms.continual import Continual, Integers
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.spec import ReleaseSpec
from party_node.state.journal import PUBLISHED, Record, Status

_SECRET = 0o600


class Increment(Value):
    """Which integers a file has.

    Attributes:
        release: spec digest of the checkpoint.
        rows: of the integers.
        columns: of the integers.
    """

    release: Digest
    rows: int
    columns: int


class Prefix(Value):
    """The beginning of a file.

    Attributes:
        size: bytes; a row ends there.
        sha256: of them.
        settings: digest of what says how the file is read.
        rows: in them, header aside.
        latest: largest number of a batch in them, which has all rows that any batch up to it had.
        released: checkpoint and digest of its rows' codes, of those whose rows were compared in it.
    """

    most_bytes: ClassVar[None] = None

    size: int
    sha256: Digest
    settings: Digest
    rows: int
    latest: int
    released: tuple[tuple[int, Digest], ...]


class Streams:
    """Increments of all streams of one party.

    Args:
        folder: where they are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, stream: str, number: int, release: str, integers: Integers) -> None:
        """Write the (a, b) increment of a checkpoint, in place of one that no block was made of."""
        rows, columns = integers.shape
        header = Increment(release=release, rows=rows, columns=columns).to_bytes()
        data = np.ascontiguousarray(integers, dtype="<i8").tobytes()
        write_durably(self._path(stream, number), header + b"\n" + data, mode=_SECRET)

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

    def note(self, stream: str, number: int, prefix: Prefix) -> None:
        """Remember what was read for a checkpoint, and what was for the one before; more is not needed."""
        for older in self._noted(stream, number)[:-1]:
            self._prefix(stream, older).unlink()
        write_durably(self._prefix(stream, number), prefix.to_bytes(), mode=_SECRET)

    def prefix(self, stream: str, number: int) -> Prefix | None:
        """What was read for the checkpoint before; None where that is not known."""
        noted = self._noted(stream, number)
        return Prefix.from_bytes(self._prefix(stream, noted[-1]).read_bytes()) if noted else None

    def _noted(self, stream: str, number: int) -> list[int]:
        found = (int(path.stem) for path in (self._folder / stream).glob("*.prefix"))
        return sorted(each for each in found if each < number)

    def _prefix(self, stream: str, number: int) -> Path:
        return self._folder / stream / f"{number}.prefix"

    def kept(self) -> list[str]:
        """First digests of all streams of which something is kept."""
        return sorted(path.name for path in self._folder.glob("*"))

    def erase(self, stream: str) -> None:
        """Forget a stream; again changes nothing."""
        if (self._folder / stream).exists():
            shutil.rmtree(self._folder / stream)
            sync_folder(self._folder)

    def _path(self, stream: str, number: int) -> Path:
        return self._folder / stream / f"{number}.increment"


def over(records: Iterable[Record], stages: Mapping[str, str]) -> set[str]:
    """First digests of the streams that have no more checkpoints: the last one was published or spent, or they were ended here.

    Args:
        records: of all releases.
        stages: release to the last thing that the ledger says of it.
    """
    ended = set()
    for record in records:
        continual = mechanism_of(record.spec).continual
        if continual is not None:
            stream = continual.stream(record.spec)
            declined = record.status is Status.DECLINED and record.release == stream
            at_end = continual.last(record.spec) == continual.checkpoint(record.spec)
            spent = at_end and record.status is Status.ENDED and stages.get(record.release) == "send"
            if declined or spent or (record.note == PUBLISHED and _is_last(continual, record.spec)):
                ended.add(stream)
    return ended


def _is_last(continual: Continual, spec: ReleaseSpec) -> bool:
    try:
        continual.following(spec, continual.checkpoint(spec) + 1, 1)
    except InvalidInput:
        return True
    return False
