"""A release of two rounds at the hub: blocks of the first go to the parties of the release, once all are in, and to nobody else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprelease.errors import AccessDenied, DpReleaseError, InvalidInput, NotFound
from dprelease.mechanisms.base import EarlierRounds, Values
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.block import SealedBlock, read_block
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.v1 import intake_pb2, relay_pb2_grpc, release_pb2
from tests.learner.test_hub import Dial, Party, Start
from tests.learner.world import PATIENCE_SECONDS, FakeCoordinator, Sealed, World, eventually, mint, pieces
from tests.support.several_blocks import ask_for_two, second_block


@pytest.fixture(autouse=True)
def two_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for_two(monkeypatch)
    monkeypatch.setattr(ReleaseSpec, "rounds", lambda spec: (range(0, 1), range(1, 2)))


class Hospital(Party):
    """A party that asks for what the others sent."""

    def listed(self) -> list[SealedBlock]:
        request = intake_pb2.ListEarlierBlocksRequest(spec_digest=bytes.fromhex(self.sealed.digest))
        with translated("the hub"):
            answer = self.stub.ListEarlierBlocks(request, timeout=PATIENCE_SECONDS, metadata=VERSION)
        return [SealedBlock.from_bytes(data) for data in answer.sealed]

    def fetched(self, party: str, sequence: int = 0, offset: int = 0) -> bytes:
        request = intake_pb2.FetchEarlierBlockRequest(
            spec_digest=bytes.fromhex(self.sealed.digest), party=party, sequence=sequence, offset=offset
        )
        with translated("the hub"):
            answers = self.stub.FetchEarlierBlock(request, timeout=PATIENCE_SECONDS, metadata=VERSION)
            return b"".join(each.chunk.data for each in answers)

    def bring_second(self, world: World) -> None:
        data = second_block(self.sealed.spec, self.name).to_bytes()
        self.open(world.seal(self.name, self.sealed.spec, data, 1).to_bytes())
        self.send(
            intake_pb2.SendBlockRequest(spec_digest=bytes.fromhex(self.sealed.digest), chunk=piece, sequence=1)
            for piece in pieces(data)
        )


Join = Callable[..., Hospital]


@pytest.fixture
def join(start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed) -> Join:
    coordinator.offer(sealed)
    hub = start_hub()
    return lambda name, member=None: Hospital(dial(hub.party_port, member or world.parties[name]), sealed, name)


def refused(call: Callable[[], Any]) -> type[DpReleaseError]:
    with pytest.raises(DpReleaseError) as caught:
        call()
    return caught.type


def test_blocks_of_the_first_round_are_handed_out_once_all_are_in(join: Join, sealed: Sealed) -> None:
    north, south = join("north"), join("south")
    north.upload()
    for party in (north, south):
        assert party.listed() == []
        assert refused(lambda party=party: party.fetched("north")) is NotFound
    south.open()
    assert north.listed() == []  # announced is not sent
    south.upload()
    for party in (north, south):
        assert party.listed() == [sealed.identities["north"], sealed.identities["south"]]
        assert {name: party.fetched(name) for name in sealed.blocks} == sealed.blocks
        assert party.fetched("south", offset=70) == sealed.blocks["south"][70:]
    assert refused(lambda: north.fetched("south", offset=1 << 40)) is InvalidInput
    assert refused(lambda: north.fetched("nobody")) is NotFound


def test_blocks_of_the_last_round_are_for_the_publication_alone(join: Join, world: World, sealed: Sealed) -> None:
    north, south = join("north"), join("south")
    for party in (north, south):
        party.upload()
    south.bring_second(world)
    assert {each.sequence for each in north.listed()} == {0}
    assert refused(lambda: north.fetched("south", 1)) is NotFound
    assert refused(lambda: south.fetched("south", 1)) is NotFound


def test_whoever_is_no_party_of_the_release_gets_none(join: Join, world: World, sealed: Sealed) -> None:
    for name in ("north", "south"):
        join(name).upload()
    for stranger in (mint("east", "party", world.root), mint("north", "party", world.root), world.hub):
        caller = join("north", stranger)
        assert refused(caller.listed) is AccessDenied
        assert refused(lambda caller=caller: caller.fetched("north")) is AccessDenied


def test_a_revoked_party_gets_none(join: Join, world: World, coordinator: FakeCoordinator, sealed: Sealed) -> None:
    north, south = join("north"), join("south")
    for party in (north, south):
        party.upload()
    coordinator.revoked.add(world.parties["north"].identity.fingerprint)
    assert refused(north.open) is AccessDenied  # whereupon the hub has heard of it
    assert refused(north.listed) is AccessDenied
    assert refused(lambda: north.fetched("south")) is AccessDenied


def test_no_party_is_reported_before_its_last_block_and_then_all_is_published(
    join: Join, world: World, coordinator: FakeCoordinator, sealed: Sealed
) -> None:
    north, south = join("north"), join("south")
    for party in (north, south):
        party.upload()
    north.bring_second(world)
    coordinator.wait(lambda: bool(coordinator.named("ReportIntake")))
    assert {parties for _, parties in coordinator.named("ReportIntake")} == {("north",)}
    south.bring_second(world)
    coordinator.wait(lambda: bool(coordinator.named("ReportPublication")))
    assert north.listed() == [sealed.identities["north"], sealed.identities["south"]]  # for whoever is late


def test_of_three_rounds_the_second_is_listed_after_the_first_once_it_is_whole(
    join: Join, world: World, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_for_two(monkeypatch)  # two more than one
    monkeypatch.setattr(ReleaseSpec, "rounds", lambda spec: (range(0, 1), range(1, 2), range(2, 3)))
    north, south = join("north"), join("south")
    south.bring_second(world)  # early, which nobody minds
    for party in (north, south):
        party.upload()
    first = [("north", 0), ("south", 0)]
    assert [(each.party, each.sequence) for each in south.listed()] == first
    north.bring_second(world)
    assert [(each.party, each.sequence) for each in south.listed()] == [*first, ("north", 1), ("south", 1)]
    assert south.fetched("north", 1) == second_block(sealed.spec, "north").to_bytes()
    assert refused(lambda: south.fetched("north", 2)) is NotFound


def test_a_party_that_waits_is_told(join: Join, start_hub: Start, dial: Dial, world: World, sealed: Sealed) -> None:
    north, south = join("north"), join("south")
    north.upload()
    ears = relay_pb2_grpc.RelayServiceStub(north.channel)
    first = ears.AwaitNews(release_pb2.AwaitNewsRequest(), timeout=PATIENCE_SECONDS, metadata=VERSION).latest
    waiting = ears.AwaitNews.future(
        release_pb2.AwaitNewsRequest(seen=first), timeout=PATIENCE_SECONDS, metadata=VERSION
    )
    south.upload()
    assert waiting.result().latest != first


def test_earlier_rounds_are_read_once_while_hospitals_compute_the_last(
    join: Join, monkeypatch: pytest.MonkeyPatch, coordinator: FakeCoordinator, world: World, sealed: Sealed
) -> None:
    mechanism, read = mechanism_of(sealed.spec), []

    def earlier_of(_: Any, spec: ReleaseSpec, values: Values) -> EarlierRounds:
        read.append((spec.digest(), values))
        return EarlierRounds(values)

    monkeypatch.setattr(type(mechanism), "earlier", earlier_of)
    north, south = join("north"), join("south")
    north.upload()
    eventually(lambda: coordinator.named("GetRelease") != [])
    assert read == []
    south.upload()
    eventually(lambda: read != [])
    north.bring_second(world)
    coordinator.wait(lambda: coordinator.named("ReportIntake") != [])
    ((digest, earlier),) = read
    assert digest == sealed.digest
    for party, data in sealed.blocks.items():
        (values,) = earlier[party]
        assert np.array_equal(values, read_block(data, sealed.spec, party).values)
