"""Whoever calls the office without being the member it claims to be, or with another protocol, or with garbage."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from coordinator.authority.authority import Authority
from dprelease.errors import (
    AccessDenied,
    Conflict,
    IntegrityError,
    InvalidInput,
    NotFound,
    PeerUnavailable,
    Unauthenticated,
    VersionMismatch,
)
from dprelease.identity.certificates import signing_request
from dprelease.identity.signing import key_fingerprint, new_private_key, private_key_pem
from dprelease.release.approval import approve
from dprelease.wire.boundary import translated
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.coordination_pb2_grpc import CoordinationServiceStub
from dprelease.wire.v1.enrolment_pb2 import EnrolRequest
from dprelease.wire.v1.enrolment_pb2_grpc import EnrolmentServiceStub
from dprelease.wire.v1.release_pb2 import ReleaseState
from tests.coordinator.office import catalogue
from tests.coordinator.world import SECONDS, Stub, World, ask, listed
from tests.hostile.faults import VERSIONS, Fault, Kind, each

SERVED = "nothing is kept; the honest parties approve as before"


def check_honest(world: World, two: tuple[Stub, Stub]) -> None:
    """A release that both parties see and approve."""
    digest = world.propose()
    for party, stub in zip(("north", "south"), two, strict=True):
        ask(stub.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, party)))
    assert all((digest, ReleaseState.RELEASE_STATE_APPROVED) in listed(stub) for stub in two)


def issued(world: World, name: str, role: Any, **when: Any) -> Credentials:
    key = world.keys["north"]
    now = world.clock() - when.get("ago", timedelta())
    return Credentials(world.root, world.authority.issue(name, role, key.public_key(), now, 1), private_key_pem(key))


def of_another_root(world: World) -> Credentials:
    key = world.keys["north"]
    stranger = Authority.found("Trio", world.clock())
    return Credentials(
        world.root, stranger.issue("north", "party", key.public_key(), world.clock(), 1), private_key_pem(key)
    )


def over_another_key(world: World) -> Credentials:
    key = new_private_key()
    certificate = world.authority.issue("north", "party", key.public_key(), world.clock(), 1)
    return Credentials(world.root, certificate, private_key_pem(key))


def caller(what: str, kind: Kind, error: Any, act: Callable[[World], Credentials]) -> Fault:
    return Fault(f"the coordinator's caller: {what}", "coordinator", kind, error, SERVED, act)


CALLERS = [
    caller("no certificate", Kind.HANDSHAKE, PeerUnavailable, lambda world: Credentials(world.root)),
    caller("a certificate of another root", Kind.HANDSHAKE, PeerUnavailable, of_another_root),
    caller(
        "an expired certificate",
        Kind.HANDSHAKE,
        PeerUnavailable,
        lambda world: issued(world, "north", "party", ago=timedelta(days=9)),
    ),
    caller("a hub's certificate", Kind.ANSWERED, AccessDenied, lambda world: world.hub),
    caller("a certificate over a key that never enrolled", Kind.ANSWERED, AccessDenied, over_another_key),
    caller("a name that never enrolled", Kind.ANSWERED, AccessDenied, lambda world: issued(world, "west", "party")),
]


def test_parties_calls_are_for_parties(world: World, two: tuple[Stub, Stub]) -> None:
    for fault in CALLERS:
        stub = CoordinationServiceStub(world.channel(fault.act(world)))
        for method, message in (
            (stub.ListReleases, pb.ListAgreementsRequest()),
            (stub.ReportCatalogue, pb.ReportCatalogueRequest(catalogue=catalogue("north", rows=5).to_bytes())),
        ):
            with fault.refused() as caught:
                ask(method, message)
            fault.check_answer(caught)
    check_honest(world, two)


def speaks(what: str, error: Any, act: Callable[[World, Stub, bytes], object]) -> Fault:
    return Fault(f"a party {what}", "coordinator", Kind.ANSWERED, error, SERVED, act)


def reports(data: bytes) -> Callable[[World, Stub, bytes], object]:
    return lambda world, north, digest: ask(north.ReportCatalogue, pb.ReportCatalogueRequest(catalogue=data))


def approves(data: Callable[[World, bytes], bytes]) -> Callable[[World, Stub, bytes], object]:
    return lambda world, north, digest: ask(north.Approve, pb.ApproveRequest(signed_consent=data(world, digest)))


def by_another_key(world: World, digest: bytes) -> bytes:
    key = new_private_key()
    certificate = world.authority.issue("north", "party", key.public_key(), world.clock(), 1).decode()
    return approve(world.spec(digest), "north", "ab" * 32, key, certificate, world.clock()).to_bytes()


def unsigned(world: World, digest: bytes) -> bytes:
    return world.approval(world.spec(digest), "north").model_copy(update={"signature": "00"}).to_bytes()


def for_another_spec(world: World, digest: bytes) -> bytes:
    signed = world.approval(world.spec(digest), "north")
    return signed.model_copy(update={"approval": signed.approval.model_copy(update={"spec": "0" * 64})}).to_bytes()


def over_other_data(world: World, north: Stub, digest: bytes) -> object:
    spec = world.spec(digest)
    ask(north.Approve, pb.ApproveRequest(signed_consent=world.approval(spec, "north").to_bytes()))
    other = world.approval(spec, "north", commitment="cd" * 32).to_bytes()
    return ask(north.Approve, pb.ApproveRequest(signed_consent=other))


def shows(party: str = "north", **changed: object) -> Callable[[World, Stub, bytes], object]:
    """An approval with the spec of a release that the office is said to have forgotten."""

    def act(world: World, north: Stub, digest: bytes) -> object:
        spec = world.spec(digest).model_copy(update={"title": "never proposed", **changed})
        signed = world.approval(spec, party).to_bytes()
        return ask(north.Approve, pb.ApproveRequest(signed_consent=signed, proposal=spec.to_bytes()))

    return act


def shows_garbage(world: World, north: Stub, digest: bytes) -> object:
    return ask(north.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "north"), proposal=b"{}"))


PARTIES = [
    speaks("reports another's catalogue", AccessDenied, reports(catalogue("south", rows=5).to_bytes())),
    speaks("reports a catalogue that is none", InvalidInput, reports(b"\xff\xfe")),
    speaks("approves for another", AccessDenied, approves(lambda world, digest: world.signed(digest, "south"))),
    speaks("approves with another key", IntegrityError, approves(by_another_key)),
    speaks("approves without a signature", IntegrityError, approves(unsigned)),
    speaks("approves a release that nobody proposed", NotFound, approves(for_another_spec)),
    speaks("approves with garbage", InvalidInput, approves(lambda world, digest: b"{}")),
    speaks("approves again over other data", Conflict, over_other_data),
    speaks("says that the office forgot a release which it made up", NotFound, shows()),
    speaks("shows another's approval of a release that the office forgot", AccessDenied, shows("south")),
    speaks("shows a forgotten release of another consortium", IntegrityError, shows(consortium="Another")),
    speaks("shows a forgotten release that is none", InvalidInput, shows_garbage),
    speaks(
        "declines with a digest that is none",
        InvalidInput,
        lambda world, north, digest: ask(north.Decline, pb.DeclineRequest(digest=b"../../etc")),
    ),
]


def test_a_party_speaks_for_itself_and_truly(world: World, two: tuple[Stub, Stub]) -> None:
    digest = world.propose()

    for fault in sorted(PARTIES, key=lambda fault: fault.act is over_other_data):  # which approves first, at the end
        with fault.refused() as caught:
            fault.act(world, two[0], digest)
        fault.check_answer(caught)
        assert listed(two[1]) == [(digest, ReleaseState.RELEASE_STATE_PROPOSED)]
        with world.store().reading() as tx:
            assert {one.rows for one in tx.members.catalogues().values()} == {1000}
    check_honest(world, two)


PROTOCOL = [
    Fault(
        f"the coordinator's caller: its protocol version is {what}", "coordinator", Kind.ANSWERED, VersionMismatch,
        SERVED, lambda sent=sent: sent,
    )
    for what, sent in VERSIONS.items()
]  # fmt: skip


def test_another_protocol_version(world: World, two: tuple[Stub, Stub]) -> None:
    joining = EnrolmentServiceStub(world.channel(Credentials(world.root), enrolment_port=True))
    digest = world.propose()

    for fault in PROTOCOL:
        for call in (
            lambda sent: two[0].Decline(pb.DeclineRequest(digest=digest), timeout=SECONDS, metadata=sent),
            lambda sent: joining.Enrol(EnrolRequest(secret="x"), timeout=SECONDS, metadata=sent),
        ):
            with fault.refused() as caught, translated("the coordinator"):
                call(fault.act())
            fault.check_answer(caught)
        assert listed(two[0]) == [(digest, ReleaseState.RELEASE_STATE_PROPOSED)]
    check_honest(world, two)


def used_up(world: World) -> str:
    secret = world.invite("west").secret
    world.enrol(secret, signing_request("west", new_private_key()))
    return secret


def lapsed(world: World) -> str:
    secret = world.invite("west", hours=1 / 3600).secret
    world.clock.now += timedelta(seconds=1)
    return secret


def replaced(world: World) -> str:
    secret = world.invite("west").secret
    world.invite("west")
    return secret


INVITES = [
    Fault(
        f"an invite that {what}",
        "coordinator",
        Kind.ANSWERED,
        Unauthenticated,
        "no certificate; a good invite still works",
        act,
    )
    for what, act in (
        ("was used up", used_up),
        ("has lapsed", lapsed),
        ("was replaced", replaced),
        ("was forged", lambda world: "forged"),
        ("is empty", lambda world: ""),
    )
]


@each(INVITES)
def test_every_bad_invite_gets_the_same_answer(world: World, two: tuple[Stub, Stub], fault: Fault) -> None:
    secret, key = fault.act(world), new_private_key()
    with fault.refused() as caught:
        world.enrol(secret, signing_request("west", key))
    fault.check_answer(caught)
    with world.store().reading() as tx:
        assert key_fingerprint(key.public_key()) not in {party.fingerprint for party in tx.members.all()}
    assert listed(world.join("west")) == []
    check_honest(world, two)


FAULTS = [*CALLERS, *PARTIES, *PROTOCOL, *INVITES]
