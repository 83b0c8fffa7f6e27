"""A whole hub in this process: real listeners, real certificates, a coordinator that writes down what it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dprelease.canonical import sha256
from dprelease.errors import Conflict, DpReleaseError, IntegrityError, InvalidInput, NotFound, PeerUnavailable
from dprelease.release.verification import verify_release
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.v1 import intake_pb2, intake_pb2_grpc, public_pb2, public_pb2_grpc, release_pb2
from learner.hub.identity import read_signer
from learner.hub.server import Hub
from tests.learner.world import PARTIES, PATIENCE_SECONDS, FakeCoordinator, Sealed, World, eventually, pieces, requests
from tests.support.certificates import Member, mint

Start = Callable[..., Hub]
Dial = Callable[..., grpc.Channel]


class Party:
    def __init__(self, channel: grpc.Channel, sealed: Sealed, name: str) -> None:
        self.channel, self.stub = channel, intake_pb2_grpc.IntakeServiceStub(channel)
        self.sealed, self.name = sealed, name
        self.block = sealed.blocks[name]

    def open(self, data: bytes | None = None) -> int:
        request = intake_pb2.OpenBlockRequest(sealed=data or self.sealed.identities[self.name].to_bytes())
        with translated("the hub"):
            return self.stub.OpenBlock(request, timeout=PATIENCE_SECONDS, metadata=VERSION).offset

    def send(self, messages: Iterator[Any]) -> str:
        with translated("the hub"):
            return self.stub.SendBlock(messages, timeout=PATIENCE_SECONDS, metadata=VERSION).digest.hex()

    def upload(self) -> str:
        size = max(100, len(self.block) // 50)
        return self.send(requests(self.sealed.digest, pieces(self.block, size, self.open())))


class Public:
    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = public_pb2_grpc.PublicServiceStub(channel)

    def list(self, size: int = 0, token: str = "") -> Any:
        request = public_pb2.ListPublishedRequest(page_size=size, page_token=token)
        with translated("the hub"):
            return self.stub.ListPublished(request, timeout=PATIENCE_SECONDS, metadata=VERSION)

    def manifest(self, prefix: bytes) -> tuple[bytes, str]:
        request = public_pb2.GetManifestRequest(spec_digest=prefix)
        with translated("the hub"):
            answer = self.stub.GetManifest(request, timeout=PATIENCE_SECONDS, metadata=VERSION)
        return answer.manifest, answer.signature

    def download(self, digest: bytes, party: str, offset: int = 0) -> list[release_pb2.Chunk]:
        request = public_pb2.DownloadBlockRequest(spec_digest=digest, party=party, offset=offset)
        with translated("the hub"):
            return [each.chunk for each in self.stub.DownloadBlock(request, timeout=PATIENCE_SECONDS, metadata=VERSION)]


@pytest.fixture
def publish(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator
) -> Callable[..., tuple[Hub, Public]]:
    """Take a release all the way through a fresh hub."""

    def run(*releases: Sealed, **settings: Any) -> tuple[Hub, Public]:
        hub = start_hub(**settings)
        for release in releases:
            coordinator.offer(release)
            for name in PARTIES:
                Party(dial(hub.party_port, world.parties[name]), release, name).upload()
        coordinator.wait(lambda: len(coordinator.named("ReportPublication")) == len(releases))
        return hub, Public(dial(hub.public_port))

    return run


def test_from_sealed_blocks_to_a_release_that_verifies(
    publish: Callable[..., tuple[Hub, Public]], coordinator: FakeCoordinator, world: World, sealed: Sealed
) -> None:
    _, public = publish(sealed)
    digest = bytes.fromhex(sealed.digest)
    data, signature = public.manifest(digest)
    blocks = {name: b"".join(piece.data for piece in public.download(digest, name)) for name in PARTIES}
    release = verify_release(data, signature, lambda block: blocks[block.party], world.root.certificate)
    assert release.digest == sealed.digest
    assert blocks == sealed.blocks
    names = [call[0] for call in coordinator.calls]
    assert names.index("AuthorizePublication") < names.index("ReportPublication")
    assert coordinator.named("ReportIntake")[-1] == (sealed.digest, PARTIES)
    assert coordinator.named("ReportPublication") == [(sealed.digest, sha256(data))]


def test_malformed_messages_get_one_clear_status_and_change_nothing(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed
) -> None:
    """Of another form than a block's stream; `tests/hostile/hub/test_block_stream.py` has streams and seals of this form."""
    coordinator.offer(sealed)
    party = Party(dial(start_hub().party_port, world.parties["north"]), sealed, "north")
    good = pieces(party.block)
    assert party.open() == 0
    first = intake_pb2.SendBlockRequest(spec_digest=bytes.fromhex(sealed.digest), chunk=good[0])
    hostile: list[tuple[type[DpReleaseError], list[Any]]] = [
        (InvalidInput, [intake_pb2.SendBlockRequest(chunk=good[0])]),
        (InvalidInput, [intake_pb2.SendBlockRequest(spec_digest=b"../../etc", chunk=good[0])]),
        (NotFound, [intake_pb2.SendBlockRequest(spec_digest=bytes(32), chunk=good[0])]),
        (InvalidInput, [first, intake_pb2.SendBlockRequest(spec_digest=bytes(32), chunk=good[1])]),
        (IntegrityError, [intake_pb2.SendBlockRequest(spec_digest=first.spec_digest)]),
    ]
    for error, messages in hostile:
        with pytest.raises(error) as caught:
            party.send(iter(messages))
        assert "north" not in caught.value.message  # the table's sentence, nothing else
    assert party.upload() == sealed.identities["north"].sha256


