"""Long byte strings in chunks of about 1 MiB, each with its offset and checksum."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

from dprelease.errors import IntegrityError
from dprelease.wire.call import Call
from dprelease.wire.v1 import release_pb2

CHUNK_BYTES = 1 << 20
SHORTEST_CHUNK_BYTES = 1 << 16
UNDER_WAY_BYTES = 1 << 28
"""Most that the chunks of all downloads of a listener may take at once: with many downloads chunks become shorter."""

MAX_CHUNK_BYTES = 2 << 20
"""Largest chunk accepted; well under gRPC's default message limit of 4 MiB."""


def read_chunks(path: Path, offset: int) -> Iterator[release_pb2.Chunk]:
    """The chunks of a file from an offset to its end."""
    with path.open("rb") as file:
        file.seek(offset)
        while data := file.read(CHUNK_BYTES):
            yield release_pb2.Chunk(offset=offset, data=data, crc32=zlib.crc32(data))
            offset += len(data)


def chunk_bytes(streams: int) -> int:
    """How long a chunk is while so many downloads are under way."""
    return max(SHORTEST_CHUNK_BYTES, min(CHUNK_BYTES, UNDER_WAY_BYTES // max(1, streams)))


async def stream_chunks(
    call: Call, path: Path, offset: int, streams: Callable[[], int]
) -> AsyncGenerator[release_pb2.Chunk, None]:
    """The chunks of a file from an offset to its end, for a download: the next one is read while one is sent.

    Args:
        call: the download.
        path: the file; opened for each chunk, so that a call that waits holds none.
        offset: of the first byte.
        streams: how many downloads are under way.

    Raises:
        OSError: the file cannot be read.
    """

    def begin(start: int) -> asyncio.Future[release_pb2.Chunk]:
        return call.start(_read_chunk, path, start, chunk_bytes(streams()))

    ahead = begin(offset)
    try:
        while (chunk := await ahead).data:
            ahead = begin(chunk.offset + len(chunk.data))
            yield chunk
    finally:
        ahead.cancel()


def _read_chunk(path: Path, offset: int, size: int) -> release_pb2.Chunk:
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        data = file.read(size)
    return release_pb2.Chunk(offset=offset, data=data, crc32=zlib.crc32(data))


def check_chunk(chunk: release_pb2.Chunk, offset: int, size: int) -> bytes:
    """The bytes of a chunk that must continue at an offset within a string of known size.

    Raises:
        IntegrityError: empty, too long, not the next one, past the end, or damaged on the way.
    """
    if not 0 < len(chunk.data) <= MAX_CHUNK_BYTES:
        raise IntegrityError(f"a chunk of {len(chunk.data)} bytes; 1 to {MAX_CHUNK_BYTES} are allowed")
    if chunk.offset != offset:
        raise IntegrityError(f"a chunk at {chunk.offset} where {offset} comes next")
    if offset + len(chunk.data) > size:
        raise IntegrityError(f"a chunk reaches past the {size} bytes that were announced")
    if zlib.crc32(chunk.data) != chunk.crc32:
        raise IntegrityError(f"the chunk at {offset} was damaged on the way")
    return chunk.data
