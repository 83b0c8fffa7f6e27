"""A consortium with real certificates for real TLS, honest blocks, and a tiny coordinator that records what it is told."""

import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dprelease.canonical import sha256
from dprelease.data.columns import Column
from dprelease.errors import Conflict, NotFound, PeerUnavailable
from dprelease.release.approval import SignedApproval, approve
from dprelease.release.block import BlockHeader, SealedBlock
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import BlockEntry, sealed_block
from dprelease.release.spec import BlockKey, ReleaseSpec
from dprelease.wire.call import caller
from dprelease.wire.chunks import check_chunk
from dprelease.wire.listener import Listener, listen
from dprelease.wire.news import News
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import coordination_pb2_grpc, intake_pb2, release_pb2
from learner.client.library import Opened, open_verified
from learner.client.pinned_roots import TrustStore
from learner.hub.approved import ApprovedRelease, checked_record
from learner.hub.publish import Signer, prepare
from learner.hub.settings import HubSettings
from learner.hub.storage import Storage
from tests.support.certificates import Member, mint
from tests.support.noise import SeededNoise
from tests.support.specs import TWO_PARTIES, build_spec, private_blocks

CONSORTIUM = "trial"
PARTIES = ("north", "south")
PATIENCE_SECONDS = 60.0
"""How long a test waits for something that must happen. It is never slept away: waiting ends with the event."""


@dataclass(frozen=True)
class Sealed:
    """An approved release with every party's honest block."""

    spec: ReleaseSpec
    blocks: Mapping[str, bytes]
    identities: Mapping[str, SealedBlock]
    approvals: tuple[SignedApproval, ...]

    @property
    def digest(self) -> str:
        return self.spec.digest()

    def key(self, party: str, sequence: int = 0) -> BlockKey:
        return BlockKey(self.digest, party, sequence)


class World:
    """A consortium: root, hub, coordinator, two parties or those whose columns are given."""

    def __init__(self, folder: Path, columns: Mapping[str, tuple[Column, ...]] = TWO_PARTIES) -> None:
        self.folder = folder
        self.columns = columns
        self.root = mint(CONSORTIUM, None)
        self.hub = mint("hub", "hub", self.root)
        self.coordinator = mint("coordinator", "coordinator", self.root)
        self.parties = {name: mint(name, "party", self.root) for name in columns}
        for member in (self.hub, self.coordinator, self.root):
            (folder / f"{member.name}.pem").write_text(member.certificate)
            key = folder / f"{member.name}.key"
            key.write_bytes(member.key_pem)
            key.chmod(0o600)

    @property
    def root_path(self) -> Path:
        return self.folder / f"{CONSORTIUM}.pem"

    def credentials(self, member: Member | None) -> Credentials:
        root = self.root.certificate
        return Credentials(root.encode()) if member is None else member.credentials(root)

    def settings(self, storage: Path, coordinator: str, **more: Any) -> HubSettings:
        return HubSettings.model_validate(
            {
                "consortium": CONSORTIUM,
                "storage": storage,
                "listen_parties": "localhost:0",
                "listen_public": "localhost:0",
                "coordinator": coordinator,
                "root": self.root_path,
                "certificate": self.folder / "hub.pem",
                "key": self.folder / "hub.key",
                "limits": {"stop_seconds": 0.0},
                **more,
            }
        )

    def sealed(self, title: str = "a test release", *, noise_seed: int = 7, **spec: Any) -> Sealed:
        """A release made the honest way: real privatisation with seeded noise, real signatures."""
        keys = {name: member.fingerprint for name, member in self.parties.items()}
        made = build_spec(self.columns, keys=keys, title=title, **spec)
        blocks = private_blocks(made, SeededNoise(noise_seed))
        return Sealed(
            made,
            blocks,
            {name: self.seal(name, made, block) for name, block in blocks.items()},
            tuple(self.approval(name, made) for name in blocks),
        )

    def seal(self, party: str, spec: ReleaseSpec, block: bytes, sequence: int = 0) -> SealedBlock:
        header = BlockHeader(spec=spec.digest(), party=party, sequence=sequence, rows=1, columns=1)
        return sealed_block(self.parties[party].key, header, block)

    def approval(self, party: str, spec: ReleaseSpec) -> SignedApproval:
        member = self.parties[party]
        return approve(spec, party, sha256(b"commitment"), member.key, member.certificate, datetime.now(UTC))

    def record(self, sealed: Sealed) -> ApprovedRelease:
        approvals = [signed.to_bytes() for signed in sealed.approvals]
        return checked_record(sealed.digest, sealed.spec.to_bytes(), approvals, CONSORTIUM, self.root.certificate)


def pieces(data: bytes, size: int = 100, start: int = 0) -> list[release_pb2.Chunk]:
    """Small chunks, so that a small block has many."""
    return [chunk(data[at : at + size], at) for at in range(start, len(data), size)]


def chunk(data: bytes, offset: int, crc: int | None = None) -> release_pb2.Chunk:
    return release_pb2.Chunk(offset=offset, data=data, crc32=zlib.crc32(data) if crc is None else crc)


