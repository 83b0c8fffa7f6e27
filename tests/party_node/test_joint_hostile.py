"""Hostile hospitals, and a hostile relay or coordinator: the culprit is named, and the release has no block of whoever noticed.

The hospital c is hostile in most tests: it deals for a and b, and sends its columns under a's mask to b and under b's to a.

A hostile relay or coordinator, equivocation, and randomness that is dealt twice: named, or at least without effect.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dprelease.canonical import sha256
from dprelease.identity.signing import new_private_key
from dprelease.mpc import encryption
from dprelease.mpc import exchange as exchange_module
from dprelease.mpc.encryption import Context
from dprelease.mpc.messages import NOTHING, Message, MessageHeader, message_name, name_of, sign_message
from dprelease.mpc.schedule import Schedule
from tests.party_node.joint_world import MADE, JointWorld, joint_spec
from tests.support.joint import entries, exact_gram

NO_PLACE = "that the schedule of this release does not have"
SMALL_ORDER = (
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)


@pytest.fixture
def world(folder: Path) -> JointWorld:
    return JointWorld(folder, joint_spec(3, rows=6))


def session(world: JointWorld) -> str:
    found = world.post.session(world["c"].state.round)
    assert found is not None
    return found


def only(kind: str, receiver: str, change: Callable[[MessageHeader, bytes], tuple[dict[str, Any], bytes]]) -> Any:
    """Change c's messages of one kind, those for one receiver where it has several."""
    return lambda header, body: change(header, body) if header.kind == kind and receiver in header.receivers else None


def flip(body: bytes, place: int = 50) -> bytes:
    return body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]


def a_deal_under_another_signature(world: JointWorld) -> None:
    stranger = new_private_key()
    world["c"].alters = lambda message, body: (
        (sign_message(stranger, message.header), body) if message.header.kind == "deal" else (message, body)
    )


def frozen(world: JointWorld, name: str) -> bytes:
    """The body of another message of c's."""
    return next(each.read() for each in world["c"].session.outgoing() if name_of(each.message.header) == name)


def columns_with_a_flipped_bit(world: JointWorld) -> None:
    world["c"].hostile(only("columns", "a", lambda header, body: ({}, flip(body))))


def columns_that_are_too_short(world: JointWorld) -> None:
    world["c"].hostile(only("columns", "a", lambda header, body: ({}, body[:-8])))


def columns_that_are_too_long(world: JointWorld) -> None:
    world["c"].hostile(only("columns", "a", lambda header, body: ({}, body + bytes(8))))


def columns_under_another_dealers_mask(world: JointWorld) -> None:
    world["c"].hostile(only("columns", "a", lambda header, body: ({}, frozen(world, message_name("columns", "a")))))


def columns_that_are_garbage(world: JointWorld) -> None:
    world["c"].hostile(only("columns", "a", lambda header, body: ({}, body[::-1])))


def columns_for_their_dealer_too(world: JointWorld) -> None:
    world["c"].hostile(only("columns", "a", lambda header, body: ({"receivers": ("a", "b")}, body)))


def columns_for_their_dealer_alone(world: JointWorld) -> None:
    world["c"].hostile(only("columns", "a", lambda header, body: ({"dealer": "a"}, body)))


def a_key_for_the_dealer(world: JointWorld) -> None:
    world["c"].hostile(only("key", "a", lambda header, body: ({"receivers": ("b",)}, body)))


def another_content_key(world: JointWorld) -> None:
    def change(header: MessageHeader, body: bytes) -> tuple[dict[str, Any], bytes]:
        context = Context("key", header.task, session(world), "c", "a", "b")
        to_a = bytes.fromhex(world.post.find("hello", "a").header.payload)
        return {}, encryption.seal(to_a, bytes(32), context)

    world["c"].hostile(only("key", "a", change))


def the_key_of_another_dealers_columns(world: JointWorld) -> None:
    world["c"].hostile(only("key", "a", lambda header, body: ({}, frozen(world, message_name("key", "a", "b")))))


def a_deal_for_somebody_else(world: JointWorld) -> None:
    world["c"].hostile(only("deal", "a", lambda header, body: ({}, frozen(world, message_name("deal", "", "b")))))


def a_deal_of_another_shape(world: JointWorld) -> None:
    world["c"].hostile(only("deal", "a", lambda header, body: ({}, body + bytes(8))))


def a_deal_from_a_point_of_small_order(world: JointWorld) -> None:
    world["c"].hostile(only("deal", "a", lambda header, body: ({}, bytes(32) + body[32:])))


def a_deal_to_a_hospital_that_it_does_not_deal_for(world: JointWorld) -> None:
    world["c"].hostile(only("deal", "a", lambda header, body: ({"receivers": ("c",)}, body)))


def a_message_of_another_release(world: JointWorld) -> None:
    world["c"].hostile(only("deal", "a", lambda header, body: ({"task": "5e" * 32}, body)))


