"""Certificates before they end: who gets a later one, over which key, and what stays good. Over real TLS.

Who the hub is: one key at a time, and the office may take it away or give it to another.
"""

import json
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.authority.authority import SERVER_DAYS, hosts_of
from coordinator.cli.main import main
from coordinator.service.enrolment import OwnCertificate
from coordinator.store.store import Store
from dprelease.agreement import check_all
from dprelease.errors import AccessDenied, InvalidInput
from dprelease.identity.certificates import (
    certificate_fingerprint,
    check_certificate,
    read_certificate,
    read_identity,
    signing_request,
)
from dprelease.identity.signing import PrivateKey, new_private_key, private_key_pem
from dprelease.release.approval import SignedApproval
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.coordination_pb2_grpc import CoordinationServiceStub
from dprelease.wire.v1.release_pb2 import ReleaseState
from tests.coordinator.office import NOW, Office
from tests.coordinator.world import Stub, World, ask, listed, report, until
from tests.support.certificates import served, served_if_any

OLD = timedelta(days=70)
"""Age of a certificate that is good for 90 days: 20 are left, less than a third."""


def aged(world: World, party: str, age: timedelta = OLD) -> Stub:
    """Connect as a party whose certificate was issued some time ago."""
    key = world.keys.setdefault(party, new_private_key())
    then = world.clock() - age
    certificate = world.authority.issue(party, "party", key.public_key(), then, 90).decode()
    store = world.store()
    with store.writing() as tx:
        tx.members.enrol(certificate, store.consortium.mu2 / 3, then)
    world.certificates[party] = certificate
    return world.as_party(party)


def aged_hub(world: World) -> tuple[Credentials, PrivateKey]:
    """A hub whose certificate has little life left."""
    key = new_private_key()
    then = world.clock() - timedelta(days=SERVER_DAYS - 30)
    pem = world.authority.issue("hub", "hub", key.public_key(), then, SERVER_DAYS, ("localhost", "127.0.0.1"))
    with world.store().writing() as tx:
        tx.hub.set(pem.decode())
    return Credentials(world.root, pem, private_key_pem(key)), key


def renew(stub: Stub, name: str, key: PrivateKey) -> str:
    request = pb.RenewCertificateRequest(signing_request=signing_request(name, key).decode())
    return str(ask(stub.RenewCertificate, request).certificate)


def test_a_party_gets_a_later_certificate_over_its_own_name_and_key(world: World) -> None:
    stub = aged(world, "north")
    renewed = renew(stub, "whatever the request says", world.keys["north"])
    old, new = (
        read_identity(world.certificates["north"]),
        check_certificate(renewed, world.root, world.clock(), "party"),
    )
    assert (new.name, new.role, new.fingerprint) == (old.name, old.role, old.fingerprint)
    assert new.expires == world.clock() + timedelta(days=90) > old.expires
    world.certificates["north"] = renewed
    assert listed(world.as_party("north")) == []
    with world.store().reading() as tx:
        known = tx.members.find("north")
        assert tx.history.of_party("north")[-1].what == "the certificate of north was renewed"
    assert known is not None
    assert (known.certificate, known.serial) == (renewed, new.serial)


def test_asking_again_gives_the_same_and_the_old_one_stays_good_until_it_ends(world: World) -> None:
    stub = aged(world, "north")
    first = renew(stub, "north", world.keys["north"])  # suppose that this answer was lost
    assert renew(stub, "north", world.keys["north"]) == first
    assert listed(stub) == []
    world.clock.now += timedelta(days=20, seconds=1)
    with pytest.raises(AccessDenied):
        listed(stub)


def test_another_key_or_rubbish_gets_nothing(world: World) -> None:
    stub, other = aged(world, "north"), aged(world, "south")
    assert other is not stub
    for key in (new_private_key(), world.keys["south"]):
        with pytest.raises(AccessDenied):
            renew(stub, "south", key)
    with pytest.raises(InvalidInput):
        ask(stub.RenewCertificate, pb.RenewCertificateRequest(signing_request="rubbish"))
    with world.store().reading() as tx:
        assert [party.certificate for party in tx.members.all()] == [world.certificates[n] for n in ("north", "south")]


