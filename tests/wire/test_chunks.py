"""Long byte strings in chunks: whole again on the other side, from any offset, or refused.

A stream may take as long as it needs, as long as it moves. Time is handed in; nothing here waits and hopes.

An idle connection stays up: the client's pings are ones that the server allows. Hours are scaled down to seconds.
"""

import asyncio
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import IntegrityError
from dprelease.wire import chunks, retry, transport
from dprelease.wire import listener as listener_module
from dprelease.wire.call import Call
from dprelease.wire.chunks import (
    CHUNK_BYTES,
    MAX_CHUNK_BYTES,
    UNDER_WAY_BYTES,
    OpenFile,
    OpenFiles,
    check_chunk,
    chunk_bytes,
    encode_chunk,
    read_chunks,
)
from dprelease.wire.listener import Listener
from dprelease.wire.retry import ProgressDeadline
from dprelease.wire.transport import connect
from dprelease.wire.v1 import intake_pb2, public_pb2, relay_pb2
from dprelease.wire.v1.release_pb2 import Chunk
from tests.support.certificates import HOST, Authority, Member
from tests.wire.test_transport import decline, serving

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
    first = intake_pb2.SendBlockRequest(spec_digest=b"spec", sequence=3)
    encoded = list(read_chunks(path, len(held), first))
    requests = [intake_pb2.SendBlockRequest.FromString(each) for each in encoded]
    assert [each.SerializeToString() for each in requests[1:]] == encoded[1:]
    assert all((each.spec_digest, each.sequence) == (b"spec", 3) for each in requests[:1])
    for request in requests:
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


def test_the_bytes_of_a_chunk_are_copied_out_of_its_message_once() -> None:
    copied: list[bytes] = []

    class Watched:
        offset, crc32 = 0, zlib.crc32(b"abcd")

        @property
        def data(self) -> bytes:
            copied.append(b"abcd")
            return copied[-1]

    assert check_chunk(Watched(), 0, 4) is copied[0]  # type: ignore[arg-type] # what is read of a chunk
    assert len(copied) == 1


@pytest.mark.parametrize("offset", [0, 1, 127, 128, 1 << 20, (1 << 63) - 1])
@pytest.mark.parametrize(
    "data", [b"\0", bytes(127), bytes(range(128)), bytes(range(250)) * 300, b"\x9d\x0a\xd9\x6d"]
)  # the last has checksum 0
def test_an_encoded_chunk_is_what_protobuf_makes(offset: int, data: bytes) -> None:
    made = chunk(offset, data)
    encoded = encode_chunk(offset, memoryview(data))
    assert encoded == public_pb2.DownloadBlockResponse(chunk=made).SerializeToString()
    assert encoded == relay_pb2.FetchParcelResponse(chunk=made).SerializeToString()


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


LONG = 3600.0
SHORT = 0.01
PATIENCE = 30.0
"""How long a test waits for what must happen before it gives up."""


def test_standing_still_cancels_once() -> None:
    calls: list[int] = []
    cancelled = threading.Event()

    def cancel() -> None:
        calls.append(1)
        cancelled.set()

    with ProgressDeadline(cancel, SHORT) as deadline:
        assert cancelled.wait(PATIENCE)
    assert deadline.stalled
    assert calls == [1]


def test_a_stream_that_ends_in_time_is_not_cancelled() -> None:
    calls: list[int] = []
    with ProgressDeadline(lambda: calls.append(1), LONG) as deadline:
        deadline.moved()
    assert not deadline.stalled
    assert calls == []


def test_an_error_within_is_passed_on_and_ends_the_watch() -> None:
    calls: list[int] = []
    with pytest.raises(KeyError), ProgressDeadline(lambda: calls.append(1), LONG):
        raise KeyError
    assert calls == []


