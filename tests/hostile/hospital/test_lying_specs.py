"""A coordinator that lies in a spec, or proposes what must not be: the hospital finds out by itself, before any noise."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from dprelease.canonical import canonical_bytes, sha256
from dprelease.errors import BudgetExceeded, Conflict, InvalidInput, PolicyRefused, SpecRefused
from dprelease.mechanisms.noisy_rows.calibration import party_noise
from dprelease.mechanisms.noisy_rows.terms import MixedTerms
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import PartyColumns, Target, instant
from dprelease.wire.v1 import coordination_pb2, release_pb2
from tests.hostile.faults import Fault, Kind, each
from tests.hostile.hospital.honest import check_untouched, honest_release
from tests.party_node.world import World
from tests.support.specs import TWO_PARTIES, build_spec, numeric

Changes = dict[str, object]
Lie = Callable[[ReleaseSpec], Changes]
FREE = "no noise, nothing reserved; the next honest release goes through"


def part(spec: ReleaseSpec, name: str) -> PartyColumns:
    found = spec.party(name)
    assert found is not None
    return found


def with_part(spec: ReleaseSpec, name: str, **fields: object) -> Changes:
    changed = part(spec, name).model_copy(update=fields)
    return {"parties": tuple(changed if other.party == name else other for other in spec.parties)}


def with_columns(spec: ReleaseSpec, *columns: object) -> Changes:
    return with_part(spec, "north", columns=columns)


def mixed(spec: ReleaseSpec) -> MixedTerms:
    assert isinstance(spec.terms, MixedTerms)
    return spec.terms


def with_terms(spec: ReleaseSpec, **fields: object) -> Changes:
    return {"terms": spec.terms.model_copy(update=fields)}


def with_noise(spec: ReleaseSpec, **fields: object) -> Changes:
    north, south = mixed(spec).noise
    return with_terms(spec, noise=(north.model_copy(update=fields), south))


def more_outputs(spec: ReleaseSpec) -> Changes:
    mixing = mixed(spec).mixing
    return with_terms(spec, mixing=mixing.model_copy(update={"outputs": mixing.outputs + 1}))


def shares_above_the_target(spec: ReleaseSpec) -> Changes:
    terms = mixed(spec)
    doubled = (
        party_noise(
            noise.party,
            2 * Fraction(noise.mu2),
            terms.squared_sensitivity(spec, noise.party),
            terms.mixing.outputs,
            terms.rho,
        )
        for noise in terms.noise
    )
    return with_terms(spec, noise=tuple(doubled))


def expired(spec: ReleaseSpec) -> Changes:
    now = datetime.now(UTC)
    return {"created": instant(now - timedelta(hours=2)), "expires": instant(now - timedelta(hours=1))}


def rebuilt(**changes: Any) -> Lie:
    """A spec whose numbers fit one another."""

    def lie(spec: ReleaseSpec) -> Changes:
        keys = {one.party: one.key for one in spec.parties}
        made = build_spec(TWO_PARTIES, keys=keys, rows=spec.rows, **changes)
        return {name: getattr(made, name) for name in ("terms", "grid_bits", "target")}

    return lie


def refused(what: str, error: type[SpecRefused | PolicyRefused | BudgetExceeded], act: Lie) -> Fault:
    return Fault(what, "hospital", Kind.DECLINED, error, FREE, act)


LIES = [
    refused("the coordinator lies about n", SpecRefused, lambda spec: {"rows": 41}),
    refused(
        "... about our columns",
        SpecRefused,
        lambda spec: with_columns(spec, *part(spec, "north").columns, numeric("w")),
    ),
    refused(
        "... about our bounds",
        SpecRefused,
        lambda spec: with_columns(spec, numeric("age", 0, 12000), part(spec, "north").columns[1]),
    ),
    refused("... about k", SpecRefused, more_outputs),
    refused(
        "... about a noise scale", SpecRefused, lambda spec: with_noise(spec, scale=mixed(spec).noise[0].scale / 2)
    ),
    refused("... about the anchor's noise", SpecRefused, lambda spec: with_noise(spec, anchor_scale=1.0)),
    refused("... about our share", SpecRefused, lambda spec: with_noise(spec, mu2="1/1000000")),
    refused("... with a share of nothing", SpecRefused, lambda spec: with_noise(spec, mu2="0")),
    refused("... with shares that exceed the joint target", SpecRefused, shares_above_the_target),
    refused(
        "... about the joint target",
        SpecRefused,
        lambda spec: {"target": Target(scope="joint", epsilon=0.5, delta=1e-5)},
    ),
    refused("... about the alignment", SpecRefused, lambda spec: {"alignment": "00" * 32}),
    refused("... about the roster", SpecRefused, lambda spec: {"roster": "others"}),
    refused("... about rows per patient (q)", SpecRefused, lambda spec: {"rows_per_subject": 2}),
    refused("... about the consortium", SpecRefused, lambda spec: {"consortium": "other"}),
    refused("... about the expiry, which is past", SpecRefused, expired),
    refused("... about our key", SpecRefused, lambda spec: with_part(spec, "north", key=sha256(b"another"))),
    refused("a proposal with a grid too coarse", SpecRefused, rebuilt(grid_bits=1)),
    refused(
        "a proposal with a grid too fine: integers reach 2^53",
        SpecRefused,
        rebuilt(grid_bits=24, epsilon=1e-9, delta=1e-9),
    ),
    refused(
        "a proposal with delta >= 1/n, without a local policy for it", PolicyRefused, rebuilt(epsilon=0.5, delta=0.025)
    ),
    refused("a proposal over budget", BudgetExceeded, rebuilt(epsilon=8.0)),
]


def test_a_lie_is_declined_with_the_constant_sentence(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for number, fault in enumerate(LIES):
        caplog.clear()
        release = world.propose("a lie", 8, **fault.act(world.spec()))
        world.north.cycle(2)
        assert world.north.status(release) == "declined"
        *others, heard = world.coordinator.heard("Decline")
        assert len(others) == number
        expected = coordination_pb2.DeclineRequest(digest=bytes.fromhex(release), reason=fault.sentence)
        assert heard == expected.SerializeToString()
        check_untouched(world.north, release, [])
        shown = world.north.run("review", "show", release)
        assert shown.exit_code == fault.exit_code
        assert shown.stderr.startswith("error: ")
        with fault.refused() as caught:
            world.north.hospital_state().assess(world.north.record(release).spec)
        assert caught.value.message not in heard.decode(errors="replace")
        assert caught.value.message in caplog.text  # what exactly is wrong stays on the hospital's own screen
    honest_release(world)


def unpinned(world: World) -> None:
    world.north.hospital_state().identity.forget("south")


def pinned_otherwise(world: World) -> None:
    unpinned(world)
    world.north.hospital_state().identity.pin("south", sha256(b"another"))


KEYS = [
    Fault(
        f"the coordinator names {words} for another hospital", "hospital", Kind.HELD, Conflict,
        "no noise, nothing reserved; once the right key is pinned the release goes on", act,
    )
    for words, act in (("a key that nobody pinned", unpinned), ("another key than the pinned one", pinned_otherwise))
]  # fmt: skip


@each(KEYS)
def test_another_partys_key_needs_a_person(world: World, fault: Fault) -> None:
    fault.act(world)
    release, north = world.propose(), world.north
    north.cycle(2)
    assert north.status(release) == "waiting"
    approved = north.run("review", "approve", release, "--yes")
    assert approved.exit_code == fault.exit_code
    assert "south" in approved.stderr
    assert world.coordinator.heard("Approve") == world.coordinator.heard("Decline") == []
    check_untouched(north, release, [])
    if north.hospital_state().identity.pins():
        north.hospital_state().identity.forget("south")
    north.hospital_state().identity.pin("south", world.members["south"].fingerprint)
    honest_release(world)


def unreadable(what: str, change: Callable[[dict[str, Any]], object]) -> Fault:
    return Fault(
        what, "hospital", Kind.HELD, InvalidInput, "the proposal is not even noted; the next one goes through", change
    )


UNREADABLE = [
    unreadable("a proposal with epsilon = 0", lambda data: data["target"].update(epsilon=0.0)),
    unreadable("a proposal with epsilon < 0", lambda data: data["target"].update(epsilon=-1.0)),
    unreadable("a proposal with delta = 0", lambda data: data["target"].update(delta=0.0)),
    unreadable("a proposal with k = 0", lambda data: data["terms"]["mixing"].update(outputs=0)),
    unreadable("a proposal with k > n", lambda data: data["terms"]["mixing"].update(outputs=41)),
    unreadable("a proposal with an unknown mechanism", lambda data: data["terms"].update(mechanism="magic")),
    unreadable("a proposal with an unknown field", lambda data: data.update(also=1)),
    unreadable("a proposal that is not canonical", lambda data: data.update(title=" ")),
    unreadable("a proposal of 1.1 MB", lambda data: data.update(title=" " * 1_100_000)),
    unreadable("a proposal with 90,000 unknown fields", lambda data: data.update({f"k{n}": 0 for n in range(90_000)})),
    unreadable("a proposal of 300,000 empty objects", lambda data: data.update(parties=[{}] * 300_000)),
]


def test_a_proposal_that_cannot_be_read_is_left_alone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for fault in UNREADABLE:
        caplog.clear()
        data = json.loads(world.spec().to_bytes())
        fault.act(data)
        spec = canonical_bytes(data) + (b" " if "canonical" in fault.what else b"")
        with fault.refused():
            ReleaseSpec.from_bytes(spec)
        world.coordinator.records["unreadable"] = release_pb2.AgreementRecord(
            proposal=spec, state=release_pb2.RELEASE_STATE_PROPOSED
        )
        world.north.cycle()
        assert "1 release cannot be read and is left alone" in caplog.text
        assert world.north.hospital_state().journal.releases() == []
        assert world.coordinator.heard("Approve") == world.coordinator.heard("Decline") == []
    honest_release(world)


FAULTS = [*LIES, *KEYS, *UNREADABLE]
