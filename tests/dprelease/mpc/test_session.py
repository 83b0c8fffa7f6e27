"""One party's state machine: exact products from matrices, widths and a digest, whoever drives it and however often it restarts."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from dprelease.arrays import Codes
from dprelease.canonical import sha256
from dprelease.errors import Conflict, IntegrityError
from dprelease.identity.signing import PrivateKey, new_private_key
from dprelease.mpc.encryption import Draw
from dprelease.mpc.exchange import SessionEnvironment, seal_answer, seal_deals
from dprelease.mpc.messages import Message, MessageHeader, session_digest
from dprelease.mpc.modulus import FIELD, RING
from dprelease.mpc.proof.claim import Bits, Claim, GridInterval
from dprelease.mpc.schedule import COORDINATOR, DealtSeeds, Schedule, deal
from dprelease.mpc.session import Products, Session
from dprelease.mpc.storage import MemorySessionStorage

NAMES = ("a", "b", "c")
KEYS = {name: new_private_key() for name in (*NAMES, "d", "e", "f")}


def schedule_for(*widths: int, rotating: bool, proofs: bool = False, pooling: int = 1) -> Schedule:
    named = dict(zip(NAMES, widths, strict=False))
    claims = {name: Claim((GridInterval(-1024, 1024),) * width) for name, width in named.items()} if proofs else {}
    task, modulus = sha256(b"what it is for"), FIELD if proofs else RING
    return Schedule(task, named, 7, 10, pooling, rotating, modulus, claims)


@dataclass
class Driver:
    """Lists, bodies and the coordinator in memory; every step is a fresh session over the same storage."""

    schedule: Schedule
    listed: dict[MessageHeader, tuple[Message, bytes]] = field(default_factory=dict)
    dealt: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    identities: dict[str, PrivateKey] = field(default_factory=lambda: dict(KEYS))
    draw: Draw = secrets.token_bytes

    def __post_init__(self) -> None:
        generator = np.random.default_rng(3)
        self.storages = {name: MemorySessionStorage() for name in self.schedule.parties}
        self.seeds = {name: DealtSeeds() for name in (*self.schedule.parties, COORDINATOR)}
        self.checked = {name: set[Message]() for name in self.schedule.parties}
        self.matrices: dict[str, Codes] = {
            name: generator.integers(-1024, 1025, (self.schedule.rows, width)).astype(np.int32)
            for name, width in self.schedule.widths.items()
        }

    def session(self, party: str) -> Session:
        outside = SessionEnvironment(
            fetch=self.fetch,
            request_deal=partial(self.request, party),
            request_answer=self.request_answer,
            use_seeds=lambda digests, session, dealer: self.told.append(f"{party} uses seeds"),
            charge=lambda: self.told.append(f"{party} is charged"),
            matrix=lambda: self.matrices[party],
            bits=partial(self.bits, party),
        )
        keys = {name: KEYS[name].public_key() for name in self.schedule.parties}
        said = ["5e" * 32] * len(keys)
        return Session(
            self.schedule,
            party,
            self.identities[party],
            keys,
            said,
            self.storages[party],
            outside,
            self.draw,
            self.checked[party],
            self.seeds[party],
        )

    def bits(self, party: str, claim: Claim) -> Bits:
        return claim.bits(self.matrices[party])

    def fetch(self, header: MessageHeader) -> Iterator[bytes]:
        body = self.listed[header][1]
        yield from (body[:5], body[5:])

    def request(self, party: str, hellos: list[bytes]) -> bytes:
        headers = [Message.from_bytes(data).header for data in hellos]
        session = session_digest(headers)
        if session not in self.dealt:
            made = deal(self.schedule, COORDINATOR, kept=self.seeds[COORDINATOR])
            self.dealt[session] = seal_deals(self.schedule, headers, made)
        return self.dealt[session][party]

    def request_answer(self, asked: Message, body: bytes) -> bytes:
        header = asked.header
        hellos = [
            message.header
            for message in self.messages()
            if (message.header.kind, message.header.round) == ("hello", header.round)
        ]
        answer = self.seeds[COORDINATOR].answer(header.session, header.dealer, header.sender, body)
        return seal_answer(self.schedule, sorted(hellos, key=lambda each: each.sender), header, answer)

    def messages(self) -> tuple[Message, ...]:
        return tuple(message for message, _ in self.listed.values())

    def look(self, party: str) -> str | Products:
        """As far as it goes, by a fresh process for every step."""
        while True:
            for message in self.session(party).receive(self.messages()):
                if message.header not in self.listed:
                    self.told.append(f"{party} sends {message.header.kind}")
                    self.listed[message.header] = message, self.storages[party].read_body(message)
            session = self.session(party)
            session.receive(self.messages())
            said = session.advance()
            if said is not None:
                return said

    def run(self, order: str) -> dict[str, Products]:
        made: dict[str, Products] = {}
        for _ in range(30):
            for party in order:
                if party not in made and isinstance(said := self.look(party), Products):
                    made[party] = said
        assert set(made) == set(self.schedule.parties)
        return made


CASES = [((2, 1), False), ((2, 1, 3), True), ((1, 4, 2), False)]


@pytest.mark.parametrize(("widths", "rotating"), CASES)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("proofs", [False, True])
def test_shares_of_every_pair_add_up_to_the_product(
    widths: tuple[int, ...], rotating: bool, backwards: bool, proofs: bool
) -> None:
    driver = Driver(schedule_for(*widths, rotating=rotating, proofs=proofs))
    made = driver.run("".join(driver.schedule.parties)[:: -1 if backwards else 1])
    for pair in driver.schedule.pairs:
        modulus = driver.schedule.modulus
        total = modulus.signed(modulus.add(made[pair.first].shares[pair], made[pair.second].shares[pair]))
        left, right = (driver.matrices[name].astype(np.int64) for name in (pair.first, pair.second))
        assert (total == left.T @ right).all()
        assert made[pair.first].masks[pair.second] == made[pair.second].masks[pair.first]
    for name, products in made.items():
        assert {pair for pair in driver.schedule.pairs if pair.has(name)} == set(products.shares)
        assert products.matrix is driver.matrices[name]


def test_each_step_comes_after_those_it_rests_on() -> None:
    driver = Driver(schedule_for(2, 1, 3, rotating=True))
    driver.run("abc")
    for name in NAMES:
        steps = [each.removeprefix(f"{name} ") for each in driver.told if each.startswith(f"{name} ")]
        first = {what: steps.index(what) for what in steps}
        order = (
            "sends hello",
            "sends deal",
            "uses seeds",
            "is charged",
            "sends columns",
            "sends key",
            "sends transcript",
        )
        assert [*first] == list(order)
        assert [first[what] for what in order] == sorted(first.values())
        assert steps.count("is charged") == 1


def test_without_a_charge_nothing_masked_is_made() -> None:
    driver = Driver(schedule_for(2, 1, rotating=False))
    driver.look("a")
    driver.look("b")

    def refuse() -> None:
        raise Conflict("nothing is reserved")

    session = driver.session("a")
    session.receive(driver.messages())
    session._outside = replace(session._outside, charge=refuse)
    with pytest.raises(Conflict):
        session.advance()
    assert [each.header.kind for each in driver.storages["a"].messages()] == ["hello"]
    assert driver.storages["a"]._bodies == {}


def test_a_message_for_another_task_is_refused() -> None:
    driver, other = (Driver(schedule_for(2, 1, rotating=False)) for _ in range(2))
    object.__setattr__(other.schedule, "task", sha256(b"something else"))
    other.look("b")
    with pytest.raises(IntegrityError, match="a message of b belongs to another release"):
        driver.session("a").receive(other.messages())


def test_a_party_without_its_state_begins_the_next_round_until_its_transcript_is_out() -> None:
    driver = Driver(schedule_for(2, 1, rotating=False))
    driver.look("a")
    driver.storages["a"] = MemorySessionStorage()
    driver.session("a").receive(driver.messages())
    state = driver.storages["a"].state()
    assert state is not None
    assert state.round == 2
    driver = Driver(schedule_for(2, 1, rotating=False))
    for name in "abab":
        driver.look(name)
    driver.storages["a"] = MemorySessionStorage()
    with pytest.raises(IntegrityError, match="our state is older than what we have sent"):
        driver.session("a").receive(driver.messages())


def test_whoever_signs_with_another_key_is_not_believed() -> None:
    driver = Driver(schedule_for(2, 1, rotating=False))
    driver.identities["b"] = new_private_key()
    with pytest.raises(IntegrityError, match="in the name of b that its key did not sign"):
        driver.look("b")


def test_its_randomness_is_what_is_handed_in() -> None:
    """Two runs over the same bytes send the same headers and bodies; signatures aside, nothing else is drawn."""

    def sent() -> dict[MessageHeader, bytes]:
        driver, generator = Driver(schedule_for(2, 1, 3, rotating=True)), np.random.default_rng(11)
        driver.matrices = {name: matrix * 0 + 1 for name, matrix in driver.matrices.items()}
        driver.draw = generator.bytes
        driver.run("abc")
        return {header: body for header, (_, body) in driver.listed.items()}

    assert sent() == sent()
