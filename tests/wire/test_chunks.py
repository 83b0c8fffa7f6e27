"""Long byte strings in chunks: whole again on the other side, from any offset, or refused."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import IntegrityError
from dprelease.wire import chunks
from dprelease.wire.chunks import (
    CHUNK_BYTES,
    MAX_CHUNK_BYTES,
    UNDER_WAY_BYTES,
    KnownChecksums,
    check_chunk,
    chunk_bytes,
    encode_chunk,
    read_chunks,
)
from dprelease.wire.v1 import intake_pb2, public_pb2, relay_pb2
from dprelease.wire.v1.release_pb2 import Chunk

GRPC_MESSAGE_LIMIT = 4 << 20


def chunk(offset: int, data: bytes) -> Chunk:
    return Chunk(offset=offset, data=data, crc32=zlib.crc32(data))


def test_the_largest_chunk_fits_into_a_default_message() -> None:
    largest = chunk(2**63, bytes(MAX_CHUNK_BYTES))
    assert CHUNK_BYTES <= MAX_CHUNK_BYTES
    assert largest.ByteSize() + 1024 < GRPC_MESSAGE_LIMIT


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 100])
@pytest.mark.parametrize("offset", [0, 1, 7, 8, 16])
def test_a_file_is_whole_again_from_any_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, offset: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8)
    data = bytes(range(size))
    path = tmp_path / "block"
    path.write_bytes(data)
    held = bytearray(data[:offset])
    for request in read_chunks(path, len(held), intake_pb2.SendBlockRequest):
        assert len(request.chunk.data) <= 8
        held += check_chunk(request.chunk, len(held), size)
    assert bytes(held) == data


@given(data=st.binary(min_size=1, max_size=64), offset=st.integers(0, 2**62), spare=st.integers(0, 3))
def test_what_was_sent_is_what_is_taken(data: bytes, offset: int, spare: int) -> None:
    sent = Chunk.FromString(chunk(offset, data).SerializeToString())
    assert check_chunk(sent, offset, offset + len(data) + spare) == data


@given(data=st.binary(min_size=1, max_size=64), bit=st.integers(0, 511))
def test_a_flipped_bit_is_noticed(data: bytes, bit: int) -> None:
    sent = chunk(0, data)
    position = bit % (8 * len(data))
    damaged = bytearray(data)
    damaged[position // 8] ^= 1 << position % 8
    sent.data = bytes(damaged)
    with pytest.raises(IntegrityError, match="damaged"):
        check_chunk(sent, 0, len(data))


@pytest.mark.parametrize(
    ("sent", "offset", "size", "words"),
    [
        (chunk(0, b""), 0, 4, "a chunk of 0 bytes"),
        (chunk(0, bytes(MAX_CHUNK_BYTES + 1)), 0, 1 << 40, "are allowed"),
        (chunk(4, b"abcd"), 0, 8, "a chunk at 4 where 0 comes next"),
        (chunk(0, b"abcd"), 4, 8, "a chunk at 0 where 4 comes next"),
        (chunk(4, b"abcde"), 4, 8, "past the 8 bytes"),
        (Chunk(offset=0, data=b"abcd", crc32=0), 0, 4, "damaged"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused(sent: Chunk, offset: int, size: int, words: str) -> None:
    with pytest.raises(IntegrityError, match=words):
        check_chunk(sent, offset, size)


@pytest.mark.parametrize("offset", [0, 1, 127, 128, 1 << 20, (1 << 63) - 1])
@pytest.mark.parametrize("size", [1, 127, 128, 70_000])
@pytest.mark.parametrize("checksum", [0, 1, (1 << 32) - 1])
def test_an_encoded_chunk_is_what_protobuf_makes(offset: int, size: int, checksum: int) -> None:
    data = bytes(size)
    chunk = Chunk(offset=offset, data=data, crc32=checksum)
    encoded = encode_chunk(offset, memoryview(data), checksum)
    assert encoded == public_pb2.DownloadBlockResponse(chunk=chunk).SerializeToString()
    assert encoded == relay_pb2.FetchParcelResponse(chunk=chunk).SerializeToString()


def test_chunks_grow_shorter_where_many_download() -> None:
    assert [chunk_bytes(streams) for streams in (0, 1, 64, 65, 1024, 4096, 100_000)] == [
        *(3 * [CHUNK_BYTES]),
        UNDER_WAY_BYTES // 65,
        1 << 16,
        1 << 14,
        1 << 14,
    ]
    # Downloads that stop one after another, each with the chunk that was right when it stopped.
    assert sum(map(chunk_bytes, range(1, 4097))) < 6 * UNDER_WAY_BYTES


def test_a_checksum_is_reckoned_once_for_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    reckoned: list[int] = []
    monkeypatch.setattr("dprelease.wire.chunks.zlib.crc32", lambda data: reckoned.append(len(data)) or 7)
    known = KnownChecksums()
    for stamp in ((1, 10), (1, 10), (1, 11)):  # the last one was changed since
        assert known.of(stamp, 5, memoryview(b"abc")) == 7
    assert known.of((1, 10), 5, memoryview(b"ab")) == 7
    assert reckoned == [3, 3, 2]
