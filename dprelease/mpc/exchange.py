"""The parts of a session that touch secrets: dealing, opening deals, masking our columns, multiplying with a peer's.

An `Exchange` belongs to one session: it can be made once every party's session key is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.arrays import Codes
from dprelease.errors import IntegrityError
from dprelease.identity.signing import PrivateKey
from dprelease.mpc import encryption
from dprelease.mpc.correlated_randomness import CorrelatedRandomness, deal, read_randomness
from dprelease.mpc.encryption import ColumnCipher, Context, Draw
from dprelease.mpc.matrix_product import masked, share
from dprelease.mpc.messages import Kind, Message, MessageHeader, message_name, session_digest
from dprelease.mpc.ring import Words
from dprelease.mpc.round import Round
from dprelease.mpc.schedule import COORDINATOR, TAG_BYTES, WORD_BYTES, Pair, Schedule
from dprelease.mpc.storage import SessionStorage, write_hashed


class Exchange:
    """Our side of one session.

    Args:
        at: the round, with a hello of every party.
        party: our name.
        identity: our identity key, which signs.
        session_key: our session key.
        storage: where our messages are frozen.
        fetch: the body of a message for us, in pieces.
        draw: secret randomness, so many bytes.
    """

    def __init__(
        self,
        at: Round[Schedule],
        party: str,
        identity: PrivateKey,
        session_key: X25519PrivateKey,
        storage: SessionStorage,
        fetch: Callable[[MessageHeader], Iterator[bytes]],
        draw: Draw,
    ) -> None:
        self._at = at
        self._schedule = at.schedule
        self._party = party
        self._signed = partial(at.message, identity, party)
        self._session_key = session_key
        self._storage = storage
        self._fetch = fetch
        self._draw = draw

    def deal(self) -> None:
        """Deal for the pairs that are ours to deal for; freeze the sealed deals all together. The seeds end here."""
        made = deal(self._schedule, self._party, self._draw)
        self._storage.freeze([self._sealed("deal", receiver, "", message) for receiver, message in made.items()])

    def fetch_deal(self, dealer: str) -> bytes | None:
        """A party's deal to us, as it came; None while it is not there."""
        header = self._at.find("deal", dealer, self._party)
        return None if header is None else b"".join(self._fetch(header))

    def open_deal(self, dealer: str, sealed: bytes) -> CorrelatedRandomness:
        """Open what was dealt to us.

        Raises:
            IntegrityError: it was not sealed to us for this session, or has another shape.
        """
        message = encryption.unseal(self._session_key, sealed, self._at.context("deal", dealer, self._party))
        return read_randomness(message, self._schedule, self._party, dealer)

    def mask(self, codes: Codes, dealt: CorrelatedRandomness) -> None:
        """Mask our columns under one dealer's mask, encrypt them chunk by chunk, and freeze them with their keys.

        Args:
            codes: (n, d) our variables.
            dealt: what that dealer dealt to us.
        """
        key, dealer = encryption.new_content_key(self._draw), dealt.dealer
        cipher = ColumnCipher(key, self._at.context("columns", self._party, "", dealer))
        chunks = (chunk.astype("<u8", copy=False).data.cast("B") for chunk in masked(codes, dealt.mask, self._schedule))
        body = write_hashed(self._storage, message_name("columns", dealer), cipher.encrypted(chunks))
        receivers = self._schedule.partners(self._party, dealer)
        columns = self._signed("columns", receivers, dealer, encryption.commitment(key), body)
        self._storage.freeze([columns, *(self._sealed("key", receiver, dealer, key) for receiver in receivers)])

    def share(self, pair: Pair, codes: Codes, dealt: CorrelatedRandomness) -> Words:
        """Our share of a pair's product, from the peer's masked columns.

        Args:
            pair: one of ours.
            codes: (n, d) our variables.
            dealt: what the pair's dealer dealt to us.

        Raises:
            IntegrityError: the peer's columns or their key are not what it signed, or no elements, or under a mask that we dealt.
        """
        peer = self._columns(pair.other(self._party), pair.dealer)
        return share(pair, self._party, codes, dealt, peer, self._schedule)

    def shared_masks(self) -> Mapping[str, bytes]:
        """The seed that we share with each peer, by which our blocks' masks cancel.

        Raises:
            IntegrityError: a peer's session key is not one; it is named.
        """
        return self._at.shared_seeds(self._party, self._session_key)

    def _columns(self, sender: str, dealer: str) -> Iterator[Words]:
        if dealer == self._party:  # the schedule has no such pair; the last door if a schedule were ever wrong
            raise IntegrityError(f"{sender} masked its columns with seeds that we dealt; we do not open them")
        columns = self._at.find("columns", sender, self._party, dealer)
        wrapped = self._at.find("key", sender, self._party, dealer)
        if columns is None or wrapped is None:
            raise IntegrityError(f"the masked columns of {sender} or their key are gone from the relay")
        key = encryption.unseal(
            self._session_key,
            b"".join(self._fetch(wrapped)),
            self._at.context("key", sender, self._party, dealer),
        )
        if encryption.commitment(key) != columns.payload:
            raise IntegrityError(f"{sender} sent another key for its columns than it signed")
        cipher = ColumnCipher(key, self._at.context("columns", sender, "", dealer))
        width, rows = self._schedule.widths[sender], self._schedule.rows
        counts = [min(self._schedule.chunk_rows, rows - start) for start in range(0, rows, self._schedule.chunk_rows)]
        sizes = (WORD_BYTES * width * count + TAG_BYTES for count in counts)
        for plain in cipher.opened(self._fetch(columns), sizes):
            words = np.frombuffer(plain, "<u8").reshape(-1, width)
            yield self._schedule.modulus.canonical(words, f"a chunk of the masked columns of {sender}")

    def _sealed(self, kind: Kind, receiver: str, dealer: str, message: bytes) -> Message:
        context = self._at.context(kind, self._party, receiver, dealer)
        body = encryption.seal(self._at.session_key(receiver), message, context, self._draw)
        self._storage.keep_body(message_name(kind, dealer, receiver), body)
        return self._signed(kind, (receiver,), dealer, "", (len(body), hashlib.sha256(body).hexdigest()))


def seal_deals(schedule: Schedule, hellos: Sequence[MessageHeader], messages: Mapping[str, bytes]) -> dict[str, bytes]:
    """Answer of the coordinator to each party: its deal, sealed to the session key that it offered.

    Args:
        schedule: the public parameters.
        hellos: one of each party, of one round, in the parties' order.
        messages: party to its deal, from `correlated_randomness.deal`.

    Raises:
        IntegrityError: a session key is not one; the party is named.
    """
    session, found = session_digest(hellos), {}
    for header in hellos:
        context = Context("deal", schedule.task, session, COORDINATOR, header.sender, "")
        try:
            found[header.sender] = encryption.seal(bytes.fromhex(header.payload), messages[header.sender], context)
        except IntegrityError as error:
            raise IntegrityError(f"{header.sender} offered something that is not a session key") from error
    return found
