"""The relay: who may send, list and fetch, and what is no parcel of the release."""

from __future__ import annotations

from typing import Any

import pytest

from dprelease.errors import (
    AccessDenied,
    Conflict,
    IntegrityError,
    InvalidInput,
    NotFound,
)
from dprelease.mpc.messages import Message
from learner.hub.storage import Storage
from tests.learner.parcels import Hospitals, Office
from tests.learner.world import World, pieces, publish_to
from tests.support.certificates import mint


def test_only_the_sender_may_open_and_send(office: Office, make: Hospitals) -> None:
    offer = make.offer("north")
    for member in (office.world.parties["south"], office.world.hub, mint("north", "hub", office.world.root)):
        with pytest.raises(AccessDenied):
            office.open(offer, member)
    with pytest.raises(AccessDenied):
        office.open(offer, mint("north", "party", office.world.root))  # another key of the same name
    office.begin()
    parcel = make.columns("north", "west")
    office.open(parcel)
    with pytest.raises(AccessDenied):
        office.send(parcel, pieces(make.body(parcel)), by="south")
    assert office.open(parcel) == 0


def test_strangers_neither_list_nor_fetch(office: Office, make: Hospitals) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    office.bring(parcel)
    root, key = office.world.root, office.world.parties["south"].key
    strangers = mint("east", "party", root), mint("south", "party", root), mint("south", "hub", root, key=key)
    for member in strangers:
        with pytest.raises(AccessDenied):
            office.relay.listed(member.identity, office.sealed.digest, 0)
        with pytest.raises(AccessDenied):
            office.relay.body(member.identity, office.sealed.digest, parcel.header.digest(), 0)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[]"])
def test_what_is_no_parcel_is_refused(office: Office, data: bytes) -> None:
    with pytest.raises(InvalidInput):
        office.relay.open_parcel(office.caller("north"), data)
    assert office.asked == []


def test_a_parcel_must_be_signed_by_its_sender_and_be_in_the_plan(office: Office, make: Hospitals) -> None:
    offer = make.offer("north")
    wrong: list[Message] = [
        offer.model_copy(update={"signature": make.offer("south").signature}),
        offer.model_copy(update={"signature": "00"}),
        make.signed(offer.header.model_copy(update={"size": 1})),
        make.signed(offer.header.model_copy(update={"receivers": ("south",)})),
        make.signed(offer.header.model_copy(update={"session": "0" * 64})),
    ]
    for parcel in wrong:
        with pytest.raises(IntegrityError):
            office.open(parcel)
    office.begin()
    changes: list[tuple[Message, dict[str, Any]]] = [
        (make.columns("north", "west"), {"size": make.schedule.columns_size("north") + 1}),
        (make.columns("north", "west"), {"dealer": "north"}),
        (make.deal("west", "north"), {"receivers": ("west",)}),
        (make.deal("west", "north"), {"size": 1 << 40}),
        (make.key("north", "west", "south"), {"receivers": ("west",)}),
        (make.transcript("north"), {"payload": ""}),
    ]
    for parcel, change in changes:
        with pytest.raises(IntegrityError, match="schedule"):
            office.open(make.signed(parcel.header.model_copy(update=change)))
    assert len(office.listed()) == 3


def test_only_joint_moments_have_parcels(storage: Storage, trio: World, make: Hospitals) -> None:
    mixed = trio.sealed()
    office = Office(storage, trio, mixed)
    header = make.offer("north").header.model_copy(update={"task": mixed.digest})
    with pytest.raises(InvalidInput, match="'mixed'"):
        office.open(make.signed(header))
    with pytest.raises(InvalidInput, match="'mixed'"):
        office.relay.listed(office.caller("north"), mixed.digest, 0)


def test_an_unknown_or_malformed_release_is_refused(office: Office, make: Hospitals) -> None:
    north = office.caller("north")
    for digest, error in (("0" * 64, NotFound), ("", InvalidInput), ("../" + "a" * 61, InvalidInput)):
        with pytest.raises(error):
            office.relay.listed(north, digest, 0)
        with pytest.raises(error):
            office.relay.begin(north, digest, "0" * 64)
        with pytest.raises(error):
            office.relay.body(north, digest, "0" * 64, 0)
    with pytest.raises(NotFound):
        office.relay.body(north, office.sealed.digest, "../../record", 0)
    with pytest.raises(Conflict, match="open the parcel"):
        office.relay.begin(north, office.sealed.digest, "../../record")


def test_whoever_enters_a_session_is_looked_up(office: Office, make: Hospitals) -> None:
    office.bring(make.offer("north"))
    assert office.looks == 1
    office.begin()
    office.bring(make.columns("north", "west"))
    assert office.looks == 4  # not for every parcel: the hub's own look every few seconds cuts the others off


def test_a_published_release_takes_and_gives_nothing(office: Office, make: Hospitals) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    office.bring(parcel)
    publish_to(office.storage, office.world, office.sealed)
    for call in (
        lambda: office.open(parcel),
        lambda: office.send(parcel, []),
        lambda: office.listed(),
        lambda: office.fetch(parcel, "south"),
    ):
        with pytest.raises(Conflict, match="published"):
            call()
    assert office.storage.staged() == ()
