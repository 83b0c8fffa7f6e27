"""A hospital that cheats with parcels: one status, nobody gets what is not theirs, and the honest session goes through."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dprelease.errors import AccessDenied, Conflict, IntegrityError, InvalidInput, NotFound
from dprelease.mpc.messages import Message
from learner.hub.server import Hub
from tests.hostile.faults import Fault, Kind, each
from tests.learner.parcels import Hospitals, messages
from tests.learner.test_hub import Dial, Party, Public
from tests.learner.test_relay_service import Caller, Callers, bring, garbage, make, sealed, world
from tests.learner.world import FakeCoordinator, Sealed, World, eventually, pieces
from tests.support.certificates import mint

ORDERLY = "nobody gets it; the honest session goes through"
SILENT = "nothing is handed out; the honest session goes through"


__all__ = ["make", "sealed", "world"]


@pytest.fixture
def callers(hub: Hub, dial: Dial, world: World, sealed: Sealed) -> Callers:
    """Every hospital's side of the relay."""
    return {name: Caller(dial(hub.party_port, member), sealed.digest) for name, member in world.parties.items()}


@pytest.fixture
def honest(
    callers: Callers, make: Hospitals, hub: Hub, dial: Dial, world: World, sealed: Sealed, coordinator: FakeCoordinator
) -> Callable[[], None]:
    """The honest session goes through, each body reaches its receivers as it was sent, and the blocks are published."""

    def run() -> None:
        everything = list(make.everything())
        bring(callers, make, *everything)
        for name, caller in callers.items():
            assert {each.header for each in caller.listed()} == {
                each.header for each in make.concerning(name, everything)
            }
            for parcel in everything:
                if name in parcel.header.receivers:
                    body = b"".join(piece.data for piece in caller.fetch(parcel.header.digest()))
                    assert body == make.body(parcel)
        for name, member in world.parties.items():
            Party(dial(hub.party_port, member), sealed, name).upload()
        coordinator.wait(lambda: bool(coordinator.named("ReportPublication")))

    return run


def parcel(what: str, error: Any, act: Callable[[Hospitals], Message]) -> Fault:
    return Fault(f"a parcel: {what}", "hub", Kind.ANSWERED, error, ORDERLY, act)


def altered(make: Hospitals, honest: Message, **fields: Any) -> Message:
    return make.signed(honest.header.model_copy(update=fields))


PARCELS = [
    parcel("in another hospital's name", AccessDenied, lambda make: make.offer("south")),
    parcel(
        "not signed by its sender",
        IntegrityError,
        lambda make: make.columns("north", "west").model_copy(update={"signature": make.offer("north").signature}),
    ),
    parcel(
        "masked columns for their dealer",
        IntegrityError,
        lambda make: altered(make, make.columns("north", "west"), receivers=("west",)),
    ),
    parcel(
        "masked columns for nobody",
        IntegrityError,
        lambda make: altered(make, make.columns("north", "west"), receivers=()),
    ),
    parcel(
        "masked columns for the partner and their dealer",
        IntegrityError,
        lambda make: altered(make, make.columns("north", "west"), receivers=("south", "west")),
    ),
    parcel(
        "of a size that the release does not have",
        IntegrityError,
        lambda make: altered(make, make.columns("north", "west"), size=1 << 40),
    ),
    parcel(
        "a deal by whoever deals for another pair",
        IntegrityError,
        lambda make: altered(make, make.deal("south", "west"), sender="north"),
    ),
    parcel("a second offer in the same round", Conflict, lambda make: make.offer("north", key="another")),
    parcel(
        "of a session that no set of offers makes", Conflict, lambda make: make.transcript("north", session="0" * 64)
    ),
    parcel("of a round that nobody began", Conflict, lambda make: make.offer("north", 3)),
    parcel("of a release that nobody knows", NotFound, lambda make: altered(make, make.offer("north"), task="0" * 64)),
]


def test_a_parcel_that_has_no_place(callers: Callers, make: Hospitals, honest: Callable[[], None]) -> None:
    bring(callers, make, *(make.offer(party) for party in callers))

    for fault in PARCELS:
        with fault.refused() as caught:
            callers["north"].open(fault.act(make).to_bytes())
        fault.check_answer(caught)
        assert len(callers["south"].listed()) == 3
    honest()


GARBAGE = Fault("a parcel: no parcel at all", "hub", Kind.ANSWERED, InvalidInput, ORDERLY, lambda: b"\xff{}")


@each([GARBAGE])
def test_no_parcel_at_all(callers: Callers, honest: Callable[[], None], fault: Fault) -> None:
    with fault.refused() as caught:
        callers["north"].open(fault.act())
    fault.check_answer(caught)
    honest()


OTHER_BYTES = Fault(
    "a parcel: other bytes than it was signed for", "hub", Kind.ANSWERED, IntegrityError,
    ORDERLY, lambda body: bytes(len(body)),
)  # fmt: skip


