"""The relay in a whole hub: real listeners, real certificates, streams that stand still or whose sender is revoked."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from dprelease.errors import (
    AccessDenied,
    Conflict,
    DpReleaseError,
    IntegrityError,
    InvalidInput,
    NotFound,
    PeerUnavailable,
    VersionMismatch,
)
from dprelease.mpc.messages import Message
from dprelease.mpc.modulus import P
from dprelease.release.block import expected_header
from dprelease.release.verification import verify_release
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.chunks import CHUNK_BYTES
from dprelease.wire.limits import OpenStreams
from dprelease.wire.news import News
from dprelease.wire.v1 import relay_pb2, relay_pb2_grpc, release_pb2
from learner.hub.publish import Signer
from learner.hub.revocation import Revocations
from learner.hub.service import RelayServicer
from learner.hub.storage import Storage
from tests.learner.parcels import Hospitals, messages
from tests.learner.test_hub import Dial, Party, Public, Start
from tests.learner.test_publish import Office, step
from tests.learner.world import PATIENCE_SECONDS, FakeCoordinator, Sealed, World, chunk, eventually, pieces
from tests.support.certificates import mint

QUICKLY = {"limits": {"stop_seconds": 0.0, "revocation_seconds": 0.02, "sweep_seconds": 0.02}}


@pytest.fixture(scope="session")
def world(trio: World) -> World:
    return trio


@pytest.fixture(scope="session")
def sealed(joint: Sealed) -> Sealed:
    return joint


class Caller:
    def __init__(self, channel: grpc.Channel, release: str) -> None:
        self.stub = relay_pb2_grpc.RelayServiceStub(channel)
        self.release = bytes.fromhex(release)

    def open(self, data: bytes) -> int:
        request = relay_pb2.OpenParcelRequest(parcel=data)
        with translated("the hub"):
            return self.stub.OpenParcel(request, timeout=PATIENCE_SECONDS, metadata=VERSION).offset

    def send(self, stream: Iterator[Any]) -> str:
        with translated("the hub"):
            return self.stub.SendParcel(stream, timeout=PATIENCE_SECONDS, metadata=VERSION).digest.hex()

    def listed(self, after: int = 0) -> list[Message]:
        request = relay_pb2.ListParcelsRequest(spec_digest=self.release, after=after)
        with translated("the hub"):
            answer = self.stub.ListParcels(request, timeout=PATIENCE_SECONDS, metadata=VERSION)
        return [Message.from_bytes(data) for data in answer.parcels]

    def fetch(self, digest: str | bytes, offset: int = 0) -> list[release_pb2.Chunk]:
        name = bytes.fromhex(digest) if isinstance(digest, str) else digest
        request = relay_pb2.FetchParcelRequest(spec_digest=self.release, header_digest=name, offset=offset)
        with translated("the hub"):
            return [each.chunk for each in self.stub.FetchParcel(request, timeout=PATIENCE_SECONDS, metadata=VERSION)]


Callers = dict[str, Caller]


@pytest.fixture
def make(world: World, sealed: Sealed) -> Hospitals:
    return Hospitals(world, sealed)


@pytest.fixture
def enter(start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator) -> Callable[..., Callers]:
    """All hospitals on a hub that knows a release."""

    def start(release: Sealed, **settings: Any) -> Callers:
        coordinator.offer(release)
        hub = start_hub(**settings)
        return {name: Caller(dial(hub.party_port, member), release.digest) for name, member in world.parties.items()}

    return start


def bring(callers: Callers, make: Hospitals, *parcels: Message) -> None:
    for parcel in parcels:
        caller = callers[parcel.header.sender]
        held = caller.open(parcel.to_bytes())
        if held < parcel.header.size:
            assert caller.send(messages(parcel, pieces(make.body(parcel), start=held))) == parcel.header.sha256


def test_a_session_and_its_publication(
    enter: Callable[..., Callers],
    start_hub: Start,
    dial: Dial,
    make: Hospitals,
    world: World,
    coordinator: FakeCoordinator,
    sealed: Sealed,
    tmp_path: Path,
) -> None:
    enter(sealed)
    hub = start_hub()
    callers = {name: Caller(dial(hub.party_port, member), sealed.digest) for name, member in world.parties.items()}
    everything = list(make.everything())
    bring(callers, make, *everything)
    for name, caller in callers.items():
        assert caller.listed() == make.concerning(name, everything) != everything
        for parcel in everything:
            if name in parcel.header.receivers:
                got = b"".join(each.data for each in caller.fetch(parcel.header.digest()))
                assert got == make.body(parcel)
    for name, member in world.parties.items():
        Party(dial(hub.party_port, member), sealed, name).upload()
    coordinator.wait(lambda: bool(coordinator.named("ReportPublication")))
    eventually(lambda: not list((tmp_path / "storage" / "staging").iterdir()))
    with pytest.raises(Conflict):
        callers["north"].listed()
    data, signature = Public(dial(hub.public_port)).manifest(bytes.fromhex(sealed.digest))
    release = verify_release(data, signature, lambda block: sealed.blocks[block.party], world.root.certificate)
    assert release.moments().rows == sealed.spec.rows


def test_a_long_body_comes_in_chunks_of_one_mebibyte(
    enter: Callable[..., Callers], world: World, make: Hospitals
) -> None:
    long = world.sealed("many rows", mechanism="moments", rows=40_000)
    make = Hospitals(world, long)
    callers = enter(long)
    bring(callers, make, *(make.offer(party) for party in callers))
    parcel = make.columns("north", "west")
    body = make.body(parcel)
    assert len(body) > CHUNK_BYTES
    north = callers["north"]
    assert north.open(parcel.to_bytes()) == 0
    assert north.send(messages(parcel, pieces(body, CHUNK_BYTES))) == parcel.header.sha256
    chunks = callers["south"].fetch(parcel.header.digest(), 5)
    assert [len(each.data) for each in chunks[:-1]] == [CHUNK_BYTES] * (len(chunks) - 1)
    assert b"".join(each.data for each in chunks) == body[5:]


def test_a_restart_in_the_middle_of_a_session(enter: Callable[..., Callers], make: Hospitals, sealed: Sealed) -> None:
    callers = enter(sealed)
    everything = list(make.everything())
    bring(callers, make, *everything[:7])
    columns = make.columns("north", "west")
    north = callers["north"]
    north.open(columns.to_bytes())
    with pytest.raises(IntegrityError):
        north.send(messages(columns, pieces(make.body(columns))[:4]))
    callers = enter(sealed)
    assert callers["south"].listed() == make.concerning("south", everything[:7])
    assert callers["north"].open(columns.to_bytes()) == 400
    bring(callers, make, *everything)
    concerning = make.concerning("west", everything)
    assert {each.header for each in callers["west"].listed()} == {each.header for each in concerning}


def test_malformed_messages_get_one_clear_status_and_change_nothing(
    enter: Callable[..., Callers], make: Hospitals, sealed: Sealed
) -> None:
    """Of another form than a parcel's stream; `tests/hostile/hub/test_parcels.py` has parcels that are wrong in themselves."""
    callers = enter(sealed)
    bring(callers, make, *(make.offer(party) for party in callers))
    parcel = make.columns("north", "west")
    north = callers["north"]
    assert north.open(parcel.to_bytes()) == 0
    good = pieces(make.body(parcel))
    first = next(messages(parcel, good))
    release, header = first.spec_digest, first.header_digest
    request = relay_pb2.SendParcelRequest
    hostile: list[tuple[type[DpReleaseError], list[Any]]] = [
        (InvalidInput, []),
        (InvalidInput, [request(chunk=good[0])]),
        (InvalidInput, [request(spec_digest=release, chunk=good[0])]),
        (InvalidInput, [request(header_digest=header, chunk=good[0])]),
        (InvalidInput, [request(spec_digest=b"../..", header_digest=header, chunk=good[0])]),
        (InvalidInput, [first, request(spec_digest=bytes(32), chunk=good[1])]),
        (InvalidInput, [first, request(header_digest=bytes(32), chunk=good[1])]),
        (NotFound, [request(spec_digest=bytes(32), header_digest=header, chunk=good[0])]),
        (Conflict, [request(spec_digest=release, header_digest=bytes(32), chunk=good[0])]),
        (IntegrityError, [first, first]),
        (IntegrityError, [request(spec_digest=release, header_digest=header, chunk=chunk(b"x", 1 << 63))]),
        (IntegrityError, [request(spec_digest=release, header_digest=header)]),
    ]
    for error, stream in hostile:
        with pytest.raises(error) as caught:
            north.send(iter(stream))
        assert "north" not in caught.value.message  # the table's sentence, nothing else
    for digest in (b"", b"\xff"):
        with pytest.raises(NotFound):
            north.fetch(digest)
    bring(callers, make, parcel)
    assert callers["south"].fetch(parcel.header.digest(), parcel.header.size) == []


