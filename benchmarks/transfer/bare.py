"""A bare gRPC server over the same TLS, as the measure of what a stream can do here: it sends bytes and counts bytes.

`python -m benchmarks.transfer.bare CERTIFICATE KEY FILE...` prints its port and serves until it is terminated: ``/bare/down``
streams the file whose number it is sent, ``/bare/up`` answers with the number of bytes that came.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

MESSAGE_BYTES = 1 << 20
WORKERS = 32


def pieces(data: bytes) -> Iterator[bytes]:
    """Bytes in messages of a mebibyte."""
    return (data[start : start + MESSAGE_BYTES] for start in range(0, len(data), MESSAGE_BYTES))


def download(channel: grpc.Channel, number: int = 0) -> int:
    """Stream a file down; its bytes."""
    return sum(len(piece) for piece in channel.unary_stream("/bare/down", None, None)(str(number).encode()))


def upload(channel: grpc.Channel, data: bytes) -> int:
    """Stream bytes up; how many came."""
    return int(channel.stream_unary("/bare/up", None, None)(pieces(data)))


@contextmanager
def serving(certificate: Path, key: Path, *files: Path) -> Iterator[int]:
    """The port of a bare server in a process of its own, for as long as the context lasts."""
    line = [sys.executable, "-m", "benchmarks.transfer.bare", str(certificate), str(key), *map(str, files)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline() if process.stdout else "")
        finally:
            process.terminate()


class _Bare(grpc.GenericRpcHandler):  # type: ignore[type-arg] # not generic at run time
    def __init__(self, files: list[bytes]) -> None:
        self._down = grpc.unary_stream_rpc_method_handler(lambda number, context: pieces(files[int(number)]))
        self._up = grpc.stream_unary_rpc_method_handler(lambda sent, context: str(sum(map(len, sent))).encode())

    def service(self, details: Any) -> Any:
        return self._down if details.method == "/bare/down" else self._up


def _serve(certificate: str, key: str, *files: str) -> None:
    server = grpc.server(ThreadPoolExecutor(WORKERS), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((_Bare([Path(file).read_bytes() for file in files]),))
    credentials = grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(certificate).read_bytes())])
    print(server.add_secure_port("127.0.0.1:0", credentials), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
