"""All parties' sessions in one process: every message is made, sealed, signed, listed, opened and checked as between many.

For dry runs and tests. Nothing is kept and nothing can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial

from dprelease.arrays import Codes
from dprelease.errors import IntegrityError
from dprelease.identity.signing import PrivateKey
from dprelease.mpc.exchange import SessionEnvironment, seal_answer, seal_deals
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.mpc.proof.claim import Claim
from dprelease.mpc.schedule import COORDINATOR, DealtSeeds, Schedule, deal
from dprelease.mpc.session import Products, Session
from dprelease.mpc.storage import MemorySessionStorage

Step = Callable[[str], AbstractContextManager[None]]
"""Called with the name of a step; the step is done within it."""


def multiply(
    schedule: Schedule,
    matrices: Mapping[str, Codes],
    identities: Mapping[str, PrivateKey],
    commitments: Mapping[str, str],
    step: Step,
) -> dict[str, Products]:
    """Every party's shares of its products; commitments are what each has said about its matrix.

    Raises:
        IntegrityError: a message is not what its sender signed, or a matrix has another shape than the schedule says.
    """
    mailbox = _Mailbox(schedule)
    keys = {party: key.public_key() for party, key in identities.items()}
    said = [commitments[party] for party in schedule.parties]
    for party in schedule.parties:
        mailbox.storages[party] = MemorySessionStorage()
        outside = SessionEnvironment(
            fetch=mailbox.fetch,
            request_deal=partial(mailbox.answer, party),
            request_answer=mailbox.answer_proof,
            use_seeds=lambda *_: None,
            charge=lambda: None,
            matrix=partial(matrices.__getitem__, party),
            bits=partial(Claim.bits, codes=matrices[party]),
        )
        mailbox.sessions[party] = Session(
            schedule, party, identities[party], keys, said, mailbox.storages[party], outside
        )
    with step("exchange session keys"):
        mailbox.advance(schedule.parties)
    with step("deal randomness"):
        mailbox.advance(party for party in schedule.parties if schedule.dealt_by(party))
        mailbox.deal_as_coordinator()
    with step("mask and encrypt columns"):
        mailbox.advance(schedule.parties)
    with step("confirm what was seen"):
        mailbox.advance(schedule.parties)
    while schedule.claims and not mailbox.checked:
        with step("prove and check bounds"):
            mailbox.advance(schedule.parties)
    with step("multiply masked columns"):
        return {party: _finished(done) for party, done in mailbox.advance(schedule.parties).items()}


class _Mailbox:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._bodies: dict[MessageHeader, tuple[Message, bytes]] = {}
        self._dealt: dict[str, bytes] = {}
        self._seeds = DealtSeeds()
        self.sessions: dict[str, Session] = {}
        self.storages: dict[str, MemorySessionStorage] = {}

    def advance(self, parties: Iterable[str]) -> dict[str, str | Products | None]:
        """One step of each party, and its messages delivered; what its session said."""
        said = {}
        for party in parties:
            session = self.sessions[party]
            session.receive(self._listed)
            said[party] = session.advance()
            for message in session.receive(self._listed):
                self._bodies[message.header] = message, self.storages[party].read_body(message)
        return said

    @property
    def _listed(self) -> tuple[Message, ...]:
        return tuple(message for message, _ in self._bodies.values())

    def fetch(self, header: MessageHeader) -> Iterator[bytes]:
        yield self._bodies[header][1]

    def deal_as_coordinator(self) -> None:
        if self._schedule.dealt_by(COORDINATOR):
            hellos = [header for header in self._bodies if header.kind == "hello"]
            self._dealt = seal_deals(self._schedule, hellos, deal(self._schedule, COORDINATOR, kept=self._seeds))

    @property
    def checked(self) -> bool:
        return sum(header.kind == "checked" for header in self._bodies) == len(self._schedule.parties)

    def answer_proof(self, asked: Message, body: bytes) -> bytes:
        header, hellos = asked.header, [header for header in self._bodies if header.kind == "hello"]
        answer = self._seeds.answer(header.session, header.dealer, header.sender, body)
        return seal_answer(self._schedule, hellos, header, answer)

    def answer(self, party: str, hellos: list[bytes]) -> bytes:
        return self._dealt[party]


def _finished(done: str | Products | None) -> Products:
    if not isinstance(done, Products):
        raise IntegrityError(f"a session ends before its products: {done}")
    return done