def test_only_parties_with_a_certificate_and_our_version_reach_the_relay(
    enter: Callable[..., Callers], start_hub: Start, dial: Dial, world: World, make: Hospitals, sealed: Sealed
) -> None:
    enter(sealed)
    hub = start_hub()
    offer = make.offer("north").to_bytes()
    with pytest.raises(PeerUnavailable):
        Caller(dial(hub.party_port), sealed.digest).listed()
    with pytest.raises(VersionMismatch):
        Caller(dial(hub.public_port), sealed.digest).listed()
    roles = [mint("north", role, world.root, key=world.parties["north"].key) for role in ("hub", "coordinator")]
    for other in [Caller(dial(hub.party_port, member), sealed.digest) for member in roles]:
        with pytest.raises(AccessDenied):
            other.open(offer)
        with pytest.raises(AccessDenied):
            other.listed()
        with pytest.raises(AccessDenied):
            other.fetch(bytes(32))
        with pytest.raises(AccessDenied):
            other.send(iter(()))
    north = Caller(dial(hub.party_port, world.parties["north"]), sealed.digest)
    with pytest.raises(VersionMismatch), translated("the hub"):
        north.stub.ListParcels(relay_pb2.ListParcelsRequest(), timeout=PATIENCE_SECONDS)


def test_an_upload_that_stands_still_is_cut(enter: Callable[..., Callers], make: Hospitals, sealed: Sealed) -> None:
    callers = enter(sealed, limits={"stall_seconds": 0.2, "stop_seconds": 0.0})
    bring(callers, make, *(make.offer(party) for party in callers))
    parcel = make.columns("north", "west")
    over = threading.Event()

    def stuck() -> Iterator[Any]:
        yield next(messages(parcel, pieces(make.body(parcel))))
        over.wait(PATIENCE_SECONDS)

    callers["north"].open(parcel.to_bytes())
    with pytest.raises(PeerUnavailable):
        callers["north"].send(stuck())
    over.set()
    assert callers["north"].open(parcel.to_bytes()) == 100
    bring(callers, make, parcel)


