"""Signed messages of a session: headers that anybody may check, with bodies sealed to their receivers.

A header says what the message is and is signed with the sender's identity key, which the receivers have pinned. The hub's
relay stores and hands out messages without being able to open, alter or invent one.

    hello        the sender's session key for one round; no body
    deal         dealt randomness, sealed to one receiver
    columns      masked columns under one dealer's mask, encrypted under a content key
    key          that content key, sealed to one receiver
    transcript   what the sender has seen of the session; no body

A session with proofs has more (`dprelease.mpc.proofs`, docs/range_proofs.md 3):

    bits         masked bits of those columns, encrypted under a key derived from the content key
    challenge-1  a receiver's first challenge to a prover, 32 bytes for everybody to see; challenge-2 is like it
    matrices     a prover's answer to the first, sealed to the receiver; lines is the one to the second
    challenge-3  all three, from a receiver to the dealer
    answer       the dealer's, sealed to the receiver
    coin         a fresh coin about the columns of the party before the sender, where parties deal for one another; no body
    checked      the sender has accepted all proofs of the session; with what it adds to the comparison of columns

An alignment has hello, key and transcript as well, and kinds of its own (`dprelease.intersection.ring`).

Source: docs/protocol.md, steps 2 to 5; bytes in docs/format.md 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from dprelease.canonical import Digest, Name, Value, canonical_bytes, sha256
from dprelease.errors import IntegrityError
from dprelease.identity.signing import SESSION, PrivateKey, PublicKey, sign, verify
from dprelease.mpc.schedule import SEAL_BYTES, SEED_BYTES, Schedule

NOTHING = sha256(b"")
"""Digest of an empty body."""

MOST_ROUNDS = 64
"""After so many fresh starts something is wrong that starting again does not mend."""

Kind = Literal[
    "hello",
    "deal",
    "columns",
    "bits",
    "key",
    "transcript",
    "coin",
    "challenge-1",
    "matrices",
    "challenge-2",
    "lines",
    "challenge-3",
    "answer",
    "checked",
    "points",
    "table",
    "result",
]

CHALLENGES: tuple[Kind, ...] = ("challenge-1", "challenge-2", "challenge-3")
"""From a receiver; the payload is the digest of what is answered, so that no challenge is about something else."""
SHOWN: tuple[Kind, ...] = ("columns", "bits")
"""All that a party shows of its matrix, under one dealer's mask; transcripts name each."""
TO_ONE: frozenset[Kind] = frozenset({"deal", "key", "matrices", "lines", "answer", *CHALLENGES})
"""For one receiver; a third challenge to the coordinator, which is no party, for none."""


class MessageHeader(Value):
    """Header of a message.

    Attributes:
        task: digest of what the products are for.
        round: which attempt at a session, from 1.
        session: digest of the session; empty in a hello, which is there before it.
        kind: see above.
        sender: party that made it.
        receivers: parties that may have the body, in the parties' order; none for a message without one.
        dealer: dealer whose mask is on columns and bits, empty where the coordinator deals; of points, the party whose patients
            they stand for; of a third challenge and its answer, the prover they are about; empty for other kinds.
        payload: session key (hello), commitment to the content key (columns, table), digest of the transcript (transcript,
            checked), of the header or transcript that is answered (challenges), or of the common patients (result); 32 random
            bytes (coin).
        size: bytes of the body.
        sha256: their digest.
    """

    format: Literal[1] = 1
    task: Digest
    round: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    session: Digest | Literal[""] = ""
    kind: Kind
    sender: Name
    receivers: tuple[Name, ...] = ()
    dealer: Name | Literal[""] = ""
    payload: Digest | Literal[""] = ""
    size: Annotated[int, Field(ge=0)] = 0
    sha256: Digest = NOTHING

    @property
    def place(self) -> tuple[int, str, str, str, str]:
        """Place that it belongs to: at most one of two messages in one place is genuine."""
        return self.round, self.kind, self.sender, self.dealer, ",".join(self.receivers)


class Message(Value):
    """A signed header."""

    header: MessageHeader
    signature: str


def sign_message(key: PrivateKey, header: MessageHeader) -> Message:
    """A header with its sender's signature."""
    return Message(header=header, signature=sign(key, SESSION, header.to_bytes()))