def test_a_revoked_party_gets_nothing_even_with_a_certificate_that_is_still_good(world: World) -> None:
    stub = aged(world, "north")
    world.store().revoke("north", world.clock())
    with pytest.raises(AccessDenied):
        renew(stub, "north", world.keys["north"])


def test_what_was_signed_before_a_renewal_stays_signed(world: World) -> None:
    north, south = aged(world, "north"), aged(world, "south")
    report(north, "north")
    report(south, "south")
    digest = world.propose()
    before = world.approval(world.spec(digest), "north").to_bytes()
    world.certificates["north"] = renew(north, "north", world.keys["north"])
    renewed = world.as_party("north")
    ask(renewed.Approve, pb.ApproveRequest(signed_consent=before))
    ask(south.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, "south")))
    assert listed(renewed) == [(digest, ReleaseState.RELEASE_STATE_APPROVED)]
    record = ask(world.as_hub().GetRelease, pb.GetAgreementRequest(digest=digest)).agreement
    check_all(map(SignedApproval.from_bytes, record.consents), world.spec(digest), world.root.decode())


def test_the_hub_keeps_its_host_names(world: World) -> None:
    credentials, key = aged_hub(world)
    stub = CoordinationServiceStub(world.channel(credentials))
    renewed = renew(stub, "hub", key)
    assert check_certificate(renewed, world.root, world.clock(), "hub").expires > world.clock() + timedelta(days=700)
    assert hosts_of(read_certificate(renewed)) == ("localhost", "127.0.0.1")
    assert renew(stub, "hub", key) == renewed
    again = Credentials(world.root, renewed.encode(), private_key_pem(key))
    assert ask(CoordinationServiceStub(world.channel(again)).ListRevoked, pb.ListRevokedRequest()).keys == []


def port(world: World) -> int:
    assert world.server is not None
    return world.server.enrolment_port


def own(world: World, days_ago: int) -> str:
    """Put a coordinator's certificate of some age where the server looks for it."""
    key = read_identity(world.settings.certificate.read_bytes()).key
    then = world.clock() - timedelta(days=days_ago)
    pem = world.authority.issue("coordinator", "coordinator", key, then, SERVER_DAYS, ("localhost",)).decode()
    world.settings.certificate.write_text(pem)
    return pem


@pytest.mark.parametrize("days_ago", [SERVER_DAYS - 30, SERVER_DAYS + 30, -600])
def test_the_coordinator_renews_its_own_certificate_at_the_start_even_an_expired_one_or_one_of_the_future(
    world: World, days_ago: int
) -> None:
    world.stop()
    old = own(world, days_ago)
    world.start()
    assert served(port(world)) == world.settings.certificate.read_text() != old
    world.join("north")
    assert listed(world.as_party("north")) == []


def test_the_coordinator_renews_its_own_certificate_while_it_runs(world: World) -> None:
    world.join("north")
    world.stop()
    old, age = own(world, SERVER_DAYS - 30), timedelta(days=SERVER_DAYS - 30)
    world.settings = world.settings.model_copy(update={"tick_seconds": 0.02})
    world.clock.now -= age
    world.start()
    assert served(port(world)) == old
    north = world.as_party("north")
    assert listed(north) == []
    world.clock.now += age
    until(lambda: served_if_any(port(world)) not in (None, old))
    assert served(port(world)) == world.settings.certificate.read_text()
    assert listed(north) == []  # over a channel from before


def test_a_certificate_of_another_authority_is_not_renewed(world: World) -> None:
    foreign = world.authority.found("Trio", world.clock())
    key = read_identity(world.settings.certificate.read_bytes()).key
    world.settings.certificate.write_bytes(foreign.issue("coordinator", "coordinator", key, world.clock(), 1))
    keeper = OwnCertificate(world.settings, world.authority)
    with pytest.raises(InvalidInput, match="not issued by this authority"):
        keeper.renew(world.clock() + timedelta(days=1))


def test_a_certificate_that_cannot_be_kept_is_used_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    old = own(world, SERVER_DAYS - 30)
    keeper = OwnCertificate(world.settings, world.authority)
    monkeypatch.setattr("coordinator.service.enrolment.write_durably", full)
    keeper.renew(world.clock())
    assert keeper.credentials().certificate != old.encode()
    assert world.settings.certificate.read_text() == old
    assert "cannot be written (No space left on device)" in caplog.text


