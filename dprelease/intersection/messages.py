"""Signed messages of an alignment run, under the header that all sessions between hospitals have.

    hello        the sender's session key for one round; no body
    points       somebody's elements under the secrets that they have passed so far, to the next party of the ring
    table        the sender's masked table, encrypted under a content key that nobody else has yet
    transcript   what the sender has seen of points and tables; no body
    key          that content key, sealed to one receiver
    result       keyed digest of the common patients that the sender found; no body

Source: docs/protocol.md, "Aligning"; bytes in docs/format.md 20.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dprelease.canonical import canonical_bytes, sha256
from dprelease.errors import Irreparable
from dprelease.identity.signing import PublicKey
from dprelease.intersection.ring import Ring
from dprelease.mpc.messages import Message, MessageHeader, check_signature


def check_message(message: Message, ring: Ring, keys: Mapping[str, PublicKey] | None = None) -> None:
    """Check that a message is one that this run calls for; without keys only its shape, as the relay does.

    Raises:
        IntegrityError: it is not, or was not signed by its sender.
    """
    if keys is not None:
        check_signature(message, keys)
    header = message.header
    if not ring.fits(header):
        words = f"{header.sender} sent a {header.kind} that this alignment run does not have"
        raise Irreparable(words, signer=header.sender)


def transcript_digest(ring: Ring, session: str, seen: Iterable[MessageHeader]) -> str:
    """Statement that every party signs before any table can be opened: all points and tables of the session, in any order."""
    digests = sorted(header.digest() for header in seen)
    said = {"task": ring.task, "session": session, "seen": digests}
    return sha256(b"dprelease/intersection/transcript/v1" + canonical_bytes(said))
