"""Sessions with range proofs at a coordinator that deals: exact, and begun anew where it has lost what it dealt."""

import re
from pathlib import Path

import pytest

from dprelease.errors import IntegrityError, PeerUnavailable
from dprelease.mpc.messages import CHALLENGES, SHOWN, Message
from tests.party_node.joint_world import JointWorld
from tests.party_node.test_joint_computation import exact
from tests.party_node.test_joint_hostile import flip
from tests.party_node.test_joint_proof_crashes import start


@pytest.mark.parametrize(
    "kind", [{"count": 2}, {"count": 3, "curious": 2}, *({"count": count} for count in (3, 4, 5))], ids=str
)
def test_blocks_are_exact_where_all_bounds_are_proved(folder: Path, kind: dict[str, int]) -> None:
    world = start(folder, **kind)
    world.run()
    assert exact(world)
    sent = [message.header.kind for message in world.post.messages.values()]
    assert sent.count("checked") == kind["count"]
    proofs = kind["count"] * kind.get("curious", 1)
    assert (len(world.office.answers), sent.count("answer")) == (
        (0, proofs) if world.schedule.rotating else (proofs, 0)
    )


def until_asked(world: JointWorld) -> None:
    """Look until a hospital has asked for an answer."""
    for _ in range(20):
        for site in world.sites.values():
            site.look()
            if world.office.answers:
                return
    raise AssertionError


def test_a_coordinator_that_was_started_again_answers_in_the_next_round(folder: Path) -> None:
    world = start(folder, 2)
    until_asked(world)
    world.office.held.clear()
    world.office.answers.clear()
    world.run()
    assert exact(world)
    assert {site.state.round for site in world.sites.values()} == {2}
    assert all(site.state.refused == 0 for site in world.sites.values())


def test_a_hospital_that_asks_again_is_told_the_same(folder: Path) -> None:
    """Its process ends with the answer in hand, and the next one asks with what it had frozen."""
    world = start(folder, 2)
    asked: list[tuple[Message, bytes]] = []
    answer = world.office.answer

    def lost(message: Message, body: bytes) -> bytes:
        asked.append((message, body))
        answer(message, body)
        raise PeerUnavailable("nobody heard it")

    world.office.answer = lost  # type: ignore[method-assign]
    for _ in range(8):
        for site in world.sites.values():
            site.look()
    assert len({message.header.digest() for message, _ in asked}) == 2
    assert len({message.to_bytes() + body for message, body in asked}) == 2
    assert len(asked) > 4
    world.office.answer = answer  # type: ignore[method-assign]
    world.run()
    assert exact(world)
    assert {site.state.round for site in world.sites.values()} == {1}


def test_a_relay_that_alters_any_message_of_proofs_is_named(folder: Path) -> None:
    """One kind after the other, in the order in which bodies are read. With an honest relay all goes on in the same round."""
    world = start(folder, 3)
    for kind in (*CHALLENGES[:1], "matrices", CHALLENGES[1], "lines", CHALLENGES[2], "answer", *SHOWN, "checked"):
        world.post.serves = lambda party, header, body, kind=kind: flip(body, 0) if header.kind == kind else body  # type: ignore[misc]
        told = [said for said in world.looks(8).values() if not said.startswith("waits for ")]
        assert told
        assert all(
            re.fullmatch(f"the hub's relay handed out a {kind} of . that it did not sign", said) for said in told
        )
        assert all(site.block is None for site in world.sites.values())
    world.post.serves = lambda party, header, body: body
    world.run()
    assert exact(world)
    assert {site.state.round for site in world.sites.values()} == {1}


def test_an_answer_that_was_altered_is_refused(folder: Path) -> None:
    world = start(folder, 2)
    answer = world.office.answer

    def altered(message: Message, body: bytes) -> bytes:
        made = answer(message, body)
        return made[:-1] + bytes([made[-1] ^ 1])

    world.office.answer = altered  # type: ignore[method-assign]
    with pytest.raises(IntegrityError, match="what the coordinator sent does not open as"):
        world.run()
    assert all(site.block is None for site in world.sites.values())
