"""A founded consortium with a running coordinator, and everybody who calls it over real TLS."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import Any

import grpc

from coordinator.authority.authority import Authority
from coordinator.proposals.proposals import create
from coordinator.service import enrolment
from coordinator.service.server import Server
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.identity.certificates import signing_request
from dprelease.identity.invite import Invite
from dprelease.identity.signing import PrivateKey, new_private_key, private_key_pem
from dprelease.release.approval import SignedApproval, approve
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.coordination_pb2_grpc import CoordinationServiceStub
from dprelease.wire.v1.enrolment_pb2 import EnrolRequest, EnrolResponse
from dprelease.wire.v1.enrolment_pb2_grpc import EnrolmentServiceStub
from tests.coordinator.office import RUN_TIME, Clock, catalogue, request

SECONDS = 20.0
Stub = CoordinationServiceStub
THIRD = Fraction(1, 3)


@dataclass
class World:
    """A founded consortium, its running server, and everybody's keys.

    Real time decides in TLS, so the clock starts at the present.
    """

    settings: CoordinatorSettings
    clock: Clock
    hub: Credentials
    server: Server | None = None
    keys: dict[str, PrivateKey] = field(default_factory=dict)
    certificates: dict[str, str] = field(default_factory=dict)
    opened: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        self.server = Server(self.settings, self.clock)

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def store(self) -> Store:
        """A second connection to the same database, as the commands use it."""
        return self.opened.enter_context(closing(Store.open(self.settings.database)))

    @property
    def authority(self) -> Authority:
        return Authority.load(self.settings.root, self.settings.authority_key)

    @property
    def root(self) -> bytes:
        return self.settings.root.read_bytes()

    def channel(self, credentials: Credentials, *, enrolment_port: bool = False) -> grpc.Channel:
        assert self.server is not None
        port = self.server.enrolment_port if enrolment_port else self.server.port
        return self.opened.enter_context(connect(f"localhost:{port}", credentials))

    def invite(self, party: str, hours: float = 1.0) -> Invite:
        store = self.store()
        cap = store.consortium.mu2 * THIRD
        return enrolment.invite(store, self.settings, self.root, party, cap, self.clock(), timedelta(hours=hours))

    def enrol(self, secret: str, request_pem: bytes) -> EnrolResponse:
        stub = EnrolmentServiceStub(self.channel(Credentials(self.root), enrolment_port=True))
        with translated("the coordinator"):
            message = EnrolRequest(secret=secret, signing_request=request_pem.decode())
            return stub.Enrol(message, timeout=SECONDS, metadata=VERSION)

    def join(self, party: str) -> CoordinationServiceStub:
        """Enrol a party over the wire and connect as it."""
        key = new_private_key()
        self.keys[party] = key
        self.certificates[party] = self.enrol(self.invite(party).secret, signing_request(party, key)).certificate
        return self.as_party(party)

    def as_party(self, party: str) -> CoordinationServiceStub:
        return CoordinationServiceStub(self.channel(self.credentials(party)))

    def credentials(self, party: str) -> Credentials:
        return Credentials(self.root, self.certificates[party].encode(), private_key_pem(self.keys[party]))

    def as_hub(self) -> CoordinationServiceStub:
        return CoordinationServiceStub(self.channel(self.hub))

    def propose(self, **changed: object) -> bytes:
        """Propose as the command does, and return the digest."""
        return bytes.fromhex(create(self.store(), request(**changed), RUN_TIME, self.clock()).release.digest)

    def spec(self, digest: bytes) -> ReleaseSpec:
        with self.store().reading() as tx:
            return tx.releases.get(digest.hex()).read_spec()

    def signed(self, digest: bytes, party: str) -> bytes:
        return self.approval(self.spec(digest), party).to_bytes()

    def approval(self, spec: ReleaseSpec, party: str, commitment: str = "ab" * 32) -> SignedApproval:
        return approve(spec, party, commitment, self.keys[party], self.certificates[party], self.clock())


def ask(method: Callable[..., Any], message: object) -> Any:
    """One call as every client makes it; all answers of one that has several."""
    with translated("the coordinator"):
        answer = method(message, timeout=SECONDS, metadata=VERSION)
        return list(answer) if isinstance(answer, Iterator) else answer


def report(stub: CoordinationServiceStub, party: str, **changed: object) -> None:
    ask(stub.ReportCatalogue, pb.ReportCatalogueRequest(catalogue=catalogue(party, **changed).to_bytes()))


def listed(stub: CoordinationServiceStub) -> list[tuple[bytes, int]]:
    """Digest and state of every release that the caller is told about."""
    answer = ask(stub.ListReleases, pb.ListAgreementsRequest())
    return [(bytes.fromhex(ReleaseSpec.from_bytes(one.proposal).digest()), one.state) for one in answer.agreements]


def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Look until a condition holds; fail when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come about in time"
        time.sleep(0.01)