def check_message(message: Message, schedule: Schedule, keys: Mapping[str, PublicKey] | None = None) -> None:
    """Check that a message is one that this schedule calls for; without keys only its shape, as the relay does.

    Raises:
        IntegrityError: it is not, or was not signed by its sender.
    """
    header = message.header
    if keys is not None:
        check_signature(message, keys)
    if header.task != schedule.task or header.sender not in schedule.parties:
        raise IntegrityError(f"a message of {header.sender} belongs to another release")
    if not _fits(header, schedule):
        raise IntegrityError(f"{header.sender} sent a {header.kind} that the schedule of this release does not have")


def check_signature(message: Message, keys: Mapping[str, PublicKey]) -> None:
    """Check that the sender signed a message.

    Raises:
        IntegrityError: it did not, or has no key here.
    """
    # Before anything else is said about the sender: whoever holds the messages could otherwise speak in its name.
    header = message.header
    key = keys.get(header.sender)
    try:
        if key is None:
            raise IntegrityError("it is no party here")
        verify(key, message.signature, SESSION, header.to_bytes())
    except IntegrityError as error:
        raise IntegrityError(
            f"the relay lists a {header.kind} in the name of {header.sender} that its key did not sign"
        ) from error


def _fits(header: MessageHeader, schedule: Schedule) -> bool:
    bodiless = header.size == 0 and header.sha256 == NOTHING and not header.receivers and not header.dealer
    if header.kind == "hello":
        return bodiless and not header.session and bool(header.payload)
    if not header.session:
        return False
    if header.kind == "transcript":
        return bodiless and bool(header.payload)
    if header.kind not in ("columns", "deal", "key"):
        return bool(schedule.claims) and _fits_proofs(header, schedule, bodiless=bodiless)
    if header.kind == "columns":
        receivers = schedule.partners(header.sender, header.dealer)
        size = schedule.columns_size(header.sender)
        return bool(receivers) and (header.receivers, header.size) == (receivers, size) and bool(header.payload)
    if len(header.receivers) != 1 or header.payload:
        return False
    receiver = header.receivers[0]
    if header.kind == "key":
        fits = receiver in schedule.partners(header.sender, header.dealer)
        return fits and header.size == SEED_BYTES + SEAL_BYTES
    return (
        receiver in schedule.receivers(header.sender)
        and not header.dealer
        and header.size == schedule.deal_size(receiver, header.sender) + SEAL_BYTES
    )


def _fits_proofs(header: MessageHeader, schedule: Schedule, *, bodiless: bool) -> bool:
    kind, sender, receivers = header.kind, header.sender, header.receivers
    if kind == "coin":
        return bodiless and bool(header.payload) and bool(schedule.checked_size)
    if kind == "checked":
        others = tuple(party for party in schedule.parties if party != sender)
        sized = not header.dealer and (receivers, header.size) == (others, schedule.checked_size)
        return bool(header.payload) and (sized if schedule.checked_size else bodiless)
    if kind == "bits":
        verifiers = schedule.verifiers(sender, header.dealer)
        fits = bool(verifiers) and not header.payload
        return fits and (receivers, header.size) == (verifiers, schedule.bits_size(sender))
    to, about = "".join(receivers), header.dealer
    proofs = {"challenge-3": (about, sender), "answer": (about, to), "matrices": (sender, to), "lines": (sender, to)}
    prover, receiver = proofs.get(kind, (to, sender))
    pair, places = schedule.pair_of(prover, receiver), (sender, receivers, about)
    if pair is None or receiver not in schedule.verifiers(prover, pair.dealer):
        return False
    if bool(header.payload) != (kind in CHALLENGES):
        return False
    if kind == "challenge-3":
        fits = places == (receiver, tuple(filter(None, [pair.dealer])), prover)
    elif kind == "answer":
        fits = places == (pair.dealer, (receiver,), prover)
    else:
        fits = places == ((receiver, (prover,), "") if kind in CHALLENGES else (prover, (receiver,), ""))
    return fits and header.size == schedule.message_size(kind, prover)


def session_digest(hellos: Iterable[MessageHeader]) -> str:
    """The session that a full set of hellos, in the parties' order, makes; every later message is bound to it."""
    return _session_digest(tuple(hellos))


@lru_cache(maxsize=16)
def _session_digest(hellos: tuple[MessageHeader, ...]) -> str:
    return sha256(canonical_bytes([header.model_dump(mode="json") for header in hellos]))


def name_of(header: MessageHeader) -> str:
    """A name for a message among its sender's own, fit for a file; ``+`` is in no party's name."""
    return message_name(header.kind, header.dealer, "".join(header.receivers) if header.kind in TO_ONE else "")


def message_name(kind: str, dealer: str = "", receiver: str = "") -> str:
    """The same, before there is a header."""
    return f"{kind}+{dealer}+{receiver}"
