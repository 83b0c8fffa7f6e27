"""Long byte strings in chunks of about 1 MiB, each with its offset and checksum."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from isal.isal_zlib import crc32

from dprelease.errors import IntegrityError
from dprelease.threads import ahead
from dprelease.wire.call import Call
from dprelease.wire.limits import MAX_CHUNK_BYTES
from dprelease.wire.retry import PROGRESS_BYTES, STALL_SECONDS, ProgressDeadline
from dprelease.wire.v1 import release_pb2

CHUNK_BYTES = 1 << 20
SHORTEST_CHUNK_BYTES = 1 << 14
UNDER_WAY_BYTES = 1 << 26
"""Memory for the next chunks of all downloads of a listener together: with many downloads chunks become shorter.

A chunk that its reader does not take has about four copies on its way through us and gRPC.
"""


def read_chunks(source: Path | bytes, offset: int, first: Any) -> Iterator[bytes]:
    """The chunks of a file, or of bytes, from an offset to its end, for an upload, each as an encoded message.

    The next one is read while one is sent. To let protobuf encode it takes forty times the processor's time.

    Args:
        source: the file, or all of its bytes.
        offset: of the first byte.
        first: a message without its field ``chunk``; its fields go with the first chunk.
    """
    field = first.DESCRIPTOR.fields_by_name["chunk"].number

    def chunks(start: int) -> Iterator[bytes]:
        lead, size = first.SerializeToString(), CHUNK_BYTES
        while data := source[start : start + size] if isinstance(source, bytes) else OpenFile(source).read(start, size):
            yield lead + encode_chunk(start, memoryview(data), field)
            lead, start = b"", start + len(data)

    return ahead(chunks(offset))


def chunk_bytes(streams: int) -> int:
    """How long a chunk is while so many downloads are under way."""
    return max(SHORTEST_CHUNK_BYTES, min(CHUNK_BYTES, UNDER_WAY_BYTES // max(1, streams)))


class OpenFile:
    """A file that is open for as long as anybody reads it.

    Args:
        path: of the file; raises OSError if it cannot be opened.
    """

    handle = -1

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)

    def read(self, offset: int, size: int) -> bytes:
        """At most so many bytes from a place on."""
        return os.pread(self.handle, size, offset)


KEPT_SECONDS = 1.0
MOST_KEPT = 256


class OpenFiles:
    """Files that were opened within the last second: a crowd asks for the same one, and to open it takes a thread.

    One that was moved away may be given for a second more. It belongs to the event loop.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, OpenFile] = {}

    async def get(self, call: Call, find: Callable[..., Path], *which: Hashable) -> OpenFile:
        """The file that a function finds, on a thread.

        Args:
            call: asks for it.
            find: from `which` to the path.
            which: tells the file from all others here.
        """
        kept = self._kept.get(which)
        if kept is not None and os.fstat(kept.handle).st_nlink:  # 0 once it was removed, or another took its place
            return kept
        file = await call.work(lambda: OpenFile(find(*which)))
        if len(self._kept) < MOST_KEPT:
            self._kept[which] = file
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._kept.pop, which, None)
        return file


async def stream_chunks(
    call: Call, opened: Callable[[], Awaitable[OpenFile]], offset: int, streams: Callable[[], int]
) -> AsyncGenerator[bytes, None]:
    """The chunks of a file from an offset to its end, each as an encoded message whose first field is a `Chunk`.

    A part that the system has in memory is read at once; a thread is taken only where a disk has to be waited for.

    Args:
        call: the download.
        opened: the file.
        offset: of the first byte.
        streams: how many downloads are under way.

    Raises:
        OSError: the file cannot be read.
        DpReleaseError: as `opened` does.
    """
    file = await opened()
    while True:
        size = chunk_bytes(streams())
        data = _read_from_memory(file.handle, offset, size)
        if data is None:
            data = memoryview(await call.work(file.read, offset, size))
        if not data:
            return
        yield encode_chunk(offset, data)
        offset += len(data)


_BUFFER = bytearray(CHUNK_BYTES)
"""Used by the event loop alone, and never across an await: a fresh mebibyte for each chunk costs more than its reading."""


def _read_from_memory(handle: int, offset: int, size: int) -> memoryview | None:
    """Part of a file that the system has in memory, or None if it has to ask a disk."""
    if not hasattr(os, "RWF_NOWAIT"):
        return None
    whole = memoryview(_BUFFER)
    try:
        return whole[: os.preadv(handle, [whole[:size]], offset, os.RWF_NOWAIT)]
    except OSError:  # not in memory, or a file system that cannot tell
        return None


def encode_chunk(offset: int, data: memoryview, field: int = 1) -> bytes:
    """A message one field of which is a `Chunk`, as protobuf encodes it, with one copy of the data instead of four."""
    lead = (b"\x08" + _varint(offset) if offset else b"") + b"\x12" + _varint(len(data))
    checksum = crc32(data)
    end = b"\x1d" + checksum.to_bytes(4, "little") if checksum else b""
    return b"".join((_varint(field << 3 | 2), _varint(len(lead) + len(data) + len(end)), lead, data, end))


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def check_chunk(chunk: release_pb2.Chunk, offset: int, size: int) -> bytes:
    """The bytes of a chunk that must continue at an offset within a string of known size.

    Raises:
        IntegrityError: empty, too long, not the next one, past the end, or damaged on the way.
    """
    data = chunk.data  # a copy each time that it is asked for
    if not 0 < len(data) <= MAX_CHUNK_BYTES:
        raise IntegrityError(f"a chunk of {len(data)} bytes; 1 to {MAX_CHUNK_BYTES} are allowed")
    if chunk.offset != offset:
        raise IntegrityError(f"a chunk at {chunk.offset} where {offset} comes next")
    if offset + len(data) > size:
        raise IntegrityError(f"a chunk reaches past the {size} bytes that were announced")
    if crc32(data) != chunk.crc32:
        raise IntegrityError(f"the chunk at {offset} was damaged on the way")
    return data


def received(call: Any, position: int, size: int, stall_seconds: float = STALL_SECONDS) -> Iterator[bytes]:
    """The bytes of a stream of chunks that may take as long as it needs, as long as it moves: one that trickles does not.

    Args:
        call: whose answers have a field ``chunk``.
        position: of the first byte that is still lacking.
        size: of the whole string; the stream may end before.
        stall_seconds: longest stand-still before it is given up.

    Raises:
        IntegrityError: a chunk is not the next one, or is damaged.
        grpc.RpcError: as the peer answers, or the stream stood still.
    """
    with ProgressDeadline(call.cancel, stall_seconds) as deadline, ExitStack() as ending:
        ending.callback(call.cancel)  # whoever reads may stop before its end
        noted = position
        for answer in call:
            data = check_chunk(answer.chunk, position, size)
            position += len(data)
            moved = position - noted >= PROGRESS_BYTES
            if moved:
                noted = position
                deadline.moved()
            yield data
            if moved:
                deadline.moved()  # the time that our disk took is not the peer's
