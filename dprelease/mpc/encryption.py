"""Public-key encryption to one recipient (X25519, HKDF, ChaCha20-Poly1305), through a relay that is trusted with nothing.

A message to one recipient is sealed to its session key with a fresh X25519 key that is thrown away at once, so that not
even its sender can open it again: a dealer that has sealed its seeds and forgotten them holds nothing. Masked columns
are encrypted once, under a content key that is sealed to each recipient. HKDF-SHA-256 has a context for every purpose;
the same context is ChaCha20-Poly1305's associated data. All keys are used for one message or one file only.

Source: docs/protocol.md, step 2; bytes in docs/format.md 16.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dprelease.canonical import canonical_bytes
from dprelease.errors import IntegrityError

Draw = Callable[[int], bytes]
"""Secret randomness: so many bytes, from the operating system outside tests."""

KEY_BYTES = 32
_NONCE_BYTES = 12
_NO_NONCE = bytes(_NONCE_BYTES)  # under a key that seals one message, any nonce will do


@dataclass(frozen=True)
class Context:
    """Context that a ciphertext is bound to.

    Attributes:
        purpose: what it is for; one for each use of a key.
        task: digest of what the products are for.
        session: digest of the session.
        sender: who made it.
        receiver: whom it is for; empty for columns, whose content key is sealed to each receiver.
        dealer: whose mask or dealing it is about; may be empty.
    """

    purpose: str
    task: str
    session: str
    sender: str
    receiver: str
    dealer: str

    def to_bytes(self) -> bytes:
        """Canonical bytes, beginning with the protocol's name and version."""
        return b"dprelease/moments/v1|" + canonical_bytes(vars(self))


def new_session_key(draw: Draw = secrets.token_bytes) -> X25519PrivateKey:
    """A fresh key pair, from the kernel's entropy at this moment: a copied process does not make the same one."""
    return X25519PrivateKey.from_private_bytes(draw(KEY_BYTES))


def public_bytes(key: X25519PrivateKey) -> bytes:
    """The 32 public bytes of a session key."""
    return key.public_key().public_bytes_raw()


def private_bytes(key: X25519PrivateKey) -> bytes:
    """The 32 secret bytes of a session key, for the party's own disk."""
    return key.private_bytes_raw()


def seal(receiver: bytes, message: bytes, context: Context, draw: Draw = secrets.token_bytes) -> bytes:
    """Encrypt to one recipient: ephemeral public key (32 bytes), ciphertext, tag (16 bytes).

    Raises:
        IntegrityError: the receiver's key is not one.
    """
    once = new_session_key(draw)
    key = _derive(_agree(once, receiver), public_bytes(once) + receiver, context)
    return public_bytes(once) + ChaCha20Poly1305(key).encrypt(_NO_NONCE, message, context.to_bytes())


def unseal(key: X25519PrivateKey, sealed: bytes, context: Context) -> bytes:
    """Decrypt what was sealed to us.

    Raises:
        IntegrityError: it was altered, or made for another purpose, session, sender or receiver.
    """
    once = sealed[:KEY_BYTES]
    try:
        shared = _derive(_agree(key, once), once + public_bytes(key), context)
        return ChaCha20Poly1305(shared).decrypt(_NO_NONCE, sealed[KEY_BYTES:], context.to_bytes())
    except (InvalidTag, IntegrityError) as error:
        raise IntegrityError(
            f"what {context.sender or 'the coordinator'} sent does not open as a {context.purpose}"
        ) from error


def shared_seed(key: X25519PrivateKey, peer: bytes, context: Context) -> bytes:
    """The 32-byte seed that two parties of a session share and nobody else knows.

    It is the same at both, because the context has their names in the parties' order.

    Raises:
        IntegrityError: the peer's key is not one.
    """
    return _derive(_agree(key, peer), b"", context)


class ColumnCipher:
    """Encrypts or decrypts the chunks of one large body, such as masked columns, under a key of its own. Nonces count chunks."""

    def __init__(self, key: bytes, context: Context) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self._context = context

    def encrypted(self, chunks: Iterable[bytes | memoryview]) -> Iterator[bytes]:
        """The ciphertexts of all chunks."""
        return (self.encrypt(number, chunk) for number, chunk in enumerate(chunks))

    def opened(self, pieces: Iterator[bytes], sizes: Iterator[int]) -> Iterator[bytes]:
        """The plaintexts of chunks whose ciphertexts have these sizes, from a body that is checked as a whole by its last piece.

        Raises:
            IntegrityError: a chunk was altered, or is missing.
        """
        for number, part in enumerate(regroup(pieces, sizes)):
            try:
                chunk = self.decrypt(number, part)
            except IntegrityError:
                read_on(pieces)  # first, so that a relay that altered them is named and not their sender
                raise
            yield chunk
        read_on(pieces)

    def encrypt(self, number: int, chunk: bytes | memoryview) -> bytes:
        """A chunk's ciphertext, 16 bytes longer."""
        return self._cipher.encrypt(number.to_bytes(_NONCE_BYTES, "big"), chunk, self._context.to_bytes())

    def decrypt(self, number: int, chunk: bytes | memoryview) -> bytes:
        """A chunk's plaintext.

        Raises:
            IntegrityError: it was altered, is another chunk, or belongs elsewhere.
        """
        try:
            return self._cipher.decrypt(number.to_bytes(_NONCE_BYTES, "big"), chunk, self._context.to_bytes())
        except InvalidTag as error:
            raise IntegrityError(
                f"chunk {number} of the {self._context.purpose} of {self._context.sender} was altered"
            ) from error


def commitment(content_key: bytes) -> str:
    """Commitment that a sender signs about a content key: one ciphertext then has one plaintext. The cipher alone says less."""
    return hashlib.sha256(b"dprelease/moments/content-key/v1" + content_key).hexdigest()


def derive(secret: bytes, context: Context) -> bytes:
    """32 secret bytes from others, the same for the same context (HKDF)."""
    return _derive(secret, b"", context)


def derive_again(seed: bytes, counter: int) -> bytes:
    """The seed of further keystream 1, 2, ... below 2^32, the same for all who have the first 32 bytes (HKDF)."""
    context = b"dprelease/moments/again/v1" + counter.to_bytes(4, "big")
    return HKDF(hashes.SHA256(), KEY_BYTES, None, context).derive(seed)


def regroup(pieces: Iterator[bytes], sizes: Iterator[int]) -> Iterator[memoryview]:
    """The same bytes in pieces of given sizes.

    Raises:
        IntegrityError: there are fewer bytes than the sizes add up to.
    """
    waiting = bytearray()
    for size in sizes:
        while len(waiting) < size:
            piece = next(pieces, None)
            if piece is None:
                raise IntegrityError("a body ends before its last chunk")
            waiting += piece
        yield memoryview(bytes(waiting[:size]))
        del waiting[:size]


def read_on(pieces: Iterator[bytes]) -> None:
    """Read to the end: the check of the whole comes after the last piece."""
    for _ in pieces:
        pass


def _agree(key: X25519PrivateKey, peer: bytes) -> bytes:
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError as error:  # a wrong length, or a point of small order
        raise IntegrityError("a session key is not a usable X25519 key") from error


def _derive(shared: bytes, salt: bytes, context: Context) -> bytes:
    return HKDF(hashes.SHA256(), KEY_BYTES, salt or None, context.to_bytes()).derive(shared)