def test_a_revoked_party_is_cut_off(
    enter: Callable[..., Callers], make: Hospitals, sealed: Sealed, coordinator: FakeCoordinator, world: World
) -> None:
    callers = enter(sealed, **QUICKLY)
    bring(callers, make, *(make.offer(party) for party in callers))
    parcel, other = make.columns("north", "west"), make.columns("south", "west")
    bring(callers, make, other)
    taken, over = threading.Event(), threading.Event()
    outcome: list[DpReleaseError] = []

    def halting() -> Iterator[Any]:
        stream = messages(parcel, pieces(make.body(parcel)))
        yield next(stream)
        taken.set()
        over.wait(PATIENCE_SECONDS)

    def upload() -> None:
        try:
            callers["north"].send(halting())
        except DpReleaseError as error:
            outcome.append(error)

    callers["north"].open(parcel.to_bytes())
    thread = threading.Thread(target=upload)
    thread.start()
    assert taken.wait(PATIENCE_SECONDS)
    coordinator.revoked.add(world.parties["north"].identity.fingerprint)
    thread.join(PATIENCE_SECONDS)
    over.set()
    assert [type(error) for error in outcome] == [AccessDenied]
    north = callers["north"]
    for call in (north.listed, lambda: north.open(parcel.to_bytes()), lambda: north.fetch(other.header.digest())):
        with pytest.raises(AccessDenied):
            call()
    assert len(callers["south"].listed()) == 4