class Clock:
    """Time that only moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Steps(threading.Event):
    """Stands in for the event that the watch waits on: hands each wait to the test and takes its time from there."""

    def __init__(self, clock: Clock, script: list[float]) -> None:
        super().__init__()
        self.clock, self.script, self.waited = clock, script, []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        if not self.script:
            return True
        self.clock.now += self.script.pop(0)
        return False


def watch(
    monkeypatch: pytest.MonkeyPatch, script: list[float], moves: int
) -> tuple[ProgressDeadline, list[int], Steps]:
    """Run the watch in this thread: `script` is how long each of its waits takes; the stream moves after the first `moves`."""
    clock = Clock()
    monkeypatch.setattr(retry, "time", clock)
    calls: list[int] = []
    deadline = ProgressDeadline(lambda: calls.append(1), 10.0)
    steps = Steps(clock, script)
    original = steps.wait

    def wait(timeout: float | None = None) -> bool:
        done = original(timeout)
        if len(steps.waited) <= moves:
            deadline.moved()
        return done

    monkeypatch.setattr(steps, "wait", wait)
    monkeypatch.setattr(deadline, "_done", steps)
    deadline._watch()
    return deadline, calls, steps


def test_each_move_starts_the_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline, calls, steps = watch(monkeypatch, [9.0, 9.0, 9.0], moves=3)
    assert not deadline.stalled
    assert calls == []
    assert steps.waited == [10.0, 10.0, 10.0, 10.0]


def test_the_time_counts_from_the_last_move(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline, calls, steps = watch(monkeypatch, [9.0, 4.0, 6.0, 1.0], moves=1)
    assert deadline.stalled
    assert calls == [1]
    assert steps.waited == [10.0, 10.0, 6.0]


SCALE = 300
"""How much faster pings go here: a minute becomes a fifth of a second."""


def _scaled(options: list[tuple[str, int]], scale: float) -> list[tuple[str, int]]:
    return [(key, int(value / scale) if key.endswith("_ms") else value) for key, value in options]


def test_the_two_sides_match() -> None:
    client, server = dict(transport._CLIENT_OPTIONS), dict(listener_module._SERVER_OPTIONS)
    assert client["grpc.keepalive_time_ms"] > server["grpc.http2.min_ping_interval_without_data_ms"]
    assert client["grpc.keepalive_permit_without_calls"] == server["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.http2.max_pings_without_data"] == 0


def _states(listener: Listener, authority: Authority, party: Member, seconds: float) -> list[grpc.ChannelConnectivity]:
    """What a channel goes through while it is idle, from ready on."""
    seen: list[grpc.ChannelConnectivity] = []
    lost = threading.Event()
    with connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as channel:
        grpc.channel_ready_future(channel).result(timeout=20)

        def note(state: grpc.ChannelConnectivity) -> None:
            seen.append(state)
            if state is not grpc.ChannelConnectivity.READY:
                lost.set()

        channel.subscribe(note)
        lost.wait(seconds)
        channel.unsubscribe(note)
    return seen


@pytest.mark.slow
def test_an_idle_hour_leaves_the_connection_up(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, party: Member, server: Member
) -> None:
    monkeypatch.setattr(transport, "_CLIENT_OPTIONS", _scaled(transport._CLIENT_OPTIONS, SCALE))
    monkeypatch.setattr(listener_module, "_SERVER_OPTIONS", _scaled(listener_module._SERVER_OPTIONS, SCALE))
    with serving(server, authority.root) as listener:
        assert _states(listener, authority, party, 3600 / SCALE) == [grpc.ChannelConnectivity.READY]
        decline(listener.port, party.credentials(authority.root))


@pytest.mark.slow
def test_a_server_that_allows_fewer_pings_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, party: Member, server: Member
) -> None:
    monkeypatch.setattr(transport, "_CLIENT_OPTIONS", _scaled(transport._CLIENT_OPTIONS, SCALE))
    with serving(server, authority.root) as listener:
        assert len(_states(listener, authority, party, 60.0)) > 1


def test_a_file_is_opened_once_for_a_crowd_and_anew_once_it_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "KEPT_SECONDS", 0)
    (tmp_path / "block").write_bytes(b"abcd")
    found: list[str] = []

    def find(name: str) -> Path:
        found.append(name)
        return tmp_path / name

    class Caller:
        async def work(self, function: Callable[[], OpenFile]) -> OpenFile:
            return function()

    async def ask() -> None:
        files, call = OpenFiles(), cast("Call", Caller())
        one, two = [await files.get(call, find, "block") for _ in range(2)]
        assert one is two
        assert one.read(1, 9) == b"bcd"
        (tmp_path / "other").write_bytes(b"efgh")
        (tmp_path / "other").replace(tmp_path / "block")
        three = await files.get(call, find, "block")
        assert three.read(1, 9) == b"fgh"
        (tmp_path / "block").rename(tmp_path / "away")
        for _turn in range(2):
            await asyncio.sleep(0)
        with pytest.raises(FileNotFoundError):
            await files.get(call, find, "block")

    asyncio.run(ask())
    assert found == ["block"] * 3
