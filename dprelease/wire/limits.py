"""How much one peer may ask for, so that nobody starves the others: calls, streams, and bytes of a message.

On a listener for mutual TLS a peer is a certificate, on any other a network address (IPv6: a /64 network, for whoever
has one address there has them all). A refused call ends as `TooManyRequests`; the peer should wait and try again.
One table has the longest requests, which a server refuses before it makes anything of their bytes; another the longest answers,
which a client refuses.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from dprelease.catalogue import Catalogue
from dprelease.errors import TooManyRequests
from dprelease.spec_base import SpecBase

BURST_SECONDS = 5.0
"""A quiet peer may ask for so many seconds' worth of calls at once."""

MOST_PEERS = 10_000
"""Peers that are remembered; the one that was quiet for longest is forgotten first."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Rate:
    """How often."""

    per_second: float
    burst: float

    @classmethod
    def of(cls, per_second: float) -> Rate:
        """A rate with the usual burst."""
        return cls(per_second, max(1.0, per_second * BURST_SECONDS))


HEALTH = Rate.of(10.0)
"""Rate of health checks: each one looks at the store or the disk."""


class Buckets:
    """A token bucket for each peer, without any thread: tokens are counted when they are asked for."""

    def __init__(self, rate: Rate, clock: Clock = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()  # peer to tokens and when they were counted
        self._lock = threading.Lock()

    def take(self, peer: str) -> bool:
        """Take a token, if the peer has one."""
        with self._lock:
            now = self._clock()
            tokens, then = self._held.pop(peer, (self._rate.burst, now))
            tokens = min(self._rate.burst, tokens + (now - then) * self._rate.per_second)
            allowed = tokens >= 1.0
            self._held[peer] = (tokens - 1.0 if allowed else tokens, now)
            if len(self._held) > MOST_PEERS:
                self._held.popitem(last=False)
            return allowed


class OpenStreams:
    """Streams that are under way."""

    def __init__(self, per_peer: int, total: int) -> None:
        self._per_peer = per_peer
        self._total = total
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many there are."""
        return self._open.total()

    def begin(self, peer: str) -> Callable[[], None]:
        """Count a stream; what is returned must be called when it is over.

        Raises:
            TooManyRequests: the peer, or all together, have too many.
        """
        with self._lock:
            if self._open[peer] >= self._per_peer:
                raise TooManyRequests(f"{peer} has {self._per_peer} streams open already")
            if self._open.total() >= self._total:
                raise TooManyRequests(f"{self._total} streams are open already")
            self._open[peer] += 1
        return lambda: self._end(peer)

    def _end(self, peer: str) -> None:
        with self._lock:
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]


class Limiter:
    """Limits of one peer at a listener."""

    def __init__(self, rate: Rate, streams: OpenStreams, clock: Clock = time.monotonic) -> None:
        self.streams = streams
        self._calls = Buckets(rate, clock)
        self._checks = Buckets(HEALTH, clock)

    def admit(self, peer: str) -> None:
        """Count a call.

        Raises:
            TooManyRequests: the peer calls too often.
        """
        if not self._calls.take(peer):
            raise TooManyRequests(f"{peer} calls too often")

    def admit_check(self, peer: str) -> None:
        """Count a health check.

        Raises:
            TooManyRequests: the peer checks too often.
        """
        if not self._checks.take(peer):
            raise TooManyRequests(f"{peer} checks health too often")


def certificate_peer(certificate: bytes) -> str:
    """Name of a caller, for counting: the caller's certificate, whatever its address."""
    return f"certificate {hashlib.sha256(certificate).hexdigest()[:16]}"


def source_of(peer: str) -> str:
    """The network address in what gRPC calls a peer, without the port: it is another for each connection.

    Args:
        peer: e.g. ``ipv4:192.0.2.7:50514`` or ``ipv6:%5B2001:db8::7%5D:50514``.
    """
    kind, _, rest = unquote(peer).partition(":")
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        if kind == "ipv6":
            address = ipaddress.IPv6Address(host)
            return str(address.ipv4_mapped or ipaddress.IPv6Network((address, 64), strict=False))
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        return kind


SHORT_BYTES = 64 << 10
"""Size of every message that the tables do not name. The longest honest one, a list of 500 digests, has 17 KiB."""

MAX_CHUNK_BYTES = 2 << 20
"""Largest chunk of a longer string that is accepted; `dprelease.wire.chunks` makes them half as long."""

LONG_BYTES = 4 << 20
"""Size of lists, manifests and dealt randomness: as much as gRPC takes by itself."""

_V1 = "/dprelease.wire.v1."
_CHUNK = MAX_CHUNK_BYTES + SHORT_BYTES

REQUESTS = {
    f"{_V1}CoordinationService/ReportCatalogue": Catalogue.most_bytes + SHORT_BYTES,
    f"{_V1}CoordinationService/Approve": SpecBase.most_bytes + SHORT_BYTES,
    f"{_V1}CoordinationService/RequestDeal": 2 * SHORT_BYTES,  # an offer, some 600 bytes, of every hospital
    f"{_V1}IntakeService/SendBlock": _CHUNK,
    f"{_V1}RelayService/SendParcel": _CHUNK,
    f"{_V1}RelayService/OpenParcels": 2 * SHORT_BYTES,  # small things of more bytes take too long to take apart
}

ANSWERS = {
    f"{_V1}AlignmentService/ListRuns": LONG_BYTES,
    f"{_V1}AlignmentService/GetRun": 4 * SHORT_BYTES,  # an acceptance of each of at most ten hospitals
    f"{_V1}CoordinationService/ListReleases": LONG_BYTES,
    f"{_V1}CoordinationService/GetRelease": 2 * SpecBase.most_bytes,  # and an approval, some 1 KiB, of every hospital
    f"{_V1}CoordinationService/ListRevoked": LONG_BYTES,
    f"{_V1}CoordinationService/ListCharges": LONG_BYTES,
    f"{_V1}CoordinationService/RequestDeal": LONG_BYTES,
    f"{_V1}CoordinationService/RequestAnswer": _CHUNK,
    f"{_V1}EnrolmentService/Enrol": LONG_BYTES,  # with what was charged
    f"{_V1}IntakeService/ListEarlierBlocks": LONG_BYTES,
    f"{_V1}IntakeService/FetchEarlierBlock": _CHUNK,
    f"{_V1}RelayService/ListParcels": LONG_BYTES,
    f"{_V1}RelayService/FetchParcel": _CHUNK,
    f"{_V1}RelayService/FetchShortParcels": LONG_BYTES,
    f"{_V1}PublicService/ListPublished": 16 * SHORT_BYTES,  # 200 lines, with titles of up to 200 letters
    f"{_V1}PublicService/GetManifest": LONG_BYTES,
    f"{_V1}PublicService/DownloadBlock": _CHUNK,
}


def most_request_bytes(methods: Iterable[str]) -> int:
    """Length of the longest request that one of these methods takes."""
    return max(REQUESTS.get(method, SHORT_BYTES) for method in methods)


def answer_limits() -> str:
    """The limits of answers as a gRPC service config, by which gRPC refuses an answer before it is decoded."""
    named = [
        {
            "name": [dict(zip(("service", "method"), method[1:].split("/"), strict=True))],
            "maxResponseMessageBytes": most,
        }
        for method, most in ANSWERS.items()
    ]
    return json.dumps({"methodConfig": [{"name": [{}], "maxResponseMessageBytes": SHORT_BYTES}, *named]})
