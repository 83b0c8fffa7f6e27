"""Who the hub is: one key at a time, and the office may take it away or give it to another."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.authority.authority import hosts_of
from coordinator.cli.main import main
from coordinator.store.store import Store
from dprelease.errors import AccessDenied
from dprelease.identity.certificates import certificate_fingerprint, read_certificate, read_identity
from dprelease.identity.signing import new_private_key, private_key_pem
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.coordination_pb2_grpc import CoordinationServiceStub
from tests.coordinator.office import NOW, Office
from tests.coordinator.world import World, ask, listed


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