def test_nobody_enters_a_session_while_it_is_unknown_who_is_revoked(
    enter: Callable[..., Callers], make: Hospitals, sealed: Sealed, coordinator: FakeCoordinator
) -> None:
    coordinator.away = {"ListRevoked"}
    callers = enter(sealed)
    with pytest.raises(PeerUnavailable):
        callers["north"].open(make.offer("north").to_bytes())
    coordinator.away = set()
    bring(callers, make, make.offer("north"))


class NorthsCall:
    """A call of the north's that notes why it is ended."""

    def __init__(self, world: World) -> None:
        self.reasons: list[Exception] = []
        self.certificate = world.parties["north"].certificate.encode()
        self.end = self.reasons.append

    async def work(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(function, *args, **options)


RARELY = {"limits": {"stop_seconds": 0.0, "revocation_seconds": 3600.0}}


def test_a_revoked_party_enters_no_session_on_the_call_that_finds_out(
    enter: Callable[..., Callers], make: Hospitals, world: World, sealed: Sealed, coordinator: FakeCoordinator
) -> None:
    callers = enter(sealed, **RARELY)
    bring(callers, make, make.offer("south"))
    coordinator.revoked.add(world.parties["north"].identity.fingerprint)
    with pytest.raises(AccessDenied):
        bring(callers, make, make.offer("north"))
    assert [message.header.sender for message in callers["south"].listed()] == ["south"]


class LongBody:
    """A relay with one parcel of 3 MiB."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "body"
        self._file.write_bytes(bytes(3 << 20))

    def body(self, *_: Any) -> Path:
        return self._file


def test_a_download_of_a_revoked_party_is_cut(tmp_path: Path, world: World) -> None:
    revoked: set[str] = set()
    revocations = Revocations(lambda: frozenset(revoked), lambda: datetime.now(UTC), lambda: None)
    call = NorthsCall(world)
    servicer = RelayServicer(LongBody(tmp_path), revocations, OpenStreams(1, 1), News())  # type: ignore[arg-type]

    async def download() -> None:
        async with aclosing(servicer.FetchParcel(relay_pb2.FetchParcelRequest(), call)) as answers:
            first = relay_pb2.FetchParcelResponse.FromString(await anext(answers))
            assert len(first.chunk.data) == CHUNK_BYTES
            revocations.refresh()
            assert call.reasons == []
            revoked.add(world.parties["north"].identity.fingerprint)
            revocations.refresh()
            (reason,) = call.reasons
            assert isinstance(reason, AccessDenied)
        with pytest.raises(AccessDenied):
            await anext(servicer.FetchParcel(relay_pb2.FetchParcelRequest(), call))

    asyncio.run(download())


def test_a_release_that_ends_without_any_block_is_dropped(
    enter: Callable[..., Callers], make: Hospitals, sealed: Sealed, coordinator: FakeCoordinator, tmp_path: Path
) -> None:
    callers = enter(sealed, **QUICKLY)
    bring(callers, make, *make.everything())
    assert list((tmp_path / "storage" / "staging").rglob("*.body"))
    coordinator.offer(sealed, release_pb2.RELEASE_STATE_EXPIRED)
    eventually(lambda: not list((tmp_path / "storage" / "staging").iterdir()))
    with pytest.raises(Conflict):
        callers["north"].open(make.offer("north").to_bytes())
    assert coordinator.named("ReportIntake") == []


def test_parcels_that_came_as_the_release_ended_are_dropped_too(
    storage: Storage, signer: Signer, sealed: Sealed, tmp_path: Path
) -> None:
    left = storage.parcels(sealed.digest) / "1"
    left.mkdir(parents=True)  # a call that was under way put its folder back; there is no record any more
    office = Office()
    office.ended = {sealed.digest}
    assert step(storage, office, signer, sealed)
    assert storage.staged() == ()


def garbage(sealed: Sealed, party: str) -> bytes:
    """A block of the right shape in which nothing fits the others."""
    header = expected_header(sealed.spec, party).to_bytes()
    block = sealed.blocks[party]
    start = block.index(header) + len(header)
    words = np.random.default_rng(5).integers(0, P, (len(block) - start) // 8, np.uint64)
    return block[:start] + words.astype("<u8").tobytes()
