"""A hub that would have fresh noise: whatever it does, it gets the bytes that were sealed first, or nothing."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from dprelease.canonical import sha256
from dprelease.errors import (
    AccessDenied,
    BudgetExceeded,
    Conflict,
    DataRefused,
    DpReleaseError,
    IntegrityError,
    InternalError,
    InvalidInput,
    NotFound,
    PeerUnavailable,
    PolicyRefused,
    SpecRefused,
    VersionMismatch,
)
from dprelease.release.block import SealedBlock
from dprelease.release.manifest import sign_block
from dprelease.wire.v1 import intake_pb2
from tests.hostile.faults import Fault, Kind, each
from tests.hostile.hospital.honest import check_delivered, honest_release, steps
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, World

SAME = "the block, its charge and its noise stay; the same bytes go out again"
NOTED = {
    "the hub acknowledges other bytes": "other bytes",
    "the hub claims more bytes than there are": "more bytes",
    "the hub answers garbage": "the hub answered INTERNAL",
    "the hub is away": "cannot serve now",
}
"""What the release's note says; else what the hub answered."""


def refuses(error: DpReleaseError) -> Callable[[World, str], None]:
    def act(world: World, release: str) -> None:
        world.hub.raises = error

    return act


def acknowledges_other_bytes(world: World, release: str) -> None:
    world.hub.wrong_digest = True


def claims_more_than_there_is(world: World, release: str) -> None:
    world.hub.blocks[release, "north", 0] = bytearray(1 << 20)


def cannot_serve(world: World, release: str) -> None:
    world.shelf.serving = False


def breaks_mid_stream(world: World, release: str) -> None:
    world.hub.breaks_at = 200


def breaks_and_forgets(world: World, release: str) -> None:
    world.hub.breaks_at = 200
    original = world.hub.OpenBlock

    def forgetful(request: Any, context: Any) -> Any:
        if world.hub.sealed:
            world.hub.blocks.clear()
        return original(request, context)

    world.hub.OpenBlock = forgetful  # type: ignore[method-assign]


def answers_garbage(world: World, release: str) -> None:
    def add(server: Any) -> None:
        garbage = grpc.unary_unary_rpc_method_handler(
            lambda request, context: request, request_deserializer=bytes, response_serializer=lambda _: b"\xff" * 40
        )
        lists = grpc.unary_unary_rpc_method_handler(
            world.hub.ListEarlierBlocks,
            request_deserializer=intake_pb2.ListEarlierBlocksRequest.FromString,
            response_serializer=intake_pb2.ListEarlierBlocksResponse.SerializeToString,
        )
        methods = {"OpenBlock": garbage, "ListEarlierBlocks": lists}
        server.add_registered_method_handlers("dprelease.wire.v1.IntakeService", methods)

    world.shelf.stop()
    world.shelf.add = add
    world.shelf.start()


REFUSALS = [
    *(
        Fault(f"the hub refuses the block: {words}", "hospital", Kind.HELD, type(error), SAME, refuses(error))
        for words, error in (
            ("it says that other bytes were sealed", Conflict("x")),
            ("it says that the bytes are damaged", IntegrityError("x")),
            ("it says that the party may not send", AccessDenied("x")),
            ("it says that the release is unknown", NotFound("x")),
            ("it says that the block is malformed", InvalidInput("x")),
            ("it says that versions differ", VersionMismatch("x")),
            ("it breaks", InternalError("x")),
            ("it cannot serve now", PeerUnavailable("x")),
        )
    ),
    *(
        Fault(f"the hub refuses the block: it says {words}", "hospital", Kind.HELD, Conflict, SAME, refuses(error))
        for words, error in (
            ("that our table cannot be used", DataRefused("x")),
            ("that our spec does not check out", SpecRefused("x")),
            ("that our policy does not allow it", PolicyRefused("x")),
            ("that our budget does not allow it", BudgetExceeded("x")),
        )
    ),
]  # fmt: skip
HUBS = [
    Fault("the hub acknowledges other bytes", "hospital", Kind.HELD, IntegrityError, SAME, acknowledges_other_bytes),
    Fault("the hub claims more bytes than there are", "hospital", Kind.HELD, IntegrityError, SAME, claims_more_than_there_is),
    Fault("the hub answers garbage", "hospital", Kind.HELD, InternalError, SAME, answers_garbage),
    Fault("the hub disappears mid-stream", "hospital", Kind.HELD, PeerUnavailable, SAME, breaks_mid_stream),
    Fault("the hub disappears mid-stream and forgets everything", "hospital", Kind.HELD, PeerUnavailable, SAME, breaks_and_forgets),
    Fault(
        "the hub is away", "hospital", Kind.HELD, PeerUnavailable,
        "the block stays; no byte is noted as sent, so the budget can still come back", cannot_serve,
    ),
]  # fmt: skip


