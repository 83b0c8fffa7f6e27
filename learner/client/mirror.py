"""A mirror: the hub's published folder on any static web server, read by HTTP. Nothing of it is believed before it is verified."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Self
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NameResolutionError, NewConnectionError, SSLError
from urllib3.exceptions import TimeoutError as TimedOut

from dprelease.errors import (
    DpReleaseError,
    IntegrityError,
    InternalError,
    InvalidInput,
    NotFound,
    PeerUnavailable,
    TooManyRequests,
)
from dprelease.one_line import quoted
from dprelease.release.folder import MANIFEST, SIGNATURE, block_file
from dprelease.release.manifest import Manifest
from dprelease.release.spec import BlockKey
from dprelease.wire.chunks import CHUNK_BYTES
from dprelease.wire.retry import PROGRESS_BYTES, STALL_SECONDS, ProgressDeadline
from learner.listing import INDEX, Listed, lines_of

MOST_SIGNATURE_BYTES = 4 << 10
MOST_INDEX_BYTES = 32 << 20
MOST_REDIRECTS = 5
CONNECT_SECONDS = 10.0
"""For one address of a host, short enough to leave time for its next one."""

_RELEASE = re.compile(r"(?P<mirror>.+)/(?P<digest>[0-9a-f]{64})")
_RANGE = re.compile(r"bytes (?P<start>\d{1,18})-\d{1,18}/(\d{1,18}|\*)")


def check_url(url: str) -> str:
    """The address of a mirror, without a slash at its end.

    Raises:
        InvalidInput: it is no address of a folder on a web server.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in url or "?" in url or "#" in url or not url.isprintable() or " " in url:
        raise InvalidInput(f"{url!r} is not a mirror's address; write it as https://mirror.example.org/trial")
    return url.rstrip("/")


def split_release(url: str) -> tuple[str, str]:
    """Mirror and digest of the address of one release's folder.

    Raises:
        InvalidInput: it is something else.
    """
    found = _RELEASE.fullmatch(check_url(url))
    if found is None:
        raise InvalidInput(f"{url} does not end with a release's digest, 64 hexadecimal digits in lower case")
    return found["mirror"], found["digest"]


class Mirror:
    """Published releases on a web server.

    Args:
        url: of the folder that holds them.
        pool: connections.
        seconds: until an answer has ended or moved by `PROGRESS_BYTES`, again and again.
    """

    def __init__(self, url: str, pool: PoolManager, seconds: float = STALL_SECONDS) -> None:
        self._url, self._pool, self._seconds = url, pool, seconds
        self._sockets = Sockets()
        self._sockets.watch(pool)

    @classmethod
    @contextmanager
    def dial(cls, url: str, seconds: float = STALL_SECONDS) -> Iterator[Self]:
        """Connections to the mirror, through the proxy that the environment names for it, if any."""
        url = check_url(url)
        parts, timeout = urlsplit(url), Timeout(connect=CONNECT_SECONDS, read=None)
        proxy = getproxies().get(parts.scheme)
        with _understood(url):
            through = ProxyManager(proxy, timeout=timeout) if proxy and not proxy_bypass(parts.netloc) else None
        with through or PoolManager(timeout=timeout) as pool:
            yield cls(url, pool, seconds)

    def releases(self) -> Iterator[Listed]:
        """The releases that the mirror lists, newest first.

        Raises:
            NotFound: it has no list.
            IntegrityError: it is malformed.
            PeerUnavailable: the mirror is away.
        """
        try:
            yield from lines_of(self._document(INDEX, MOST_INDEX_BYTES))
        except InvalidInput as error:
            raise IntegrityError(f"{self._url}/{INDEX} is not a list of releases; check the address") from error

    def manifest(self, prefix: str) -> tuple[bytes, str]:
        """Manifest and signature of the release whose digest starts with these hexadecimal digits, unchecked.

        Raises:
            NotFound: the mirror has none.
            InvalidInput: its list has several.
            IntegrityError: what it has is no manifest.
            PeerUnavailable: the mirror is away.
        """
        digest = prefix if len(prefix) == 64 else self._resolved(prefix)
        data = self._document(f"{digest}/{MANIFEST}", Manifest.most_bytes)
        if not data.startswith(b"{"):
            raise IntegrityError(
                f"{self._url}/{digest}/{MANIFEST} is not a manifest but something else; check the address"
            )
        signature = self._document(f"{digest}/{SIGNATURE}", MOST_SIGNATURE_BYTES)
        return data, signature.decode("ascii", "replace").strip()

    def block(self, key: BlockKey, offset: int, size: int) -> Iterator[bytes]:
        """The bytes of a block of this size from an offset on; from a server that knows no ranges too.

        Raises:
            NotFound: the mirror does not have the block.
            IntegrityError: what it has ends before the offset, or is longer.
            PeerUnavailable: the mirror is away, or too little came for too long; go on from the last byte.
        """
        path = f"{key.release}/{block_file(key.party, key.sequence)}"
        with self._answer(path, offset) as (answer, deadline):
            before = offset if answer.status == 200 else 0  # bytes that are here already and come once more
            for piece in _pieces(answer, deadline):
                data = piece[before:]
                before -= len(piece) - len(data)
                offset += len(data)
                if offset > size:
                    raise IntegrityError(f"{self._url}/{path} reaches past the {size} bytes that were announced")
                if data:
                    yield data

    def _resolved(self, prefix: str) -> str:
        found = {line.digest for line in self.releases() if line.digest.startswith(prefix)}
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} releases start so; give more digits")
        if not found:
            raise NotFound(f"no release in {self._url}/{INDEX} starts so")
        return found.pop()

    def _document(self, path: str, most: int) -> bytes:
        data = bytearray()
        with self._answer(path) as (answer, deadline):
            for piece in _pieces(answer, deadline):
                data += piece
                if len(data) > most:
                    raise IntegrityError(f"{self._url}/{path} has more than {most} bytes; it is not what it is called")
        return bytes(data)

    @contextmanager
    def _answer(self, path: str, offset: int = 0) -> Iterator[tuple[BaseHTTPResponse, ProgressDeadline]]:
        url = f"{self._url}/{path}"
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
        slow = PeerUnavailable(f"{url}: too little came within {self._seconds:g} s")
        self._sockets.begin()
        with ProgressDeadline(self._sockets.end, self._seconds) as deadline:
            try:
                with _understood(url), closing(self._ask(url, headers)) as answer:
                    _check(answer, url, offset)
                    yield answer, deadline
            except DpReleaseError as error:
                if not self._sockets.ended:
                    raise
                raise slow from error
        if self._sockets.ended:  # whoever reads takes it for the end of what was sent
            raise slow

    def _ask(self, url: str, headers: dict[str, str]) -> BaseHTTPResponse:
        # By hand, because urllib3 reads the whole body of a redirect, however long.
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._pool.request(
                "GET", url, headers=headers, preload_content=False, decode_content=False, redirect=False, retries=False
            )
            where = answer.get_redirect_location()
            if not where:
                return answer
            answer.close()
            following = urljoin(url, where)
            _check_redirect(url, following)
            url = following
        raise InternalError(f"{url} redirects again and again")


