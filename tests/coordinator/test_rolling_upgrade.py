"""An update goes server by server, then hospital by hospital: a real coordinator, a real hub, and who calls them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from coordinator.cli.main import main
from dprelease.canonical import sha256
from dprelease.errors import VersionMismatch
from dprelease.release.block import SealedBlock
from dprelease.release.manifest import sign_block
from dprelease.release.verification import check_manifest
from dprelease.wire import boundary
from dprelease.wire.boundary import PROTOCOL_VERSION, VERSION, VERSION_KEY, translated
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import intake_pb2, release_pb2
from dprelease.wire.v1.intake_pb2_grpc import IntakeServiceStub
from learner.client.hub_client import PublicHub
from learner.hub.server import Hub
from tests.coordinator.world import SECONDS, Stub, World, ask, listed, report, until
from tests.learner.world import pieces, requests
from tests.support.noise import SeededNoise
from tests.support.specs import private_blocks

BEFORE = PROTOCOL_VERSION - 1
OLDER = ((VERSION_KEY, str(BEFORE)),)
HOSPITAL, HUB, LEARNER = "tests.coordinator.world", "learner.hub.coordination", "learner.client.hub_client"
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