def test_a_restart_in_the_middle_of_an_upload(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed
) -> None:
    coordinator.offer(sealed)
    hub = start_hub()
    Party(dial(hub.party_port, world.parties["south"]), sealed, "south").upload()
    north = Party(dial(hub.party_port, world.parties["north"]), sealed, "north")
    north.open()
    with pytest.raises(IntegrityError):
        north.send(requests(sealed.digest, pieces(north.block)[:4]))
    asked = len(coordinator.named("GetRelease"))
    hub = start_hub()
    north = Party(dial(hub.party_port, world.parties["north"]), sealed, "north")
    coordinator.wait(lambda: len(coordinator.named("GetRelease")) > asked)  # the first round looked at what is staged
    assert north.open() == 400
    assert north.upload() == sealed.identities["north"].sha256
    coordinator.wait(lambda: bool(coordinator.named("ReportPublication")))


@pytest.mark.parametrize("away", ["ReportIntake", "AuthorizePublication", "ReportPublication"])
def test_a_restart_while_the_coordinator_is_away(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed, away: str
) -> None:
    coordinator.offer(sealed)
    coordinator.away = {away}
    hub = start_hub()
    for name in PARTIES:
        Party(dial(hub.party_port, world.parties[name]), sealed, name).upload()
    coordinator.wait(lambda: coordinator.attempts.count(away) >= 3)  # it keeps trying
    assert len(Public(dial(hub.public_port)).list().releases) == (away == "ReportPublication")
    hub = start_hub()
    coordinator.away = set()
    coordinator.wait(lambda: bool(coordinator.named("ReportPublication")))
    data, _ = Public(dial(hub.public_port)).manifest(bytes.fromhex(sealed.digest))
    assert coordinator.named("ReportPublication")[-1] == (sealed.digest, sha256(data))


def test_a_cancelled_release_is_not_published(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed, tmp_path: Path
) -> None:
    coordinator.offer(sealed)
    hub = start_hub()
    Party(dial(hub.party_port, world.parties["north"]), sealed, "north").upload()
    coordinator.wait(lambda: bool(coordinator.named("ReportIntake")))
    coordinator.offer(sealed, release_pb2.RELEASE_STATE_CANCELLED)
    south = Party(dial(hub.party_port, world.parties["south"]), sealed, "south")
    south.upload()
    eventually(lambda: not list((tmp_path / "storage" / "staging").iterdir()))
    assert len(Public(dial(hub.public_port)).list().releases) == 0
    assert coordinator.named("AuthorizePublication") == []
    with pytest.raises(Conflict):
        Party(dial(hub.party_port, world.parties["south"]), sealed, "south").open()


def test_an_upload_that_stands_still_is_cut_and_does_not_keep_others_out(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed
) -> None:
    coordinator.offer(sealed)
    hub = start_hub(limits={"stall_seconds": 0.2, "stop_seconds": 0.0})
    party = Party(dial(hub.party_port, world.parties["north"]), sealed, "north")
    party.open()
    over = threading.Event()

    def stuck() -> Iterator[Any]:
        yield next(requests(sealed.digest, pieces(party.block)))
        over.wait(PATIENCE_SECONDS)

    with pytest.raises(PeerUnavailable):
        party.send(stuck())
    over.set()
    assert party.open() == 100
    assert party.upload() == sealed.identities["north"].sha256


def test_the_public_lists_newest_first_in_pages(
    publish: Callable[..., tuple[Hub, Public]], world: World, sealed: Sealed
) -> None:
    releases = [sealed, *(world.sealed(f"release {number}") for number in range(4))]
    _, public = publish(*releases)
    whole = public.list()
    assert {line.spec_digest.hex() for line in whole.releases} == {each.digest for each in releases}
    order = [(line.published, line.spec_digest.hex()) for line in whole.releases]
    assert order == sorted(order, reverse=True)
    assert whole.next_page_token == ""
    paged, token = [], ""
    for expected in (2, 2, 1):
        page = public.list(2, token)
        assert len(page.releases) == expected
        paged += list(page.releases)
        token = page.next_page_token
    assert token == ""
    assert paged == list(whole.releases)
    line = next(line for line in whole.releases if line.spec_digest.hex() == sealed.digest)
    assert (line.title, line.rows, line.columns) == (sealed.spec.title, sealed.spec.rows, 3)
    assert line.size == sum(map(len, sealed.blocks.values()))


