"""A gRPC client that keeps no rule by itself: silent, slow, greedy or garbled, from any loopback address.

Every connection is TLS by Python's `ssl`, and every frame is what a test asks for.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from google.rpc import error_details_pb2, status_pb2
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

HOST = "127.0.0.1"
OURS = ("dprelease-protocol", "1")
MOST = 2**31 - 1
PATIENCE_SECONDS = 60.0


def framed(message: bytes, *, compressed: bool = False) -> bytes:
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


def headers(path: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    pseudo = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "localhost")]
    return [*pseudo, ("te", "trailers"), ("content-type", "application/grpc"), OURS, *more]


def tls(root: Path, identity: Path | None = None) -> ssl.SSLContext:
    """A client of a consortium.

    Args:
        root: its root certificate.
        identity: our certificate and key, one after the other; without, we have none.
    """
    context = ssl.create_default_context(cafile=str(root))
    context.set_alpn_protocols(["h2"])
    if identity is not None:
        context.load_cert_chain(str(identity))
    return context


class Stream:
    """One call, as far as it has come.

    Attributes:
        number: of the stream.
        headers: what the server sent, trailers too.
        data: what it sent for messages.
        ended: whether the call is over.
        reset: error code of the frame that ended it, or -1 when its connection was lost.
    """

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self.number = number
        self.headers: dict[str, str] = {}
        self.data = bytearray()
        self.ended = asyncio.Event()
        self.reset: int | None = None

    @property
    def status(self) -> int | None:
        code = self.headers.get("grpc-status")
        return None if code is None else int(code)

    @property
    def reason(self) -> str:
        """The error class in our details; empty where there are none."""
        raw = self.headers.get("grpc-status-details-bin", "")
        told = status_pb2.Status.FromString(base64.b64decode(raw + "=" * (-len(raw) % 4)))
        info = error_details_pb2.ErrorInfo()
        found = [info.reason for detail in told.details if detail.Unpack(info) and info.domain == "dprelease"]
        return found[0] if found else ""

    async def over(self, seconds: float = PATIENCE_SECONDS) -> Stream:
        """Wait for the end of the call."""
        async with asyncio.timeout(seconds):
            await self.ended.wait()
        return self

    async def send(self, data: bytes, *, end: bool = False) -> None:
        """Send bytes, as fast as the server lets us; a call that is over takes no more."""
        http = self._connection.http
        while not self.ended.is_set():
            size = min(http.local_flow_control_window(self.number), http.max_outbound_frame_size, len(data))
            if size or not data:
                try:
                    http.send_data(self.number, data[:size], end_stream=end and size == len(data))
                except h2.exceptions.StreamClosedError:
                    return
                data = data[size:]
                await self._connection.flush()
                if not data:
                    return
            else:
                await self._connection.room()

    def take(self, size: int) -> None:
        """Allow the server so many bytes more."""
        if not self.ended.is_set():
            self._connection.http.increment_flow_control_window(size, self.number)
            self._connection.push()

    def cancel(self) -> None:
        if not self.ended.is_set():
            self._connection.http.reset_stream(self.number, 8)
            self._connection.push()
            self.ended.set()


class Connection:
    """One connection; open it with `connection`.

    Attributes:
        http: the protocol's state.
        writer: for bytes that are no part of it.
        lost: whether the server has ended it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, window: int, *, takes: bool) -> None:
        self.writer = writer
        self.lost = asyncio.Event()
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._takes, self._ignores = takes, False
        self._streams: dict[int, Stream] = {}
        self._room, self._heard = asyncio.Event(), asyncio.Event()
        first = {SettingCodes.INITIAL_WINDOW_SIZE: window, SettingCodes.ENABLE_PUSH: 0}
        self.http.local_settings = Settings(client=True, initial_values=first)
        # h2 takes nothing more after a GOAWAY; a call that is under way then goes on all the same.
        self.http._frame_dispatch_table[GoAwayFrame] = lambda _: ([], [])
        self.http.initiate_connection()
        self.http.increment_flow_control_window(MOST - 65_535)
        self.push()
        self._reading = asyncio.create_task(self._read(reader))

    def push(self) -> None:
        """Hand what is to be sent to the network."""
        if not self.writer.is_closing():
            self.writer.write(self.http.data_to_send())

    async def flush(self) -> None:
        """The same, and wait until there is room for more."""
        self.push()
        if not self.lost.is_set():
            await self.writer.drain()

    async def room(self) -> None:
        """Wait until the server has taken something."""
        self._room.clear()
        await self._room.wait()

    def begin(self, path: str, *more: tuple[str, str], end: bool = False) -> Stream:
        """Send the headers of a call and nothing else."""
        number = self.http.get_next_available_stream_id()
        stream = self._streams[number] = Stream(self, number)
        # The server's word on how many streams there may be is not kept.
        self.http.remote_settings.update({SettingCodes.MAX_CONCURRENT_STREAMS: MOST})
        self.http.remote_settings.acknowledge()
        self.http.send_headers(number, headers(path, *more), end_stream=end)
        self.push()
        return stream

    async def call(self, path: str, message: bytes = b"", *more: tuple[str, str]) -> Stream:
        """A whole call with one message, to its end."""
        stream = self.begin(path, *more)
        await stream.send(framed(message), end=True)
        return await stream.over()

    async def heard(self) -> None:
        """Wait, once, until the server has read all that was sent."""
        self.http.ping(bytes(8))
        await self.flush()
        await self._heard.wait()

    def ignore(self) -> None:
        """Read what comes and make nothing of it, for whoever writes frames past the protocol's state."""
        self._ignores = True

    def deaf(self) -> None:
        """Read nothing any more."""
        self._reading.cancel()
        self.writer.transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own TLS transport has it

    async def close(self) -> None:
        """Cut the connection."""
        self._reading.cancel()
        self.writer.transport.abort()
        await asyncio.gather(self._reading, return_exceptions=True)
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(1 << 16):
                if self._ignores:
                    continue
                for event in self.http.receive_data(data):
                    self._note(event)
                self.push()
        except (OSError, h2.exceptions.ProtocolError):
            pass
        finally:
            self.lost.set()
            self._room.set()
            for stream in self._streams.values():
                if not stream.ended.is_set():
                    stream.reset = -1
                    stream.ended.set()

    def _note(self, event: Any) -> None:
        if isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            self._room.set()
        if isinstance(event, h2.events.PingAckReceived):
            self._heard.set()
        stream = self._streams.get(getattr(event, "stream_id", None) or 0)
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            stream.headers.update(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            stream.data += event.data
            if self._takes and event.flow_controlled_length:
                self.http.acknowledge_received_data(event.flow_controlled_length, stream.number)
        elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
            if isinstance(event, h2.events.StreamReset):
                stream.reset = int(event.error_code)
            stream.ended.set()
            self._room.set()


@asynccontextmanager
async def connection(
    port: int, context: ssl.SSLContext, source: str = HOST, *, window: int = 1 << 20, takes: bool = True
) -> AsyncIterator[Connection]:
    """A connection from an address of this machine.

    Args:
        port: on loopback.
        context: our side of TLS.
        source: address that we come from.
        window: bytes that each stream may bring before anything is taken.
        takes: whether what comes makes room for more.
    """
    reader, writer = await asyncio.open_connection(
        HOST,
        port,
        ssl=context,
        server_hostname="localhost",
        local_addr=(source, 0),
        ssl_handshake_timeout=PATIENCE_SECONDS,
    )
    made = Connection(reader, writer, window, takes=takes)
    try:
        yield made
    finally:
        await made.close()