class FakeCoordinator(coordination_pb2_grpc.CoordinationServiceServicer):
    """Knows releases, writes down every call, and may be told to be away or to refuse.

    Attributes:
        records: digest to what GetRelease answers.
        calls: name of each call that was answered, with its digest and what it carried.
        away: names of calls that find nobody here.
        refused: names of calls that are refused with a conflict.
        revoked: fingerprints of revoked keys.
        renews: signing request to the certificate that the hub is given; None while it is not asked for.
    """

    address = ""

    def __init__(self) -> None:
        self.records: dict[str, release_pb2.AgreementRecord] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.away: set[str] = set()
        self.refused: set[str] = set()
        self.revoked: set[str] = set()
        self.looks = 0
        self.renews: Callable[[str], str] | None = None
        self.attempts: list[str] = []
        self.news = News()
        self._changed = threading.Condition()

    def offer(self, sealed: Sealed, state: int = release_pb2.RELEASE_STATE_APPROVED) -> None:
        self.records[sealed.digest] = release_pb2.AgreementRecord(
            proposal=sealed.spec.to_bytes(), state=state, consents=[signed.to_bytes() for signed in sealed.approvals]
        )

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until something that a call changed has come about."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_SECONDS), (self.calls, self.attempts)

    def _note(self, context: Any, name: str, digest: bytes, *carried: Any) -> None:
        assert caller(context, "hub").name == "hub"
        with self._changed:
            self.attempts.append(name)
            self._changed.notify_all()
            if name in self.away:
                raise PeerUnavailable("away")
            if name in self.refused:
                raise Conflict("refused")
            self.calls.append((name, digest.hex(), *carried))

    def GetRelease(self, request: Any, context: Any) -> Any:
        self._note(context, "GetRelease", request.digest)
        if request.digest.hex() not in self.records:
            raise NotFound("no such release")
        return pb.GetAgreementResponse(agreement=self.records[request.digest.hex()])

    def ReportIntake(self, request: Any, context: Any) -> Any:
        self._note(context, "ReportIntake", request.spec_digest, tuple(request.received))
        return pb.ReportIntakeResponse()

    def AuthorizePublication(self, request: Any, context: Any) -> Any:
        self._note(context, "AuthorizePublication", request.spec_digest)
        return pb.AuthorizePublicationResponse()

    def ReportPublication(self, request: Any, context: Any) -> Any:
        self._note(context, "ReportPublication", request.spec_digest, request.manifest_digest.hex())
        return pb.ReportPublicationResponse()

    def ListRevoked(self, request: Any, context: Any) -> Any:
        assert caller(context, "hub").name == "hub"
        with self._changed:
            self.looks += 1
            self._changed.notify_all()
            if "ListRevoked" in self.away:
                raise PeerUnavailable("away")
        return pb.ListRevokedResponse(keys=map(bytes.fromhex, self.revoked))

    def RenewCertificate(self, request: Any, context: Any) -> Any:
        self._note(context, "RenewCertificate", b"", context.certificate.decode())
        assert self.renews is not None
        return pb.RenewCertificateResponse(certificate=self.renews(request.signing_request))

    async def AwaitNews(self, request: Any, context: Any) -> Any:
        name = caller(context, "hub").name
        return release_pb2.AwaitNewsResponse(latest=await self.news.after(name, request.seen))

    def serve(self, credentials: Credentials) -> Listener:
        return listen(
            "localhost:0",
            credentials,
            [lambda server: coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(self, server)],
            mutual=True,
            workers=4,
        )


class FolderSource:
    """A hub without a network: serves a release folder, and does what a test tells it to every chunk.

    Attributes:
        blocks: bytes by the name of their file, e.g. ``north.0``.
        served: (party, offset) of every download that was begun.
    """

    def __init__(
        self,
        manifest: bytes,
        signature: str,
        blocks: Mapping[str, bytes],
        on_chunk: Callable[[release_pb2.Chunk], release_pb2.Chunk] = lambda piece: piece,
    ) -> None:
        self._manifest, self._signature, self._blocks, self._on_chunk = manifest, signature, blocks, on_chunk
        self.served: list[tuple[str, int]] = []

    def manifest(self, prefix: str) -> tuple[bytes, str]:
        return self._manifest, self._signature

    def block(self, key: BlockKey, offset: int, size: int) -> Iterator[bytes]:
        self.served.append((key.party, offset))
        for piece in pieces(self._blocks[f"{key.party}.{key.sequence}"], start=offset):
            data = check_chunk(self._on_chunk(piece), offset, size)
            offset += len(data)
            yield data


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does to files; ends as soon as it has."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def requests(digest: str, chunks: Iterable[release_pb2.Chunk]) -> Iterator[Any]:
    for piece in chunks:
        yield intake_pb2.SendBlockRequest(spec_digest=bytes.fromhex(digest), chunk=piece)


def fill(storage: Storage, world: World, sealed: Sealed, *parties: str) -> None:
    """Put complete blocks into the staging area, as an intake would."""
    storage.keep_record(world.record(sealed))
    for party in parties or sealed.blocks:
        certificate = world.parties[party].certificate
        storage.keep_entry(BlockEntry(sealed=sealed.identities[party], certificate=certificate))
        storage.put(sealed.key(party), 0, sealed.blocks[party])
        storage.complete(sealed.key(party))


def stored(root: Path, world: World, *releases: Sealed) -> ReleaseFolder:
    """Publish releases in a storage, which is closed again; the folder of the last one."""
    with closing(Storage(root, 1 << 30)) as storage:
        return [publish_to(storage, world, sealed) for sealed in releases][-1]


def verified(folder: ReleaseFolder, world: World, home: Path) -> Opened:
    """A release as somebody opens it who trusts the consortium."""
    trust = TrustStore(home)
    trust.add(CONSORTIUM, world.root.certificate, "h:1")
    return open_verified(folder, trust)


def publish_to(storage: Storage, world: World, sealed: Sealed, now: datetime | None = None) -> ReleaseFolder:
    """A published release in the storage, without any network."""
    fill(storage, world, sealed)
    signer = Signer(world.hub.key, world.hub.certificate, world.root.certificate)
    prepare(storage, world.record(sealed), signer, now or datetime.now(UTC))
    storage.reveal(sealed.digest)
    storage.drop(sealed.digest)
    published = storage.published(sealed.digest)
    assert published is not None
    return published
