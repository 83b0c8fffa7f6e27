"""Hashing onto Curve25519 and multiplication by secret scalars, with u-coordinates alone (X25519, RFC 7748).

Curve25519, v^2 = u^3 + 486662 u^2 + u over the integers mod p = 2^255 - 19, has 8 l points, l prime. X25519 gives the u of
[s] P from the u of P, for a *clamped* scalar s: a multiple of 8 in [2^254, 2^255). Every u belongs to a point of this curve or to
one of its quadratic twist, and multiplication keeps it there, so a hash onto both would show one bit of every element at
each hop. Hashes here are onto the curve itself, and nothing off it is multiplied.

Multiplying by a clamped scalar takes a point to the subgroup of order l, where scalars count mod l, and u(P) = u(-P). So a
scalar r can be exchanged for s by one more clamped scalar (`quotient`): with t = s / r mod l, just one of t and l - t is congruent
mod l to a multiple of 8 between 4 l and 8 l.

X25519 of the cryptography package holds Python's lock, so threads do not help: one function of many pieces runs over processes.

Elements and points are 32 bytes each, one after another; a point is its u, little-endian and below p.

Source: docs/protocol.md, "Aligning"; bytes in docs/format.md 20.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import gmpy2
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dprelease.errors import IntegrityError, PeerUnavailable
from dprelease.intersection.ring import POINT_BYTES

_AHEAD = 2  # pieces that wait for each process
_FEWEST = 8  # pieces; with fewer, processes would take longer to start than to work


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def mapped(function: Callable[[bytes], bytes], pieces: Iterable[bytes], count: int, workers: int) -> Iterator[bytes]:
    """The function of every piece, in order, which are read as they are needed; few of them, or one worker, stay in this process.

    Raises:
        PeerUnavailable: a process was ended from outside; try again.
    """
    if workers < 2 or count < _FEWEST:
        yield from map(function, pieces)
        return
    # Fresh processes: one that is forked would hold the locks that other threads of ours hold just now.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=_end_with_parent) as pool:
        waiting: deque[Future[bytes]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(function, piece))
                if len(waiting) > _AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise PeerUnavailable("a process that multiplies points was ended; is there enough memory?") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Let this process end with the one that started it, also where that one is killed: it holds secrets."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - it was started by `mapped`

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


PRIME = gmpy2.mpz(2**255 - 19)
ORDER = 2**252 + 27742317777372353535851937790883648493
"""l, the prime order of the subgroup."""

EVALUATION_BYTES = 64

_COEFFICIENT = 486662
_TOP = (1 << 255) - 1  # a hash has 256 bits, a u-coordinate 255
_HASH = b"dprelease/intersection/point/v1"
_EVALUATION = b"dprelease/intersection/evaluation/v1"


def on_curve(u: int) -> bool:
    """Tells whether u is that of a point of the curve, and neither of its twist nor 0."""
    point = gmpy2.mpz(u)
    return bool(u < PRIME and gmpy2.jacobi(point * (point * (point + _COEFFICIENT) + 1) % PRIME, PRIME) == 1)


def hash_to_curve(run: bytes, element: bytes) -> bytes:
    """The point of 32 bytes: the first of SHA-256(domain, run, element, counter) that is on the curve. Runs have their own."""
    first, counter = hashlib.sha256(_HASH + run + element), 0
    while True:
        tried = first.copy()
        tried.update(counter.to_bytes(4, "big"))
        u = int.from_bytes(tried.digest(), "little") & _TOP
        if on_curve(u):
            return u.to_bytes(POINT_BYTES, "little")
        counter += 1


def scalar_of(secret: bytes) -> int:
    """The clamped scalar of 32 secret bytes, as X25519 reads them."""
    return (int.from_bytes(secret, "little") & (_TOP - 7)) | 1 << 254


def quotient(scalar: bytes, divisor: bytes) -> bytes:
    """A clamped scalar that takes [divisor] P to [scalar] P, up to sign, for every point P of the curve; both are clamped here.

    Raises:
        IntegrityError: there is none, which is so for one pair in 2^120.
    """
    ratio = scalar_of(scalar) * pow(scalar_of(divisor), -1, ORDER) % ORDER
    for each in (ratio, ORDER - ratio):
        found = each + -each * pow(ORDER, -1, 8) % 8 * ORDER
        if 1 << 254 <= found < 1 << 255:
            return found.to_bytes(POINT_BYTES, "little")
    raise IntegrityError("the secrets of this round do not fit one another; begin another run")


def blinded(elements: bytes, run: bytes, scalar: bytes) -> bytes:
    """The points of elements, multiplied by a scalar."""
    key = X25519PrivateKey.from_private_bytes(scalar)
    points = (hash_to_curve(run, each) for each in _each(elements))
    return b"".join(key.exchange(X25519PublicKey.from_public_bytes(point)) for point in points)


def multiplied(points: bytes, scalar: bytes) -> bytes:
    """Points multiplied by a scalar.

    Raises:
        IntegrityError: one is not on the curve, is not written in the one way that it has, or is of small order.
    """
    key = X25519PrivateKey.from_private_bytes(scalar)
    return b"".join(_multiply(key, point) for point in _each(points))


def evaluated(points: bytes, run: bytes, scalar: bytes) -> bytes:
    """SHA-512 of the run and of each point multiplied by a scalar: what the parties' secrets together make of an element.

    Raises:
        IntegrityError: as `multiplied`.
    """
    key, start = X25519PrivateKey.from_private_bytes(scalar), hashlib.sha512(_EVALUATION + run)
    found = []
    for point in _each(points):
        digest = start.copy()
        digest.update(_multiply(key, point))
        found.append(digest.digest())
    return b"".join(found)


def _multiply(key: X25519PrivateKey, point: bytes) -> bytes:
    if not on_curve(int.from_bytes(point, "little")):
        raise IntegrityError("something that is not a point of the curve")
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(point))
    except ValueError as error:  # all zero
        raise IntegrityError("a point of small order") from error


def _each(data: bytes) -> Iterator[bytes]:
    return (data[start : start + POINT_BYTES] for start in range(0, len(data), POINT_BYTES))
