"""Elements on their way around the ring: ours under a blinding, others' under one more secret, ours again without it.

Source: docs/protocol.md, "Aligning".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import numpy as np

from dprelease.errors import IntegrityError, Irreparable
from dprelease.intersection import curve
from dprelease.intersection.exchange import AlignmentExchange, counts, distinct
from dprelease.intersection.key_value_store import Bytes
from dprelease.intersection.parallel import mapped
from dprelease.intersection.ring import CHUNK_POINTS, KEY_BYTES, POINT_BYTES
from dprelease.mpc import encryption
from dprelease.mpc.encryption import ColumnCipher, read_on, regroup
from dprelease.mpc.messages import message_name
from dprelease.mpc.schedule import TAG_BYTES
from dprelease.mpc.storage import write_hashed


class RingPass(AlignmentExchange):
    """Points of one session at one party."""

    def send_own(self, elements: Bytes) -> None:
        """Hash our elements onto the curve, blind them, and freeze them for the next party, in a secret order.

        Args:
            elements: (n, 32), distinct.
        """
        order = self.order(elements)
        blind = partial(curve.blinded, run=self.run, scalar=self.secret("blinding"))
        starts = range(0, len(order), CHUNK_POINTS)
        ordered = (elements[order[start : start + CHUNK_POINTS]].tobytes() for start in starts)
        self._send_points(self.party, self._mapped(blind, ordered, len(order)))

    def pass_on(self, origin: str) -> None:
        """Multiply somebody's points by our scalar and freeze them for the next party, in the order in which they came.

        Raises:
            IntegrityError: something is not a point, or is there twice, or was not sealed to us.
        """
        multiply = partial(curve.multiplied, scalar=self.secret("scalar"))
        self._send_points(origin, self._received(origin, multiply))

    def evaluate(self) -> None:
        """Take the blinding off our elements, which have been around, as we put our own scalar on; keep what comes out.

        Raises:
            IntegrityError: as `pass_on`.
        """
        scalar = curve.quotient(self.secret("scalar"), self.secret("blinding"))
        last = partial(curve.evaluated, run=self.run, scalar=scalar)
        self.storage.write_private("evaluations", self._received(self.party, last))

    def _send_points(self, origin: str, points: Iterator[bytes]) -> None:
        receiver, key = self.ring.after(self.party), encryption.new_content_key(self.draw)
        sealed = encryption.seal(
            self.at.session_key(receiver),
            key,
            self.at.context("points-key", self.party, receiver, origin),
            self.draw,
        )
        cipher = ColumnCipher(key, self.at.context("points", self.party, receiver, origin))
        pieces = chain([sealed], cipher.encrypted(points))
        body = write_hashed(self.storage, message_name("points", origin), pieces)
        self.storage.freeze([self.at.message(self.identity, self.party, "points", (receiver,), origin, "", body)])

    def _received(self, origin: str, function: Callable[[bytes], bytes]) -> Iterator[bytes]:
        """A function of every chunk of somebody's points, as the party before us sent them."""
        sender = self.ring.before(self.party)
        header = self.at.find("points", sender, self.party, origin)
        if header is None:
            raise IntegrityError(f"the points of {origin} from {sender} are gone from the relay")
        starts, read = np.empty((self.ring.sizes[origin], 2), np.uint64), 0
        relayed: list[IntegrityError] = []  # what the relay did wrong, which is not the sender's fault

        def fetched() -> Iterator[bytes]:
            try:
                yield from self.fetch(header)
            except IntegrityError as error:
                relayed.append(error)
                raise

        pieces = fetched()

        def opened() -> Iterator[bytes]:
            full = (POINT_BYTES * count + TAG_BYTES for count in counts(self.ring.sizes[origin], CHUNK_POINTS))
            sizes = chain([KEY_BYTES], full)
            parts = regroup(pieces, sizes)
            context = self.at.context("points-key", sender, self.party, origin)
            key = encryption.unseal(self.session_key, bytes(next(parts)), context)
            cipher = ColumnCipher(key, self.at.context("points", sender, self.party, origin))
            for number, part in enumerate(parts):
                yield cipher.decrypt(number, part)

        of_chunks = counts(self.ring.sizes[origin], CHUNK_POINTS)
        try:
            # Looked for in what comes out: points that differ by one of small order become the same one only there, and the
            # next party would blame us for it.
            for count, piece in zip(of_chunks, self._mapped(function, opened(), self.ring.sizes[origin]), strict=True):
                starts[read : read + count] = np.frombuffer(piece, "<u8").reshape(count, -1)[:, :2]
                read += count
                yield piece
            if not distinct(starts):
                raise IntegrityError("a point twice")
        except IntegrityError as error:
            read_on(pieces)  # first, so that a relay that altered them is named and not their sender
            if relayed:
                raise
            words = f"{sender} sent, for patients of {origin}: {error.message}"
            raise Irreparable(words, signer=sender) from error
        read_on(pieces)

    def _mapped(self, function: Callable[[bytes], bytes], pieces: Iterator[bytes], count: int) -> Iterator[bytes]:
        return mapped(function, pieces, -(-count // CHUNK_POINTS), self.workers)
