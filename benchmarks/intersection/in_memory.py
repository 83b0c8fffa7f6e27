"""All parties' sessions in one process: every message is made, sealed, signed, listed, opened and checked as between many.

Nothing is kept and nothing can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from dprelease.errors import IntegrityError
from dprelease.identity.signing import PrivateKey
from dprelease.intersection.key_value_store import Bytes
from dprelease.intersection.ring import Ring
from dprelease.intersection.session import AlignmentSession, Common, RunEnvironment
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.mpc.storage import MemorySessionStorage


def intersect(
    ring: Ring,
    elements: Mapping[str, Bytes],
    identities: Mapping[str, PrivateKey],
    workers: int | None = None,
    step: Callable[[str], AbstractContextManager[object]] = lambda party: nullcontext(),
) -> dict[str, Common]:
    """Which of its own elements every party finds to be common.

    Args:
        ring: the public parameters.
        elements: party to its (n, 32) distinct elements.
        identities: party to the key that signs for it.
        workers: processes to multiply in; None for as many as there are cores.
        step: called with the party of a step; the step is done within it.

    Raises:
        IntegrityError: a message is not what its sender signed, or the parties found different elements.
        InvalidInput: elements are not as many as announced, or not distinct.
    """
    listed: dict[MessageHeader, tuple[Message, bytes]] = {}
    keys = {party: key.public_key() for party, key in identities.items()}

    def fetch(header: MessageHeader) -> Iterator[bytes]:
        yield listed[header][1]

    def look(party: str, session: AlignmentSession, storage: MemorySessionStorage) -> bool:
        """One step, and its messages delivered; whether anything was done."""
        with step(party):
            session.receive(tuple(message for message, _ in listed.values()))
            said = session.advance()
        if isinstance(said, Common):
            found[party] = said
        for message in session.receive(tuple(message for message, _ in listed.values())):
            listed[message.header] = message, storage.read_body(message)
        return said is None

    storages = {party: MemorySessionStorage() for party in ring.parties}
    found: dict[str, Common] = {}
    looks = [
        partial(
            look,
            party,
            AlignmentSession(ring, party, identities[party], keys, storage, outside, workers=workers),
            storage,
        )
        for party, storage in storages.items()
        for outside in [RunEnvironment(fetch, lambda: None, partial(elements.__getitem__, party))]
    ]
    while len(found) < len(looks):
        done = [each() for each in looks]
        if not any(done) and len(found) < len(looks):
            raise IntegrityError("a run ends before its result")
    return found
