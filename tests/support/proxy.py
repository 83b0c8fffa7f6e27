"""A TCP proxy that can misbehave: go silent while connections stay open, or cut them all."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards connections to a port on loopback until told otherwise.

    Args:
        target: port that connections are forwarded to.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.silenced = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._flowing.set()
        self.cut()

    def silence(self) -> None:
        """From now on nothing passes, and nobody is told: half-open connections."""
        self.silenced.clear()
        self._flowing.clear()

    def heal(self) -> None:
        self.cut()
        self._flowing.set()

    def cut(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        _close(*sockets)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue
            with self._lock:
                self._sockets |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if not self._flowing.is_set():
                    self.silenced.set()
                    self._flowing.wait()
                    return
                sink.sendall(data)
        except OSError:
            pass
        finally:
            _close(source, sink)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):  # it is closed
            each.shutdown(socket.SHUT_RDWR)  # tells both ends even while a thread reads from it
        each.close()
