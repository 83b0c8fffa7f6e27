"""A real coordinator on loopback, called over real TLS by parties, a hub and strangers: who may do what.

`coordinator party revoke` while the party uploads: a real coordinator and a real hub, over real TLS.

An update goes server by server, then hospital by hospital: a real coordinator, a real hub, and who calls them.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator.authority.authority import Authority
from coordinator.cli.main import main
from coordinator.lifecycle import Cancelled, Stage
from dprelease.agreement import check_all
from dprelease.canonical import sha256
from dprelease.errors import AccessDenied, Conflict, IntegrityError, InvalidInput, NotFound, VersionMismatch
from dprelease.identity.certificates import signing_request
from dprelease.identity.signing import new_private_key
from dprelease.release.accounting import guarantee
from dprelease.release.approval import SignedApproval, approve
from dprelease.release.block import SealedBlock, block_size
from dprelease.release.charges import SignedStatement, charge, check_statement
from dprelease.release.manifest import sign_block
from dprelease.release.spec import ReleaseSpec
from dprelease.release.verification import check_manifest
from dprelease.wire import boundary
from dprelease.wire.boundary import PROTOCOL_VERSION, VERSION, VERSION_KEY, translated
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import intake_pb2, release_pb2
from dprelease.wire.v1.intake_pb2_grpc import IntakeServiceStub
from dprelease.wire.v1.release_pb2 import ReleaseState
from learner.client.sources import PublicHub
from learner.hub.server import Hub
from tests.coordinator.world import SECONDS, Stub, World, ask, listed, report, until
from tests.learner.world import pieces, requests
from tests.support.noise import SeededNoise
from tests.support.specs import private_blocks


def test_a_release_from_proposal_to_publication(world: World, two: tuple[Stub, Stub]) -> None:
    north, south = two
    hub = world.as_hub()
    digest = world.propose()
    assert listed(north) == listed(south) == [(digest, ReleaseState.RELEASE_STATE_PROPOSED)]
    offered = ask(north.ListReleases, pb.ListAgreementsRequest()).agreements[0]
    assert "waits for north, south to decide since" in offered.explanation
    spec = ReleaseSpec.from_bytes(offered.proposal)
    with pytest.raises(Conflict):
        ask(hub.ReportIntake, pb.ReportIntakeRequest(spec_digest=digest, received=["north"]))
    signed = {party: world.approval(spec, party).to_bytes() for party in ("north", "south")}
    for stub, party in ((south, "south"), (north, "north"), (north, "north")):
        ask(stub.Approve, pb.ApproveRequest(signed_consent=signed[party]))
    record = ask(hub.GetRelease, pb.GetAgreementRequest(digest=digest)).agreement
    assert (record.proposal, record.state) == (offered.proposal, ReleaseState.RELEASE_STATE_APPROVED)
    assert list(record.consents) == [signed["north"], signed["south"]]
    check_all(map(SignedApproval.from_bytes, record.consents), spec, world.root.decode())
    for received in (["south"], ["south"], ["south", "north"]):
        ask(hub.ReportIntake, pb.ReportIntakeRequest(spec_digest=digest, received=received))
    for _ in range(2):
        ask(hub.AuthorizePublication, pb.AuthorizePublicationRequest(spec_digest=digest))
    for _ in range(2):
        ask(hub.ReportPublication, pb.ReportPublicationRequest(spec_digest=digest, manifest_digest=b"m" * 32))
    assert listed(north) == [(digest, ReleaseState.RELEASE_STATE_PUBLISHED)]
    with pytest.raises(Conflict):
        ask(hub.ReportPublication, pb.ReportPublicationRequest(spec_digest=digest, manifest_digest=b"x" * 32))
    world.clock.now += timedelta(days=31)
    assert listed(north) == []


def test_a_decline_is_told_to_the_others_without_its_reason(world: World, two: tuple[Stub, Stub]) -> None:
    north, south = two
    digest = world.propose()
    for _ in range(2):
        ask(north.Decline, pb.DeclineRequest(digest=digest, reason="our board\nsaid\x1b[31m no"))
    seen = ask(south.ListReleases, pb.ListAgreementsRequest()).agreements[0]
    assert seen.state == ReleaseState.RELEASE_STATE_REJECTED
    assert "north declined" in seen.explanation
    assert "board" not in seen.explanation
    with world.store().reading() as tx:
        assert tx.history.of_agreement(digest.hex())[-1].what == "north declined: our board\\nsaid\\x1b[31m no"
    with pytest.raises(Conflict):
        ask(south.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "south")))


def test_a_party_that_is_not_in_a_release_has_no_say_in_it(world: World, two: tuple[Stub, Stub]) -> None:
    west = world.join("west")
    digest = world.propose()
    with pytest.raises(AccessDenied):
        ask(west.Decline, pb.DeclineRequest(digest=digest))
    with pytest.raises(IntegrityError):
        ask(west.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "west")))
    assert listed(west) == []
    assert listed(two[1]) == [(digest, ReleaseState.RELEASE_STATE_PROPOSED)]
    with world.store().reading() as tx:
        assert tx.releases.get(digest.hex()).consents == ()


def test_an_approval_is_checked_before_it_is_kept(world: World, two: tuple[Stub, Stub]) -> None:
    """One under a certificate of another root or with more bytes; `tests/hostile/office/test_callers.py` has the others."""
    north, _ = two
    digest = world.propose()
    spec = world.spec(digest)
    good = world.approval(spec, "north")
    elsewhere = Authority.found("Trio", world.clock())
    forged = elsewhere.issue("north", "party", world.keys["north"].public_key(), world.clock(), 1).decode()
    bad = approve(spec, "north", "ab" * 32, world.keys["north"], forged, world.clock())
    with pytest.raises(IntegrityError):
        ask(north.Approve, pb.ApproveRequest(signed_consent=bad.to_bytes()))
    with pytest.raises(InvalidInput):
        ask(north.Approve, pb.ApproveRequest(signed_consent=good.to_bytes() + b" "))
    with world.store().reading() as tx:
        assert tx.releases.get(digest.hex()).consents == ()
    ask(north.Approve, pb.ApproveRequest(signed_consent=good.to_bytes()))


HUB_CALLS = {
    "GetRelease": pb.GetAgreementRequest(digest=b"0" * 32),
    "ReportIntake": pb.ReportIntakeRequest(spec_digest=b"0" * 32),
    "AuthorizePublication": pb.AuthorizePublicationRequest(spec_digest=b"0" * 32),
    "ReportPublication": pb.ReportPublicationRequest(spec_digest=b"0" * 32, manifest_digest=b"0" * 32),
}
HUB_ALONE = HUB_CALLS | {"ListRevoked": pb.ListRevokedRequest()}
"""The same and what cannot fail for the hub."""
PARTY_CALLS = {
    "ReportCatalogue": pb.ReportCatalogueRequest(catalogue=b"{}"),
    "ListReleases": pb.ListAgreementsRequest(),
    "ListCharges": pb.ListChargesRequest(),
    "Approve": pb.ApproveRequest(signed_consent=b"{}"),
    "Decline": pb.DeclineRequest(digest=b"0" * 32),
    "RequestDeal": pb.RequestDealRequest(),
    "RequestAnswer": pb.RequestAnswerRequest(),
}


def test_every_call_is_for_one_role(world: World) -> None:
    service = pb.DESCRIPTOR.services_by_name["CoordinationService"]
    assert {method.name for method in service.methods} == HUB_ALONE.keys() | PARTY_CALLS.keys() | {
        "AwaitNews",
        "RenewCertificate",
    }
    north, hub = world.join("north"), world.as_hub()
    for name, message in HUB_ALONE.items():
        with pytest.raises(AccessDenied):
            ask(getattr(north, name), message)
    for name, message in HUB_CALLS.items():
        with pytest.raises(NotFound):
            ask(getattr(hub, name), message)
    for name, message in PARTY_CALLS.items():
        with pytest.raises(AccessDenied):
            ask(getattr(hub, name), message)


def test_a_revoked_party_is_shut_out_at_once(world: World, two: tuple[Stub, Stub]) -> None:
    north, south = two
    digest = world.propose()
    world.store().revoke("north", world.clock())
    for name, message in PARTY_CALLS.items():
        with pytest.raises(AccessDenied):
            ask(getattr(north, name), message)
    assert listed(south) == [(digest, ReleaseState.RELEASE_STATE_CANCELLED)]


def test_states_have_the_same_names_on_the_wire() -> None:
    wire = {name.removeprefix("RELEASE_STATE_") for name in ReleaseState.keys()}  # noqa: SIM118 - not a dict
    assert wire == {state.value for state in Stage if state is not Stage.DONE} | {"UNSPECIFIED"}


def test_a_party_is_told_what_the_office_has_seen_charged_to_it(world: World, two: tuple[Stub, Stub]) -> None:
    north, south = two
    pending, complete = world.propose(title="pending"), world.propose(title="complete")
    ask(north.Approve, pb.ApproveRequest(signed_consent=world.signed(pending, "north")))
    for party, stub in (("north", north), ("south", south)):
        ask(stub.Approve, pb.ApproveRequest(signed_consent=world.signed(complete, party)))
    answer = ask(north.ListCharges, pb.ListChargesRequest()).charges
    told = check_statement(SignedStatement.from_bytes(answer), world.root.decode(), "Trio", "north")
    (seen,) = told.charges
    spec = world.spec(complete)
    assert seen == charge(spec, "north", published=False)
    assert Fraction(seen.mu2) == guarantee(spec).party("north").mu2
    with world.store().writing() as tx:
        tx.releases.advance(complete.hex(), Cancelled("no longer wanted"), world.clock())
    assert ask(south.ListCharges, pb.ListChargesRequest()).charges != answer
    again = world.enrol(world.invite("north").secret, signing_request("north", new_private_key())).charges
    assert SignedStatement.from_bytes(again).statement.charges == (seen,)  # cancelled, and yet it may have been charged
    with pytest.raises(IntegrityError, match="is for north, not for south"):
        check_statement(SignedStatement.from_bytes(answer), world.root.decode(), "Trio", "south")


def announce(world: World, hub: Hub, digest: bytes, party: str) -> tuple[IntakeServiceStub, bytes]:
    """Open a block of the right size over random bytes; the stub and the bytes."""
    spec = world.spec(digest)
    data = bytes(block_size(spec, party))
    signature = sign_block(world.keys[party], spec.digest(), sha256(data))
    sealed = SealedBlock(party=party, spec=spec.digest(), sha256=sha256(data), size=len(data), signature=signature)
    channel = world.opened.enter_context(connect(f"localhost:{hub.party_port}", world.credentials(party)))
    stub = IntakeServiceStub(channel)
    with translated("the hub"):
        assert stub.OpenBlock(intake_pb2.OpenBlockRequest(sealed=sealed.to_bytes()), timeout=SECONDS, metadata=VERSION)
    return stub, data


def test_the_command_cuts_the_upload_and_ends_the_release(world: World, two: tuple[Stub, Stub], hub: Hub) -> None:
    digest = world.propose()
    for stub, party in zip(two, ("north", "south"), strict=True):
        ask(stub.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, party)))
    intake, data = announce(world, hub, digest, "north")
    announce(world, hub, digest, "south")
    half, never = threading.Event(), threading.Event()

    def halting() -> Iterator[Any]:
        messages = list(requests(digest.hex(), pieces(data)))
        yield from messages[: len(messages) // 2]
        half.set()
        never.wait(SECONDS)

    def send() -> Any:
        with translated("the hub"):
            return intake.SendBlock(halting(), timeout=SECONDS, metadata=VERSION)

    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(send)
        assert half.wait(SECONDS)
        config = world.settings.certificate.parent / "coordinator.toml"
        revoked = CliRunner().invoke(main, ["party", "revoke", "north", "--config", str(config)])
        assert revoked.exit_code == 0, revoked.output
        with pytest.raises(AccessDenied):
            outcome.result()
        never.set()
    with pytest.raises(AccessDenied):
        listed(two[0])
    with pytest.raises(AccessDenied):
        announce(world, hub, digest, "north")
    assert dict(listed(two[1])) == {digest: ReleaseState.RELEASE_STATE_FAILED}
    with pytest.raises(Conflict):
        ask(world.as_hub().AuthorizePublication, pb.AuthorizePublicationRequest(spec_digest=digest))


BEFORE = PROTOCOL_VERSION - 1
OLDER = ((VERSION_KEY, str(BEFORE)),)
HOSPITAL, HUB, LEARNER = "tests.coordinator.world", "learner.hub.coordination", "learner.client.sources"
"""Where they call from."""


def ask_as_before(peer: str, method: Callable[..., object], request: object) -> object:
    """One call that says the version before."""
    with translated(peer):
        return method(request, timeout=SECONDS, metadata=OLDER)


@contextmanager
def older(who: str) -> Iterator[None]:
    """Whoever calls from this module says the version before."""
    with pytest.MonkeyPatch.context() as patch:
        if who == HOSPITAL:
            patch.setattr(f"{who}.VERSION", OLDER)
        else:
            patch.setattr(f"{who}.ask", ask_as_before)
        yield


def send(world: World, hub: Hub, digest: bytes, party: str, data: bytes, metadata: tuple[tuple[str, str], ...]) -> None:
    """Announce a block at the hub and upload it."""
    signature = sign_block(world.keys[party], digest.hex(), sha256(data))
    sealed = SealedBlock(party=party, spec=digest.hex(), sha256=sha256(data), size=len(data), signature=signature)
    stub = IntakeServiceStub(
        world.opened.enter_context(connect(f"localhost:{hub.party_port}", world.credentials(party)))
    )
    with translated("the hub"):
        stub.OpenBlock(intake_pb2.OpenBlockRequest(sealed=sealed.to_bytes()), timeout=SECONDS, metadata=metadata)
        stub.SendBlock(requests(digest.hex(), pieces(data)), timeout=SECONDS, metadata=metadata)


def test_who_is_not_updated_yet_takes_part(world: World, hub: Hub) -> None:
    """The hub, a learner and north speak the version before, south the present one: from enrolment to verification."""
    with older(HUB):
        with older(HOSPITAL):
            north = world.join("north")
            report(north, "north")
        south = world.join("south")
        report(south, "south")
        digest = world.propose()
        with older(HOSPITAL):
            ask(north.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "north")))
        ask(south.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "south")))
        blocks = private_blocks(world.spec(digest), SeededNoise(3))
        send(world, hub, digest, "north", blocks["north"], OLDER)
        send(world, hub, digest, "south", blocks["south"], VERSION)
        until(lambda: listed(south) == [(digest, release_pb2.ReleaseState.RELEASE_STATE_PUBLISHED)])
    public = world.opened.enter_context(connect(f"localhost:{hub.public_port}", Credentials(world.root)))
    with older(LEARNER):
        assert check_manifest(*PublicHub(public).manifest(digest.hex()), world.root.decode()).spec == world.spec(digest)
    with world.store().reading() as tx:
        assert {one.name: one.protocol for one in tx.members.all()} == {"north": BEFORE, "south": PROTOCOL_VERSION}
    config = world.settings.certificate.parent / "coordinator.toml"
    said = CliRunner().invoke(main, ["party", "list", "--config", str(config)]).output
    assert f"north runs older software (protocol {BEFORE})" in said
    assert "south runs older" not in said


def test_two_updates_later_both_sides_are_told_who_has_to_be_updated(
    world: World, two: tuple[Stub, Stub], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    later = (PROTOCOL_VERSION + 1, PROTOCOL_VERSION + 2)
    monkeypatch.setattr(boundary, "ACCEPTED_VERSIONS", frozenset(later))
    monkeypatch.setattr(boundary, "ACCEPTED", "{},{}".format(*later))
    with pytest.raises(
        VersionMismatch, match=rf"takes protocol {later[0]} and {later[1]}, .*; update the software on this side"
    ):
        listed(two[0])
    assert f"the caller speaks protocol {PROTOCOL_VERSION}, this side takes" in caplog.text