def test_a_hub_that_refuses_a_block_in_every_way_gets_the_same_bytes_in_the_end(world: World) -> None:
    release, north = world.approved(), world.north

    for fault in REFUSALS:
        fault.act(world, release)
        assert steps(north) == [fault.error]
        north.cycle()
        assert north.status(release) == "sealed"
        assert "the hub: " in north.record(release).note
        assert north.ledger_kinds(release) == ["reserve", "charge", "send"]
    world.hub.raises, block = None, north.hospital_state().vault.path(release).read_bytes()
    north.cycle()
    check_delivered(world, release)
    assert world.block(release, "north") == block
    assert len(north.noise.draws) == DRAWS_OF_ONE_BLOCK
    honest_release(world)


@each(HUBS)
def test_the_hub_gets_the_same_bytes_or_none(world: World, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprelease.wire.chunks.CHUNK_BYTES", 100)
    release, north = world.approved(), world.north
    honest_add = world.shelf.add
    fault.act(world, release)
    assert steps(north) == [fault.error]
    assert north.status(release) == "sealed"
    north.cycle()  # a second round meets the same hub, or what is left of it
    if north.status(release) == "sealed":
        assert NOTED.get(fault.what, "the hub: ") in north.record(release).note
    block = north.hospital_state().vault.path(release).read_bytes()
    assert len(north.noise.draws) == DRAWS_OF_ONE_BLOCK
    held = ["reserve", "charge"] if "away" in fault.what else ["reserve", "charge", "send"]
    assert north.ledger_kinds(release) == held
    world.hub.wrong_digest = False
    if len(world.hub.blocks.get((release, "north", 0), b"")) > len(block):
        del world.hub.blocks[release, "north", 0]
    world.shelf.stop()
    world.shelf.add, world.shelf.serving = honest_add, True
    world.shelf.start()
    north.cycle()
    check_delivered(world, release)
    assert world.block(release, "north") == block
    assert {sealed.sha256 for sealed in world.hub.sealed} == {sha256(block)}
    assert len(north.noise.draws) == DRAWS_OF_ONE_BLOCK
    honest_release(world)


def forgets_what_it_acknowledged(world: World, release: str) -> None:
    world.hub.blocks.clear()
    world.hub.sealed.clear()


FORGETS = Fault(
    "the hub forgets a block that it acknowledged", "hospital", Kind.HARMLESS, None,
    "no fresh noise; the release fails at its deadline and the charge stands", forgets_what_it_acknowledged,
)  # fmt: skip


@each([FORGETS])
def test_what_was_acknowledged_is_never_made_again(world: World, fault: Fault) -> None:
    release, north = world.approved(), world.north
    north.cycle()
    check_delivered(world, release)
    block = north.hospital_state().vault.path(release).read_bytes()
    fault.act(world, release)
    north.cycle(2)
    world.coordinator.move(release, "FAILED", "no block in time")
    north.cycle()
    assert north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert north.hospital_state().vault.path(release).read_bytes() == block
    assert len(north.noise.draws) == DRAWS_OF_ONE_BLOCK
    honest_release(world)


def is_away(world: World, release: str) -> None:
    world.shelf.stop()


def lists_a_block_of(party: str) -> Callable[[World, str], None]:
    """Lists one as the north's that the south signed."""

    def act(world: World, release: str) -> None:
        digest = sha256(b"no block of ours")
        signature = sign_block(world.members["south"].key, release, digest)
        listed = SealedBlock(party=party, spec=release, sha256=digest, size=9, signature=signature)
        world.hub.owns = lambda _: (listed,)

    return act


NOTHING_YET = "no noise is drawn, nothing is charged or closed, and the release goes on with a hub that answers well"

BEFORE = [
    Fault("the hub is away before our block is made", "hospital", Kind.HELD, PeerUnavailable, NOTHING_YET, is_away),
    Fault(
        "the hub lists a block as ours that we did not sign",
        "hospital", Kind.HELD, IntegrityError, NOTHING_YET, lists_a_block_of("north"),
    ),
    Fault(
        "the hub lists another hospital's block as ours",
        "hospital", Kind.HELD, IntegrityError, NOTHING_YET, lists_a_block_of("south"),
    ),
]  # fmt: skip


@each(BEFORE)
def test_no_noise_is_drawn_before_the_hub_has_said_what_it_holds(world: World, fault: Fault) -> None:
    release, north, honest = world.approved(), world.north, world.hub.owns
    fault.act(world, release)
    assert steps(north) == [fault.error]
    assert north.status(release) == "approved"
    assert north.ledger_kinds(release) == ["reserve"]
    assert north.noise.draws == []
    world.hub.owns = honest
    world.shelf.stop()
    world.shelf.start()
    north.cycle()
    check_delivered(world, release)
    honest_release(world)


FAULTS = [*REFUSALS, *HUBS, FORGETS, *BEFORE]
