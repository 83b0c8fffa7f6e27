"""State that every step of a run shares: its round, our keys and secrets, where messages are frozen.

All secrets are derived from the 32 secret bytes of our session key, so that a restart has the same ones.

Source: docs/protocol.md, "Aligning".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.arrays import sha256_by_piece
from dprelease.errors import InvalidInput
from dprelease.identity.signing import PrivateKey
from dprelease.intersection.key_value_store import Bytes
from dprelease.intersection.ring import POINT_BYTES, Ring
from dprelease.intersection.zero_sharing import pseudorandom
from dprelease.mpc import encryption
from dprelease.mpc.encryption import Draw
from dprelease.mpc.messages import MessageHeader
from dprelease.mpc.ring import Words
from dprelease.mpc.round import Round, session_key
from dprelease.mpc.storage import RoundStorage, SessionState


@dataclass(frozen=True, repr=False)
class AlignmentExchange:
    """Our side of one session; it can be made once every party's session key is known.

    Attributes:
        at: the round, with a hello of every party.
        party: our name.
        identity: our identity key, which signs.
        state: with our session key.
        storage: where our messages are frozen and our secrets kept.
        fetch: the body of a message for us, in pieces.
        draw: secret randomness, so many bytes.
        workers: processes to multiply in.
    """

    at: Round[Ring]
    party: str
    identity: PrivateKey
    state: SessionState
    storage: RoundStorage
    fetch: Callable[[MessageHeader], Iterator[bytes]]
    draw: Draw
    workers: int

    @property
    def ring(self) -> Ring:
        """The public parameters."""
        return self.at.schedule

    @property
    def run(self) -> bytes:
        """Digest of the run, 32 bytes."""
        return bytes.fromhex(self.ring.task)

    @cached_property
    def session_key(self) -> X25519PrivateKey:
        """Our session key."""
        return session_key(self.state)

    def secret(self, purpose: str) -> bytes:
        """32 secret bytes of this session, the same ones for the same purpose."""
        return encryption.derive(bytes.fromhex(self.state.key), self.at.context(f"own-{purpose}", self.party))

    def order(self, elements: Bytes) -> npt.NDArray[np.intp]:
        """The secret order in which our elements go around.

        Args:
            elements: (n, 32), distinct, the same as at the first time.

        Raises:
            InvalidInput: they are not.
        """
        count = self.ring.sizes[self.party]
        if elements.shape != (count, POINT_BYTES) or elements.dtype != np.uint8:
            raise InvalidInput(f"this run announced {count} patients, and there are {len(elements)}; begin another run")
        elements = np.ascontiguousarray(elements)
        if not distinct(elements.view("<u8")[:, :2]):
            raise InvalidInput("two patients have one identifier; keep one row of each")
        digest, kept = bytes.fromhex(sha256_by_piece(elements.data.cast("B"))), self.storage.read_private("elements")
        if kept is None:
            self.storage.write_private("elements", [digest])
        elif kept != digest:
            raise InvalidInput("the patients changed after this run began; begin another run")
        return np.argsort(pseudorandom(self.secret("order"), elements[:, :16]), kind="stable")


def counts(total: int, most: int) -> Iterable[int]:
    """Sizes of the chunks of so many things."""
    return (min(most, total - start) for start in range(0, total, most))


def chunks(data: npt.NDArray[np.generic], most: int) -> Iterator[bytes]:
    """Bytes of rows, so many at a time."""
    return (data[start : start + most].tobytes() for start in range(0, len(data), most))


def distinct(starts: Words) -> bool:
    """Tells whether no two points begin with the same 16 bytes: (n, 2) words."""
    first = np.sort(starts[:, 0])
    repeated = first[1:][first[1:] == first[:-1]]
    if not repeated.size:
        return True
    some = starts[np.isin(starts[:, 0], repeated)]
    return len(np.unique(some, axis=0)) == len(some)