@each([OTHER_BYTES])
def test_other_bytes_than_were_signed(
    callers: Callers, make: Hospitals, honest: Callable[[], None], fault: Fault
) -> None:
    bring(callers, make, *(make.offer(party) for party in callers))
    columns = make.columns("north", "west")
    north = callers["north"]
    north.open(columns.to_bytes())
    with fault.refused() as caught:
        north.send(messages(columns, pieces(fault.act(make.body(columns)))))
    fault.check_answer(caught)
    assert columns not in callers["south"].listed()
    honest()


ABANDONED = Fault(
    "a parcel: of a round that was abandoned for a later one", "hub", Kind.ANSWERED, Conflict,
    "the later round's session stays as it is", lambda make: make.transcript("north", 1),
)  # fmt: skip


@each([ABANDONED])
def test_a_parcel_of_an_abandoned_round(callers: Callers, make: Hospitals, fault: Fault) -> None:
    for number in (1, 2):
        bring(callers, make, *(make.offer(party, number) for party in callers))
    with fault.refused() as caught:
        callers["north"].open(fault.act(make).to_bytes())
    fault.check_answer(caught)
    second = list(make.everything(2))
    bring(callers, make, *second)
    concerning = make.concerning("south", second)
    assert {parcel.header for parcel in callers["south"].listed()} == {parcel.header for parcel in concerning}


Ask = Callable[[Callers, Hospitals], object]


def asks(what: str, error: Any, act: Ask) -> Fault:
    return Fault(f"a hospital asks the relay for {what}", "hub", Kind.ANSWERED, error, SILENT, act)


ASKED = [
    asks(
        "columns masked with what it dealt itself",
        AccessDenied,
        lambda callers, make: callers["west"].fetch(make.columns("north", "west").header.digest()),
    ),
    asks(
        "its own parcel",
        AccessDenied,
        lambda callers, make: callers["north"].fetch(make.columns("north", "west").header.digest()),
    ),
    asks(
        "a key for another",
        AccessDenied,
        lambda callers, make: callers["west"].fetch(make.key("north", "west", "south").header.digest()),
    ),
    asks("a parcel that is not there", NotFound, lambda callers, make: callers["south"].fetch(bytes(32))),
    asks("a parcel that is a path", NotFound, lambda callers, make: callers["south"].fetch(b"../../record.json")),
    asks(
        "what lies past a parcel's end",
        InvalidInput,
        lambda callers, make: callers["south"].fetch(make.columns("north", "west").header.digest(), (1 << 64) - 1),
    ),
]


def test_what_is_not_for_a_hospital(callers: Callers, make: Hospitals, honest: Callable[[], None]) -> None:
    bring(callers, make, *(make.offer(party) for party in callers))
    bring(callers, make, make.columns("north", "west"), make.key("north", "west", "south"))

    for fault in ASKED:
        with fault.refused() as caught:
            fault.act(callers, make)
        fault.check_answer(caught)
    honest()


STRANGER = Fault(
    "the relay's caller: a hospital that is not in the release", "hub", Kind.ANSWERED, AccessDenied,
    SILENT, lambda world: mint("east", "party", world.root),
)  # fmt: skip


@each([STRANGER])
def test_a_hospital_that_is_not_in_the_release(
    callers: Callers, hub: Hub, dial: Dial, world: World, make: Hospitals, honest: Callable[[], None], fault: Fault
) -> None:
    bring(callers, make, *(make.offer(party) for party in callers))
    bring(callers, make, make.columns("north", "west"))
    east = Caller(dial(hub.party_port, fault.act(world)), make.release)
    for call in (east.listed, lambda: east.fetch(make.columns("north", "west").header.digest())):
        with fault.refused() as caught:
            call()
        fault.check_answer(caught)
    honest()


FALSE_SUM = Fault(
    "a hospital seals numbers that do not belong to the joint computation", "hub", Kind.HELD, IntegrityError,
    "nothing is published; the release fails, and its charges stand", garbage,
)  # fmt: skip


@each([FALSE_SUM])
def test_blocks_that_do_not_add_up(
    hub: Hub,
    dial: Dial,
    world: World,
    sealed: Sealed,
    coordinator: FakeCoordinator,
    caplog: pytest.LogCaptureFixture,
    fault: Fault,
) -> None:
    block = fault.act(sealed, "south")
    false = replace(
        sealed,
        blocks={**sealed.blocks, "south": block},
        identities={**sealed.identities, "south": world.seal("south", sealed.spec, block)},
    )
    for name, member in world.parties.items():
        Party(dial(hub.party_port, member), false, name).upload()
    eventually(lambda: "IntegrityError: the parties' blocks do not add up to moments" in caplog.text)
    assert list(Public(dial(hub.public_port)).list().releases) == []
    assert coordinator.named("AuthorizePublication") == []


FAULTS = [*PARCELS, GARBAGE, OTHER_BYTES, ABANDONED, *ASKED, STRANGER, FALSE_SUM]