def test_a_share_is_untouched_by_renewal(world: World) -> None:
    stub = aged(world, "north")
    renew(stub, "north", world.keys["north"])
    with world.store().reading() as tx:
        party = tx.members.find("north")
    assert party is not None
    assert party.cap_mu2 == world.store().consortium.mu2 * Fraction(1, 3)


def look(world: World, credentials: Credentials) -> set[bytes]:
    stub = CoordinationServiceStub(world.channel(credentials))
    return set(ask(stub.ListRevoked, pb.ListRevokedRequest()).keys)


@pytest.fixture
def command(world: World) -> Callable[..., Result]:
    config = world.settings.certificate.parent / "coordinator.toml"

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["hub", *arguments, "--config", str(config)])

    return run


def test_the_hub_of_the_founding_is_accepted_and_no_other(world: World) -> None:
    assert look(world, world.hub) == set()
    key = new_private_key()
    other = world.authority.issue("hub", "hub", key.public_key(), world.clock(), 1, ("localhost",))
    with pytest.raises(AccessDenied):
        look(world, Credentials(world.root, other, private_key_pem(key)))


def test_a_revoked_hub_is_shut_out_at_once(world: World, command: Callable[..., Result]) -> None:
    stub = CoordinationServiceStub(world.channel(world.hub))
    ask(stub.ListRevoked, pb.ListRevokedRequest())
    assert command("revoke").exit_code == 0
    for message, method in (
        (pb.ListRevokedRequest(), stub.ListRevoked),
        (pb.GetAgreementRequest(digest=bytes(32)), stub.GetRelease),
        (pb.AuthorizePublicationRequest(spec_digest=bytes(32)), stub.AuthorizePublication),
    ):
        with pytest.raises(AccessDenied):
            ask(method, message)
    assert "no hub is accepted" in command("show").stdout
    assert json.loads(command("show", "--json").stdout) is None
    refused = command("reissue", "--into", str(world.settings.certificate.parent / "next"))
    assert refused.exit_code == 2
    assert "give --host" in refused.stderr


def test_a_hub_that_was_issued_again_replaces_the_one_before(
    world: World, command: Callable[..., Result], tmp_path: Path
) -> None:
    into = tmp_path / "next"
    assert command("reissue", "--into", str(into)).exit_code == 0
    assert sorted(path.name for path in into.iterdir()) == ["hub.key", "hub.pem", "root.pem"]
    new = Credentials(*((into / name).read_bytes() for name in ("root.pem", "hub.pem", "hub.key")))
    assert look(world, new) == set()
    with pytest.raises(AccessDenied):
        look(world, world.hub)
    assert hosts_of(read_certificate(new.certificate or b"")) == ("localhost",)
    known = json.loads(command("show", "--json").stdout)
    assert known["key"] == read_identity(new.certificate or b"").fingerprint
    again = command("reissue", "--into", str(into))  # never over a key
    assert again.exit_code == 2
    assert look(world, new) == set()
    assert certificate_fingerprint(new.root) == certificate_fingerprint(world.root)


def test_the_hub_learns_the_keys_of_revoked_parties(world: World) -> None:
    world.join("north")
    south = world.join("south")
    fingerprint = read_identity(world.certificates["north"]).fingerprint
    world.store().revoke("north", world.clock())
    assert look(world, world.hub) == {bytes.fromhex(fingerprint)}
    world.store().revoke("north", world.clock())
    assert look(world, world.hub) == {bytes.fromhex(fingerprint)}
    assert listed(south) == []


def test_a_key_is_no_longer_revoked_when_its_party_enrols_again_with_it_and_stays_so_otherwise(store: Store) -> None:
    office = Office(store)
    office.enrol("north")
    first = read_identity(office.certificates["north"])
    store.revoke("north", NOW)
    office.enrol("north")  # with a fresh key
    with store.reading() as tx:
        assert tx.members.revoked_keys() == (first.fingerprint,)
    second = office.certificates["north"]
    store.revoke("north", NOW)
    with store.writing() as tx:
        assert set(tx.members.revoked_keys()) == {first.fingerprint, read_identity(second).fingerprint}
        tx.members.enrol(second, store.consortium.mu2 / 3, NOW + timedelta(hours=1))
        assert tx.members.revoked_keys() == (first.fingerprint,)