def test_the_public_is_refused_nothing_but_wrong_input(
    publish: Callable[..., tuple[Hub, Public]], sealed: Sealed
) -> None:
    """`tests/hostile/hub/test_callers.py` has more of it."""
    _, public = publish(sealed)
    digest = bytes.fromhex(sealed.digest)
    assert public.manifest(digest[:4]) == public.manifest(digest)
    block = sealed.blocks["north"]
    assert b"".join(piece.data for piece in public.download(digest, "north", 100)) == block[100:]
    assert public.download(digest, "north", len(block)) == []
    wrong: list[tuple[type[DpReleaseError], Callable[[], object]]] = [
        (InvalidInput, lambda: public.manifest(digest + b"\0")),
        (NotFound, lambda: public.manifest(bytes(4))),
        (NotFound, lambda: public.download(digest[:4], "north")),
        (NotFound, lambda: public.download(digest, "")),
        (InvalidInput, lambda: public.download(digest, "north", len(block) + 1)),
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()


def test_a_long_block_comes_in_chunks_of_one_mebibyte(publish: Callable[..., tuple[Hub, Public]], world: World) -> None:
    long = world.sealed("many rows", mechanism="rows", rows=40_000, delta=1e-6)
    _, public = publish(long)
    chunks = public.download(bytes.fromhex(long.digest), "north", 5)
    assert [len(each.data) for each in chunks[:-1]] == [1 << 20] * (len(chunks) - 1)
    assert len(chunks) > 1
    assert b"".join(each.data for each in chunks) == long.blocks["north"][5:]


def test_health_is_tied_to_the_storage(start_hub: Start, dial: Dial, world: World, tmp_path: Path) -> None:
    hub = start_hub()
    member: Member | None
    for port, member in ((hub.public_port, None), (hub.party_port, world.parties["north"])):
        stub = health_pb2_grpc.HealthStub(dial(port, member))
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS).status == 1
    probe = tmp_path / "storage" / "probe"
    probe.unlink()
    probe.mkdir()  # nothing can be written there any more
    stub = health_pb2_grpc.HealthStub(dial(hub.public_port))
    assert stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS).status == 2
    probe.rmdir()
    assert stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS).status == 1


def test_a_hub_that_cannot_start_says_why_and_leaves_nothing_behind(
    world: World, start_hub: Start, coordinator: FakeCoordinator, tmp_path: Path
) -> None:
    hub = start_hub()
    with (
        pytest.raises(InvalidInput, match="another hub"),
        Hub(world.settings(tmp_path / "storage", coordinator.address)),
    ):
        pass
    elsewhere = world.settings(
        tmp_path / "elsewhere", coordinator.address, listen_public=f"localhost:{hub.public_port}"
    )
    for _ in range(2):  # the second attempt finds storage and first port free again
        with pytest.raises(InvalidInput, match="cannot listen"), Hub(elsewhere):
            pass


def test_the_hubs_own_files_are_checked(world: World, tmp_path: Path) -> None:
    good = world.settings(tmp_path, "localhost:1")
    assert read_signer(good, datetime.now(UTC)).key.private_numbers() == world.hub.key.private_numbers()
    for change, error in (
        ({"key": world.folder / "coordinator.key"}, InvalidInput),
        ({"certificate": world.folder / "coordinator.pem"}, IntegrityError),
        ({"certificate": tmp_path / "none.pem"}, InvalidInput),
        ({"root": world.folder / "hub.pem"}, IntegrityError),
        ({"root": world.folder / "hub.key"}, InvalidInput),
    ):
        with pytest.raises(error):
            read_signer(good.model_copy(update=change), datetime.now(UTC))


def test_the_hub_never_shows_its_calls_to_a_coordinator_of_another_consortium(
    start_hub: Start, dial: Dial, world: World, sealed: Sealed
) -> None:
    root = mint("trial", None)
    false = FakeCoordinator()
    false.offer(sealed)
    member = mint("coordinator", "coordinator", root)
    credentials = world.credentials(member)
    listener = false.serve(type(credentials)(root.certificate.encode(), credentials.certificate, credentials.key))
    try:
        hub = start_hub(coordinator=f"localhost:{listener.port}")
        with pytest.raises(PeerUnavailable):
            Party(dial(hub.party_port, world.parties["north"]), sealed, "north").open()
        assert false.attempts == []
    finally:
        listener.stop()
