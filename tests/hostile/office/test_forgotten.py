"""A hospital whose approval is sound and whose spec is hostile: it says that a restored office has forgotten the release."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from coordinator.service import recovery
from dprelease.canonical import canonical_bytes
from dprelease.errors import Conflict, IntegrityError, InvalidInput, NotFound, SpecRefused
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target, instant
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import ReleaseState
from tests.coordinator.test_backup import charged, copied, remind, restore
from tests.coordinator.world import Stub, World, ask, listed
from tests.hostile.faults import Fault, Kind
from tests.hostile.office.test_callers import check_honest
from tests.support.specs import build_spec, numeric, with_terms

KEPT = "nothing is put down and nobody is charged; what the office has forgotten is still taken back, and honest parties go on"

Shown = tuple[ReleaseSpec, bytes]
"""The spec that is approved, and the bytes that are shown."""


def spec_with(change: Callable[[World, ReleaseSpec], dict[str, object]]) -> Callable[[World, ReleaseSpec], Shown]:
    def shown(world: World, spec: ReleaseSpec) -> Shown:
        made = spec.model_copy(update=change(world, spec))
        return made, made.to_bytes()

    return shown


def data_with(change: Callable[[dict[str, object]], object]) -> Callable[[World, ReleaseSpec], Shown]:
    """A spec that cannot be read, beside an approval of the honest one."""

    def shown(world: World, spec: ReleaseSpec) -> Shown:
        data = json.loads(spec.to_bytes())
        change(data)
        return spec, canonical_bytes(data)

    return shown


def with_part(spec: ReleaseSpec, party: str, /, **changes: object) -> dict[str, object]:
    parts = [part.model_copy(update=changes) if part.party == party else part for part in spec.parties]
    return {"parties": tuple(parts)}


def among(*names: str) -> Callable[[World, ReleaseSpec], Shown]:
    """A sound spec of these hospitals."""

    def shown(world: World, spec: ReleaseSpec) -> Shown:
        keys = {part.party: part.key for part in spec.parties}
        made = build_spec(
            {name: (numeric(f"of_{name}"),) for name in names}, keys={name: keys.get(name, "cd" * 32) for name in names}
        )
        facts = {name: getattr(spec, name) for name in ("consortium", "roster", "created", "expires")}
        made = made.model_copy(update=facts)
        return made, made.to_bytes()

    return shown


def half_the_noise(world: World, spec: ReleaseSpec) -> dict[str, object]:
    noise = tuple(each.model_copy(update={"scale": each.scale / 2}) for each in spec.terms.noise)
    return {"terms": with_terms(spec, noise=noise).terms}


def another_is_shown(world: World, spec: ReleaseSpec) -> Shown:
    return spec, spec.model_copy(update={"title": "another"}).to_bytes()


FORGOTTEN = [
    Fault(f"a party shows a forgotten release {what}", "coordinator", Kind.ANSWERED, error, KEPT, act)
    for what, error, act in (
        ("beside an approval of another one", IntegrityError, another_is_shown),
        ("with half the noise", SpecRefused, spec_with(half_the_noise)),
        (
            "with another target than its noise reaches", SpecRefused,
            spec_with(lambda world, spec: {"target": Target(scope="joint", epsilon=0.01, delta=1e-6)}),
        ),
        (
            "that names another key for it", IntegrityError,
            spec_with(lambda world, spec: with_part(spec, "north", key="cd" * 32)),
        ),
        ("that it takes no part in", IntegrityError, among("south", "west")),
        ("of a hospital that never enrolled", Conflict, among("north", "west")),
        (
            "from before the time that was forgotten", NotFound,
            spec_with(lambda world, spec: {"created": instant(world.clock() - timedelta(days=2))}),
        ),
        (
            "from the future", NotFound,
            spec_with(lambda world, spec: {"created": instant(world.clock() + timedelta(minutes=30))}),
        ),
        ("that is not canonical", InvalidInput, lambda world, spec: (spec, spec.to_bytes() + b" ")),
        ("of 1.03 MB", InvalidInput, data_with(lambda data: data.update(title=" " * 1_030_000))),
        ("of an unknown mechanism", InvalidInput, data_with(lambda data: data.update(terms={"mechanism": "magic"}))),
        ("with an unknown field", InvalidInput, data_with(lambda data: data.update(also=1))),
        ("of 90,000 fields", InvalidInput, data_with(lambda data: data.update({f"k{n}": 0 for n in range(90_000)}))),
        ("that ends before it begins", InvalidInput, data_with(lambda data: data.update(expires=data["created"]))),
    )
]  # fmt: skip


@pytest.mark.usefixtures("two")
def test_a_hostile_spec_is_not_put_down(world: World) -> None:
    copy = copied(world)
    honest = world.spec(world.propose())
    restore(world, copy)

    for fault in FORGOTTEN:
        spec, data = fault.act(world, honest)
        signed = world.approval(spec, "north").to_bytes()
        with fault.refused() as caught:
            ask(world.as_party("north").Approve, pb.ApproveRequest(signed_consent=signed, proposal=data))
        fault.check_answer(caught)
        assert listed(world.as_party("north")) == listed(world.as_party("south")) == []
        assert charged(world, "north") == charged(world, "south") == {}
    for party in ("north", "south"):
        remind(world, honest, party)
    assert listed(world.as_party("south")) == [(bytes.fromhex(honest.digest()), ReleaseState.RELEASE_STATE_FAILED)]
    assert charged(world, "north") == {honest.digest(): False}
    check_honest(world, (world.as_party("north"), world.as_party("south")))


def test_a_party_has_no_end_of_forgotten_releases_put_down(
    world: World, two: tuple[Stub, Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "MOST_SHOWN", 2)
    copy = copied(world)
    honest = world.spec(world.propose())
    restore(world, copy)
    for number in range(3):
        made = honest.model_copy(update={"title": f"made up {number}"})
        request = pb.ApproveRequest(signed_consent=world.approval(made, "north").to_bytes(), proposal=made.to_bytes())
        if number < 2:
            ask(world.as_party("north").Approve, request)
            ask(world.as_party("north").Approve, request)  # the same one again takes no more room
        else:
            with pytest.raises(Conflict):
                ask(world.as_party("north").Approve, request)
        # Who confirms what the other one has shown uses up nothing of its own room.
        if number < 2:
            signed = world.approval(made, "south").to_bytes()
            ask(world.as_party("south").Approve, pb.ApproveRequest(signed_consent=signed, proposal=made.to_bytes()))
    remind(world, honest, "south")
    assert len(listed(world.as_party("south"))) == 3


FAULTS = FORGOTTEN