def a_message_of_another_session(world: JointWorld) -> None:
    world.post.strict = False
    world["c"].hostile(only("deal", "a", lambda header, body: ({"session": "5e" * 32}, body)))


def two_deals_for_one_hospital(world: JointWorld) -> None:
    world.post.strict = False

    def change(header: MessageHeader, body: bytes) -> tuple[dict[str, Any], bytes]:
        world.post.take("c", sign_message(world["c"].member.key, header), body)
        return {}, flip(body)

    world["c"].hostile(only("deal", "a", change))


def another_transcript(world: JointWorld) -> None:
    world["c"].hostile(lambda header, body: ({"payload": "5e" * 32}, body) if header.kind == "transcript" else None)


def a_key_that_is_gone(world: JointWorld) -> None:
    world.post.lists = lambda party, messages: tuple(
        each for each in messages if party != "a" or (each.header.kind, each.header.sender) != ("key", "c")
    )


HOSPITAL: dict[Callable[[JointWorld], None], dict[str, str]] = {
    a_deal_under_another_signature: dict.fromkeys(
        "ab", "the relay lists a deal in the name of c that its key did not sign"
    ),
    columns_with_a_flipped_bit: {"a": "chunk 0 of the columns of c was altered"},
    columns_that_are_too_short: dict.fromkeys("ab", f"c sent a columns {NO_PLACE}"),
    columns_that_are_too_long: dict.fromkeys("ab", f"c sent a columns {NO_PLACE}"),
    columns_under_another_dealers_mask: {"a": "chunk 0 of the columns of c was altered"},
    columns_that_are_garbage: {"a": "chunk 0 of the columns of c was altered"},
    columns_for_their_dealer_too: dict.fromkeys("ab", f"c sent a columns {NO_PLACE}"),
    columns_for_their_dealer_alone: dict.fromkeys("ab", f"c sent a columns {NO_PLACE}"),
    a_key_for_the_dealer: dict.fromkeys("ab", f"c sent a key {NO_PLACE}"),
    another_content_key: {"a": "c sent another key for its columns than it signed"},
    the_key_of_another_dealers_columns: {"a": "what c sent does not open as a key"},
    a_deal_for_somebody_else: {"a": "what c sent does not open as a deal"},
    a_deal_of_another_shape: dict.fromkeys("ab", f"c sent a deal {NO_PLACE}"),
    a_deal_from_a_point_of_small_order: {"a": "what c sent does not open as a deal"},
    a_deal_to_a_hospital_that_it_does_not_deal_for: dict.fromkeys("ab", f"c sent a deal {NO_PLACE}"),
    a_message_of_another_release: dict.fromkeys("ab", "a message of c belongs to another release"),
    a_message_of_another_session: dict.fromkeys("ab", "c sent a deal of another session"),
    two_deals_for_one_hospital: dict.fromkeys("ab", "c sent two different messages of kind deal in one round"),
    another_transcript: dict.fromkeys("ab", "c has seen another session than we have; nothing is computed"),
    a_key_that_is_gone: {"a": "the masked columns of c, their bits or their key are gone from the relay"},
}


@pytest.mark.parametrize(("attack", "named"), HOSPITAL.items(), ids=[attack.__name__ for attack in HOSPITAL])
def test_a_hostile_hospital_is_named(
    world: JointWorld, attack: Callable[[JointWorld], None], named: dict[str, str]
) -> None:
    attack(world)
    said = world.looks()
    assert {name: said[name] for name in named} == named
    assert all(world[name].block is None for name in named)
    again = world.looks(1)
    assert {name: again[name] for name in named} == named  # and it stays so
    assert all(world[name].block is None for name in named)


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_session_key_of_small_order_is_named_before_anything_is_sealed_to_it(world: JointWorld, point: str) -> None:
    header = MessageHeader(
        task=world.spec.digest(), round=1, session="", kind="hello", sender="c", receivers=(), dealer="",
        payload=point, size=0, sha256=NOTHING,
    )  # fmt: skip
    world.post.take("c", sign_message(world["c"].member.key, header), b"")
    said = world.looks(names="ab")
    assert said == dict.fromkeys("ab", "c offered something that is not a session key")
    assert {message.header.kind for _, message, _ in world.post.given} == {"hello"}


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

    def deal(schedule: Schedule, dealer: str, *more: Any) -> Any:
        made = drawn(schedule, dealer, *more)
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

    def deal(schedule: Schedule, dealer: str, *more: Any) -> Any:
        made = dict(drawn(schedule, dealer, *more))
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
    world.office.deals = lambda *about, kept: {name: change(each) for name, each in deals(*about, kept=kept).items()}
    assert world.looks() == {"a": words, "b": words}
    assert {message.header.kind for _, message, _ in world.post.given} == {"hello"}


def test_a_coordinator_that_deals_one_seed_in_two_rounds_is_named(folder: Path) -> None:
    world = JointWorld(folder, joint_spec(2, rows=6))
    dealt = world.office.deals(world.schedule, "")
    world.office.deals = lambda *about, kept: dealt
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
