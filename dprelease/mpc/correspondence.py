"""Messages of one session at one party, whatever is computed: ours are signed, sealed and kept, others' fetched and opened.

Source: docs/protocol.md, steps 2 and 4, and "Aligning".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.identity.signing import PrivateKey
from dprelease.mpc import encryption
from dprelease.mpc.encryption import ColumnCipher, Draw
from dprelease.mpc.messages import Kind, Message, MessageHeader, message_name, name_of
from dprelease.mpc.round import Public, Round
from dprelease.mpc.schedule import TAG_BYTES
from dprelease.mpc.storage import SessionStorage, write_hashed


@dataclass(eq=False, repr=False)
class Correspondence(Generic[Public]):
    """Our side of one session; it can be made once every party's session key is known.

    Attributes:
        at: the round, with a hello of every party.
        party: our name.
        identity: our identity key, which signs.
        session_key: our session key, from which all our secrets are derived: a restart has the same ones.
        storage: where our messages are frozen and our secrets kept.
        fetch: the body of a message for us, in pieces.
        draw: secret randomness, so many bytes.
    """

    at: Round[Public]
    party: str
    identity: PrivateKey
    session_key: X25519PrivateKey
    storage: SessionStorage
    fetch: Callable[[MessageHeader], Iterator[bytes]]
    draw: Draw

    @property
    def signed(self) -> partial[Message]:
        """`Round.message` of ours, given what it says."""
        return partial(self.at.message, self.identity, self.party)

    def secret(self, purpose: str, dealer: str = "") -> bytes:
        """32 secret bytes of this session, the same ones for the same purpose and dealer."""
        ours = encryption.private_bytes(self.session_key)
        return encryption.derive(ours, self.at.context(f"own-{purpose}", self.party, "", dealer))

    def shared_seeds(self, purpose: str) -> Mapping[str, bytes]:
        """The seed that we share with each peer for one purpose; raises `IntegrityError`, which names it, if its key is none."""
        return self.at.shared_seeds(self.party, self.session_key, purpose)

    def sealed(self, kind: Kind, receiver: str, dealer: str, message: bytes, purpose: str = "") -> Message:
        """A message of ours to one party, sealed to its session key for a purpose, by default its kind; its body is kept."""
        context = self.at.context(purpose or kind, self.party, receiver, dealer)
        body = encryption.seal(self.at.session_key(receiver), message, context, self.draw)
        self.storage.keep_body(message_name(kind, dealer, receiver), body)
        return self.signed(kind, (receiver,), dealer, "", _described(body))

    def clear(
        self, kind: Kind, payload: str, receivers: tuple[str, ...] = (), dealer: str = "", data: bytes = b""
    ) -> Message:
        """A message of ours that anybody may read, with its body, which is kept; arguments as of `MessageHeader`."""
        message = self.signed(kind, receivers, dealer, payload, _described(data))
        if data:
            self.storage.keep_body(name_of(message.header), data)
        return message

    def shown(
        self,
        kind: Kind,
        receivers: tuple[str, ...],
        dealer: str,
        payload: str,
        key: bytes,
        chunks: Iterable[bytes | memoryview],
    ) -> Message:
        """A message of ours with a long body, encrypted chunk by chunk under a content key; the body is kept."""
        cipher = ColumnCipher(key, self.at.context(kind, self.party, "", dealer))
        body = write_hashed(self.storage, message_name(kind, dealer), cipher.encrypted(chunks))
        return self.signed(kind, receivers, dealer, payload, body)

    def plain(self, shown: MessageHeader, key: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
        """The chunks of what a peer has `shown`, of so many bytes each; raises `IntegrityError` if one was altered."""
        cipher = ColumnCipher(key, self.at.context(shown.kind, shown.sender, "", shown.dealer))
        return cipher.opened(self.fetch(shown), (size + TAG_BYTES for size in sizes))

    def unsealed(self, purpose: str, sender: str, dealer: str, sealed: bytes) -> bytes:
        """A message that is sealed to us.

        Raises:
            IntegrityError: it was altered, or made for another purpose, session, sender or receiver.
        """
        return encryption.unseal(self.session_key, sealed, self.at.context(purpose, sender, self.party, dealer))

    def opened(self, header: MessageHeader, purpose: str = "") -> bytes:
        """The body of a message that is sealed to us, by default for the purpose that is its kind; raises as `unsealed`."""
        return self.unsealed(purpose or header.kind, header.sender, header.dealer, self.fetched(header))

    def fetched(self, header: MessageHeader) -> bytes:
        """The body of a message, as it came."""
        return b"".join(self.fetch(header))


def _described(body: bytes) -> tuple[int, str]:
    return len(body), hashlib.sha256(body).hexdigest()
