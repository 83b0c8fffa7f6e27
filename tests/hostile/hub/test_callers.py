"""Whoever calls the hub without being the party it claims to be, and learners who ask for what is not there."""

from collections.abc import Callable
from typing import Any

import pytest

from dprelease.errors import AccessDenied, Conflict, InvalidInput, NotFound, PeerUnavailable, VersionMismatch
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc
from learner.hub.published import LARGEST_PAGE
from learner.hub.server import Hub
from tests.hostile.faults import Fault, Kind, each
from tests.learner.test_hub import Dial, Party, Public
from tests.learner.world import PATIENCE_SECONDS, FakeCoordinator, Sealed, World, pieces, requests
from tests.support.certificates import Member, mint

CLOSED = "nothing is taken; the honest party is served"

Caller = Callable[[World], Member | None]


def caller(what: str, kind: Kind, error: Any, act: Caller) -> Fault:
    return Fault(f"the hub's caller: {what}", "hub", kind, error, CLOSED, act)


CALLERS = [
    caller("no certificate", Kind.HANDSHAKE, PeerUnavailable, lambda world: None),
    caller("a certificate of another root", Kind.HANDSHAKE, PeerUnavailable, lambda _: mint("north", "party", mint("trial", None))),
    caller("an expired certificate", Kind.HANDSHAKE, PeerUnavailable, lambda world: _north(world, "party", days=-1)),
    caller("another party's certificate", Kind.ANSWERED, AccessDenied, lambda world: world.parties["south"]),
    caller("a certificate over another key", Kind.ANSWERED, AccessDenied, lambda world: mint("north", "party", world.root)),
    caller("a hub's certificate", Kind.ANSWERED, AccessDenied, lambda world: _north(world, "hub")),
    caller("a coordinator's certificate", Kind.ANSWERED, AccessDenied, lambda world: _north(world, "coordinator")),
]  # fmt: skip


def _north(world: World, role: str, days: float = 30) -> Member:
    return mint("north", role, world.root, key=world.parties["north"].key, days=days)


@each(CALLERS)
def test_intake_is_for_the_party_itself(
    hub: Hub,
    dial: Dial,
    world: World,
    coordinator: FakeCoordinator,
    sealed: Sealed,
    check: Callable[[], None],
    fault: Fault,
) -> None:
    party = Party(dial(hub.party_port, fault.act(world)), sealed, "north")
    with fault.refused() as caught:
        party.open()
    fault.check_answer(caught)
    assert fault.error is not None
    own = "another party" in fault.what  # south may send its own block, which it has not opened
    with pytest.raises(Conflict if own else fault.error):
        party.send(requests(sealed.digest, pieces(party.block)))
    assert fault.kind is not Kind.HANDSHAKE or coordinator.calls == []
    check()


def ask_intake(hub: Hub, dial: Dial, coordinator: FakeCoordinator, sealed: Sealed) -> None:
    Party(dial(hub.public_port), sealed, "north").open()


def ask_intakes_port(hub: Hub, dial: Dial, coordinator: FakeCoordinator, sealed: Sealed) -> None:
    Public(dial(hub.party_port)).list()


def ask_coordination(hub: Hub, dial: Dial, coordinator: FakeCoordinator, sealed: Sealed) -> None:
    port = int(coordinator.address.rpartition(":")[2])
    stub = coordination_pb2_grpc.CoordinationServiceStub(dial(port))
    with translated("the coordinator"):
        stub.ListReleases(coordination_pb2.ListAgreementsRequest(), timeout=PATIENCE_SECONDS, metadata=VERSION)


STRANGERS = [
    Fault(
        "a learner calls intake on the public port",
        "hub",
        Kind.ANSWERED,
        VersionMismatch,
        CLOSED,
        ask_intake,
        "UNIMPLEMENTED: gRPC knows no such call there",
    ),
    Fault("a learner calls the parties' port", "hub", Kind.HANDSHAKE, PeerUnavailable, CLOSED, ask_intakes_port),
    Fault("a learner calls coordination", "coordinator", Kind.HANDSHAKE, PeerUnavailable, CLOSED, ask_coordination),
]


@each(STRANGERS)
def test_a_learner_has_no_business_there(
    hub: Hub, dial: Dial, coordinator: FakeCoordinator, sealed: Sealed, check: Callable[[], None], fault: Fault
) -> None:
    with fault.refused():
        fault.act(hub, dial, coordinator, sealed)
    assert coordinator.calls == []
    check()


def asks(what: str, error: Any, act: Callable[[Public, bytes], object]) -> Fault:
    kind = Kind.ANSWERED if error else Kind.HARMLESS
    return Fault(f"a learner asks for {what}", "hub", kind, error, "the shelf, and every honest answer", act)


HUGE = (1 << 32) - 1
LEARNERS = [
    asks("a digest of no bytes", InvalidInput, lambda public, _: public.manifest(b"")),
    asks("a digest of 3 bytes", InvalidInput, lambda public, digest: public.manifest(digest[:3])),
    asks("a digest of 40 bytes", InvalidInput, lambda public, digest: public.manifest(digest + bytes(8))),
    asks("a path for a digest", NotFound, lambda public, _: public.manifest(b"../../etc/passwd")),
    asks("a digest that nobody published", NotFound, lambda public, _: public.manifest(bytes(32))),
    asks("a block of garbage", NotFound, lambda public, _: public.download(b"\xff\xfe", "north")),
    asks("a block of a party called ../x", NotFound, lambda public, digest: public.download(digest, "../x")),
    asks(
        "a block of a party that is a path",
        NotFound,
        lambda public, digest: public.download(digest, "../manifest.json"),
    ),
    asks("an offset beyond the end", InvalidInput, lambda public, digest: public.download(digest, "north", 1 << 40)),
    asks("an offset of 2^64 - 1", InvalidInput, lambda public, digest: public.download(digest, "north", (1 << 64) - 1)),
    asks("a page with a token of its own making", InvalidInput, lambda public, _: public.list(10, "../../x")),
    asks(f"a page of {HUGE} releases", None, lambda public, _: public.list(HUGE)),
]


def test_a_learner_who_sends_garbage(hub: Hub, dial: Dial, sealed: Sealed, check: Callable[[], None]) -> None:
    check()
    public, digest = Public(dial(hub.public_port)), bytes.fromhex(sealed.digest)

    for fault in LEARNERS:
        if fault.error is None:
            assert 1 == len(fault.act(public, digest).releases) <= LARGEST_PAGE
        else:
            with fault.refused() as caught:
                fault.act(public, digest)
            fault.check_answer(caught)
        assert public.manifest(digest[:4]) == public.manifest(digest)
        assert [line.spec_digest for line in public.list().releases] == [digest]


FAULTS = [*CALLERS, *STRANGERS, *LEARNERS]
