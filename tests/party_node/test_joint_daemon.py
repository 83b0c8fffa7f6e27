"""Joint moments through the whole daemon, over real TLS: every cycle is a fresh process that goes on from its disk."""

import json
import logging
from fractions import Fraction
from typing import Any

import pytest

from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mechanisms.moments.words import NOT_REVIEWED
from dprelease.mpc.messages import MessageHeader
from dprelease.release.accounting import guarantee, trust
from dprelease.release.spec import ReleaseSpec
from tests.party_node.conftest import MakeWorld
from tests.party_node.joint_release import approved, deliver, joint_spec, kinds, released_exactly, session_folder
from tests.party_node.test_gate import secrets_of
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, ROWS, WITHIN_LIMITS, World


def test_one_hospital_alone_needs_no_relay(world: World) -> None:
    release = approved(world, "north")
    world.north.cycle(2)
    assert world.north.status(release) == "delivered"
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert released_exactly(world, release, "north")
    assert world.relay.posts == {}
    assert session_folder(world.north, release) == []
    world.coordinator.move(release, "PUBLISHED")
    world.north.cycle()
    assert world.north.status(release) == "ended"


def test_two_hospitals_go_the_whole_way(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    release = approved(world)
    deliver(world)
    for hospital in (world.north, world.south):
        assert hospital.status(release) == "delivered"
        assert hospital.ledger_kinds(release) == ["reserve", "charge", "send"]
        assert len(hospital.noise.draws) == DRAWS_OF_ONE_BLOCK
    assert released_exactly(world, release)
    secrets = secrets_of(world, release)
    heard = [*world.relay.posts[release].record(), *(data for _, data in world.coordinator.received)]
    heard += [caplog.text.encode(), world.block(release, "north")]
    assert [name for name, secret in secrets.items() if any(secret in data for data in heard)] == []
    assert "waits for" in caplog.text
    assert "is held" not in caplog.text


def test_before_every_approval_nothing_is_sent_to_the_relay(world: World) -> None:
    release = world.coordinator.propose(joint_spec(world))
    world.north.cycle(2)
    world.coordinator.move(release, "APPROVED")  # it is not
    world.north.cycle(2)
    assert "no approval by south" in world.north.record(release).note
    assert world.relay.posts == {}
    assert session_folder(world.north, release) == []
    assert world.north.ledger_kinds(release) == ["reserve"]


def test_a_pin_that_was_taken_back_stops_a_session(world: World) -> None:
    release = approved(world)
    for name in ("north", "south"):
        getattr(world, name).cycle()
    world.north.hospital_state().identity.forget("south")
    deliver(world)
    assert "not the one pinned here" in world.north.record(release).note
    assert kinds(world, release) == ["hello"]
    assert world.north.noise.draws == []
    assert world.north.ledger_kinds(release) == ["reserve"]


def test_the_charge_stands_before_the_first_masked_column_leaves(world: World) -> None:
    release, seen = approved(world), {}

    def hears(party: str, header: MessageHeader) -> None:
        seen.setdefault((party, header.kind), getattr(world, party).ledger_kinds(release))

    world.relay.hears = hears
    deliver(world)
    for name in ("north", "south"):
        assert seen[name, "hello"] == ["reserve"]
        assert seen[name, "columns"] == ["reserve", "charge", "send"]
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]


def test_the_card_tells_what_would_be_published_whom_to_trust_and_the_whole_cost(careful: World) -> None:
    spec = joint_spec(careful)
    release = careful.coordinator.propose(spec)
    careful.north.cycle()
    shown = json.loads(careful.north.run("review", "show", release, "--json").stdout)
    assert shown["would_publish"] == (
        f"{layout_of(spec).entries} noisy sums over all {ROWS} patients: means and products of 3 columns, "
        "computed by 2 hospitals on masked columns; no row of anybody's"
    )
    assert shown["trust"] == list(trust(spec))
    assert NOT_REVIEWED in shown["trust"]
    assert any("must not collude with any hospital" in words for words in shown["trust"])
    assert spec.terms is not None
    assert float(Fraction(shown["costs"]["mu2"])) == pytest.approx(float(Fraction(spec.terms.mu2)) / 2)
    assert shown["own_epsilon"] == pytest.approx(spec.target.epsilon)
    assert shown["guarantee"] == list(guarantee(spec).words())
    text = " ".join(careful.north.run("review", "show", release, "--explain").stdout.split())
    assert "altered software" in text
    alone = json.loads(
        careful.north.run(
            "review", "show", propose(careful, joint_spec(careful, "north", title="alone")), "--json"
        ).stdout
    )
    assert "by this hospital alone" in alone["would_publish"]
    assert NOT_REVIEWED not in alone["trust"]


def propose(world: World, spec: ReleaseSpec) -> str:
    release = world.coordinator.propose(spec)
    world.north.cycle()
    return release


@pytest.mark.parametrize(("allowed", "status"), [('["mixed"]', "declined"), ('["mixed", "moments"]', "approved")])
def test_a_policy_may_decline_joint_moments(make_world: MakeWorld, allowed: str, status: str) -> None:
    world = make_world(f"{WITHIN_LIMITS}[policy.limits]\nmechanisms = {allowed}\n")
    release = propose(world, joint_spec(world))
    assert world.north.status(release) == status
    assert world.north.ledger_kinds(release) == ([] if status == "declined" else ["reserve"])
    assert len(world.coordinator.heard("Decline")) == (status == "declined")


def test_a_forgery_at_the_relay_holds_up_its_own_release_alone(world: World) -> None:
    release = approved(world)
    world.north.cycle()
    other: Any = world.propose("a mixed one behind it")
    post = world.relay.posts[release]
    stranger = post.find("hello", "north")
    forged = stranger.model_copy(update={"signature": "00"})
    post.lists = lambda party, messages: (forged,)
    world.north.cycle(2)
    assert "hello in the name of north that its key did not sign" in world.north.record(release).note
    assert world.north.status(other) == "approved"
    assert world.north.ledger_kinds(release) == ["reserve"]
