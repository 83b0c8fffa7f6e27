"""A hostile relay or coordinator, equivocation, and randomness that is dealt twice: named, or at least without effect."""

from pathlib import Path
from typing import Any

import pytest

from dprelease.canonical import sha256
from dprelease.mpc import encryption
from dprelease.mpc import exchange as exchange_module
from dprelease.mpc.encryption import Draw
from dprelease.mpc.messages import Message, sign_message
from dprelease.mpc.schedule import Schedule
from tests.party_node.joint_world import MADE, JointWorld, joint_spec
from tests.party_node.test_joint_hostile import flip, only
from tests.support.joint import entries, exact_gram


@pytest.fixture
def world(folder: Path) -> JointWorld:
    return JointWorld(folder, joint_spec(3, rows=6))


SERVED = {
    "altered": flip,
    "cut short": lambda body: body[:-20],
    "longer": lambda body: body + bytes(700),
    "empty": lambda body: b"",
}


@pytest.mark.parametrize("kind", ["deal", "columns", "key"])
@pytest.mark.parametrize("how", SERVED)
def test_a_relay_that_hands_out_other_bytes_is_named_and_not_the_sender(world: JointWorld, how: str, kind: str) -> None:
    world.post.serves = lambda party, header, body: SERVED[how](body) if header.kind == kind else body
    said = world.looks()
    for name in world.sites:
        assert said[name].startswith(f"the hub's relay handed out a {kind} of ")
        assert said[name].endswith(" that it did not sign")
        assert world[name].block is None
    world.post.serves = lambda party, header, body: body
    world.run()
    assert world.released() == entries(world.spec, exact_gram(world.spec, world.tables))


def test_two_offers_shown_to_different_hospitals_end_in_no_session(world: JointWorld) -> None:
    """c signs two session keys and the relay shows one to a and the other to b: neither goes past the deals."""
    world.post.strict = False
    for name in "abc":
        world[name].look()
    honest = world.post.find("hello", "c")
    key = encryption.public_bytes(encryption.new_session_key()).hex()
    other = sign_message(world["c"].member.key, honest.header.model_copy(update={"payload": key}))
    world.post.lists = lambda party, messages: tuple(
        other if party == "b" and each == honest else each for each in messages
    )
    said = world.looks()
    assert said["b"] == "c sent a deal of another session"
    assert said["a"] == "waits for what b deals"
    assert {message.header.kind for _, message, _ in world.post.given} == {"hello", "deal"}
    world.post.lists = lambda party, messages: (*messages, other)
    assert world.looks(1)["a"] == "c sent two different messages of kind hello in one round"


def test_two_columns_shown_to_different_hospitals_are_seen_in_the_transcripts(world: JointWorld) -> None:
    other: list[Message] = []

    def change(message: Message, body: bytes) -> tuple[Message, bytes]:
        if (message.header.kind, message.header.dealer) == ("columns", "b"):
            twin = message.header.model_copy(update={"sha256": sha256(flip(body))})
            other[:] = [sign_message(world["c"].member.key, twin)]
        return message, body

    def lists(party: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """To b the twin, and the others' transcripts only when it has signed its own."""
        signed = any((each.header.kind, each.header.sender) == ("transcript", "b") for each in messages)
        shown = [each for each in messages if party != "b" or signed or each.header.kind != "transcript"]
        swap = {each.header.place: each for each in other} if party == "b" else {}
        return tuple(swap.get(each.header.place, each) for each in shown)

    world["c"].alters, world.post.lists = change, lists
    said = world.looks()
    assert said["a"] == "b has seen another session than we have; nothing is computed"
    assert said["b"] == "a has seen another session than we have; nothing is computed"
    assert not any(site.block for site in world.sites.values())
    assert not any(header.kind == "columns" for _, header, _ in world.post.handed)


def reusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """c deals the same again."""
    drawn, kept = exchange_module.deal, {}

    def deal(schedule: Schedule, dealer: str, draw: Draw) -> Any:
        made = drawn(schedule, dealer, draw)
        return kept.setdefault(dealer, made) if dealer == "c" else made

    monkeypatch.setattr(exchange_module, "deal", deal)


def test_seeds_that_served_in_an_earlier_round_are_refused(world: JointWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    reusing(monkeypatch)
    for name in "abcab":
        world[name].look()
    world["c"].lose()
    said = world.looks()
    for name in "ab":
        assert said[name] == "c dealt a seed that was used before; nothing is masked with it"
        sent = [message.header for party, message, _ in world.post.given if party == name and message.header.round == 2]
        assert {header.kind for header in sent} == {"hello", "deal"}
        assert world[name].block is None


def test_one_seed_for_two_purposes_is_refused(world: JointWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = exchange_module.deal

    def deal(schedule: Schedule, dealer: str, draw: Draw) -> Any:
        made = dict(drawn(schedule, dealer, draw))
        return made | {"a": made["a"][:32] * 2} if dealer == "c" else made

    monkeypatch.setattr(exchange_module, "deal", deal)
    assert world.looks()["a"] == "c dealt one seed twice; nothing is masked with it"
    assert ("a", "charge") not in world.events


def test_a_replayed_deal_of_an_earlier_round_does_not_open(world: JointWorld) -> None:
    for name in "abcab":
        world[name].look()
    old = world.post.bodies[world.post.find("deal", "c", "a").header.digest()]
    world["c"].lose()
    world["c"].hostile(only("deal", "a", lambda header, body: ({}, old)))
    assert world.looks()["a"] == "what c sent does not open as a deal"
    assert world["a"].block is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda message: message[:-8], "the coordinator dealt something of another shape than this release needs"),
        (
            lambda message: message + bytes(8),
            "the coordinator dealt something of another shape than this release needs",
        ),
    ],
)
def test_a_coordinator_that_deals_garbage_is_named(folder: Path, change: Any, words: str) -> None:
    world = JointWorld(folder, joint_spec(2, rows=6))
    deals = world.office.deals
    world.office.deals = lambda schedule, dealer: {name: change(each) for name, each in deals(schedule, dealer).items()}
    assert world.looks() == {"a": words, "b": words}
    assert {message.header.kind for _, message, _ in world.post.given} == {"hello"}


def test_a_coordinator_that_deals_one_seed_in_two_rounds_is_named(folder: Path) -> None:
    world = JointWorld(folder, joint_spec(2, rows=6))
    dealt = world.office.deals(world.schedule, "")
    world.office.deals = lambda schedule, dealer: dealt
    for name in "aba":
        world[name].look()
    world["b"].lose()
    said = world.looks()
    assert set(said.values()) == {"the coordinator dealt a seed that was used before; nothing is masked with it"}
    assert MADE not in said.values()


def test_what_the_coordinator_sealed_for_another_session_does_not_open(folder: Path) -> None:
    world = JointWorld(folder, joint_spec(2, rows=6))
    for name in "aba":
        world[name].look()
    old = next(iter(world.office.dealt.values()))
    world["b"].lose()
    world.office.request = lambda party, offers: old[party]  # type: ignore[method-assign]
    said = world.looks()
    assert said["a"] == said["b"] == "what the coordinator sent does not open as a deal"