def _check_redirect(url: str, following: str) -> None:
    """A redirect stays at its host, and at https: the learner named this server, and not what else its network can reach."""
    before, after = urlsplit(url), urlsplit(following)
    if before.hostname != after.hostname:
        raise InternalError(
            f"{url} redirects to another host, {quoted(after.hostname or following)}; if that is the mirror, give its address"
        )
    if before.scheme == "https" != after.scheme:
        raise InternalError(f"{url} redirects to where everybody on the way can read and change what comes")


def _pieces(answer: BaseHTTPResponse, deadline: ProgressDeadline) -> Iterator[bytes]:
    moved = 0
    while piece := answer.read1(CHUNK_BYTES):
        moved += len(piece)
        if moved >= PROGRESS_BYTES:
            moved = 0
            deadline.moved()
        yield piece


def _check(answer: BaseHTTPResponse, url: str, offset: int) -> None:
    if answer.status not in (200, 206):
        raise _refusal(answer.status, url)
    coded = answer.headers.get("Content-Encoding", "identity"), answer.headers.get("Transfer-Encoding", "chunked")
    if coded != ("identity", "chunked"):
        raise InternalError(f"{url} came compressed, which nobody asked for; the server must send files as they are")
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if answer.status == 206 and (found is None or int(found["start"]) != offset):
        raise InternalError(f"{url} came from another byte on than was asked for")


def _refusal(status: int, url: str) -> DpReleaseError:
    if status in (401, 403, 404, 410):
        return NotFound(f"{url} is not there, or not for everybody (HTTP {status})")
    if status == 416:
        return IntegrityError(f"{url} is shorter than what was signed (HTTP 416)")
    if status == 429:
        return TooManyRequests(f"{url}: the mirror asks for fewer requests (HTTP 429); try again later")
    if 500 <= status < 600:
        return PeerUnavailable(f"{url}: the mirror is in trouble (HTTP {status}); try again later")
    return InternalError(f"{url}: HTTP {status} is no answer that a mirror should give")


@contextmanager
def _understood(url: str) -> Iterator[None]:
    try:
        yield
    except NameResolutionError as error:
        raise PeerUnavailable(f"{url}: its host name is not known; check the address") from error
    except NewConnectionError as error:
        raise PeerUnavailable(f"{url}: nothing answers there; check the address") from error
    except TimedOut as error:
        raise PeerUnavailable(f"{url}: nothing answers there within {CONNECT_SECONDS:g} s") from error
    except SSLError as error:
        raise PeerUnavailable(
            f"{url}: TLS failed: {error}; the authority of a private web server is named in SSL_CERT_FILE"
        ) from error
    except (HTTPError, ValueError) as error:
        raise PeerUnavailable(f"{url}: the connection broke ({type(error).__name__})") from error


class Sockets:
    """The sockets of one pool manager's connections, which another thread can end, for one request at a time.

    Timeouts of urllib3 restart with every byte.

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
