"""`coordinator party revoke` while the party uploads: a real coordinator and a real hub, over real TLS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator.cli.main import main
from dprelease.canonical import sha256
from dprelease.errors import AccessDenied, Conflict
from dprelease.release.block import SealedBlock, block_size
from dprelease.release.manifest import sign_block
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.transport import connect
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import intake_pb2
from dprelease.wire.v1.intake_pb2_grpc import IntakeServiceStub
from dprelease.wire.v1.release_pb2 import ReleaseState
from learner.hub.server import Hub
from tests.coordinator.world import SECONDS, Stub, World, ask, listed
from tests.learner.world import pieces, requests


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
