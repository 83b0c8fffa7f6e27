"""HTTP connections whose sockets another thread can end, whatever they wait for: urllib3's timeouts restart with every byte."""

from __future__ import annotations

import socket
from contextlib import suppress

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection


class Sockets:
    """The sockets of one pool manager's connections, for one request at a time.

    Attributes:
        ended: whether `end` was called since the last `begin`.
    """

    def __init__(self) -> None:
        self.ended = False
        self._open: list[socket.socket] = []

    def begin(self) -> None:
        """Note that the next request begins."""
        self.ended = False

    def end(self) -> None:
        """End all connections, those too that are only being made; from any thread."""
        self.ended = True
        for each in self._open:
            _shut(each)

    def watch(self, pool: PoolManager) -> None:
        """Keep the sockets of all connections that are made from now on."""
        sockets = self

        class Plain(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                sockets.keep(self.sock)

        class Encrypted(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                sockets.keep(self.sock)

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class EncryptedPool(HTTPSConnectionPool):
            ConnectionCls = Encrypted

        pool.pool_classes_by_scheme = {"http": PlainPool, "https": EncryptedPool}

    def keep(self, made: socket.socket) -> None:
        """Add one."""
        made = getattr(made, "socket", made)  # TLS within a proxy's TLS wraps it
        # A new list, because another thread may be going through the old one; it sees the new one, or we see `ended`.
        self._open = [*(each for each in self._open if each.fileno() >= 0), made]
        if self.ended:
            _shut(made)


def _shut(each: socket.socket) -> None:
    # In both directions, or Linux would go on taking what still comes; not by SSLSocket's own method, which makes its
    # reader take the bytes of TLS for what was sent.
    with suppress(OSError):
        socket.socket.shutdown(each, socket.SHUT_RDWR)
