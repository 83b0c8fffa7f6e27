"""The relay of an alignment run: parcels of its ring come in, in their rounds, and go to their receivers and to nobody else."""

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest

from dprelease.agreement import accept
from dprelease.canonical import sha256
from dprelease.errors import AccessDenied, Conflict, DpReleaseError, IntegrityError, NotFound, PeerUnavailable
from dprelease.identity.certificates import Identity
from dprelease.intersection.ring import Ring
from dprelease.intersection.task import Task
from dprelease.mpc.messages import NOTHING, Message, MessageHeader, session_digest, sign_message
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import release_pb2
from learner.hub.approved import AcceptedRun, checked_run
from learner.hub.coordination import Coordination
from learner.hub.publish import advance
from learner.hub.relay import Relay
from learner.hub.storage import Storage
from tests.hostile.faults import Fault, Kind, each
from tests.learner.world import CONSORTIUM, World, pieces
from tests.support.certificates import mint

NAMES = ("north", "south", "west")
SIZES = {"north": 300, "south": 20, "west": 1}


def task_of(world: World, **changes: Any) -> Task:
    members = [{"party": name, "key": world.parties[name].fingerprint, "patients": SIZES[name]} for name in NAMES]
    fields: dict[str, Any] = {
        "consortium": CONSORTIUM,
        "roster": "cohort",
        "members": tuple(members),
        "nonce": "5e" * 32,
        "created": "2026-03-01T00:00:00Z",
        "expires": "2026-04-01T00:00:00Z",
    }
    return Task.model_validate({**fields, **changes})


def consents(world: World, task: Task, names: tuple[str, ...] = NAMES) -> list[bytes]:
    members = [world.parties[name] for name in names]
    return [accept(task, each.name, each.key, each.certificate, datetime.now(UTC)).to_bytes() for each in members]


class Post:
    """A relay of one run, and hospitals whose bodies are any bytes: the relay cannot tell."""

    def __init__(self, storage: Storage, world: World) -> None:
        self.storage, self.world, self.task = storage, world, task_of(world)
        self.ring, self.run = Ring.of(self.task), self.task.digest()
        self.told: list[tuple[str, ...]] = []
        self.record = checked_run(
            self.run, self.task.to_bytes(), consents(world, self.task), CONSORTIUM, world.root.certificate
        )
        self.looks = 0
        self.reported: list[tuple[str, tuple[str, ...]]] = []
        self.relay = Relay(storage, self.find, self._look, self._tell, lambda *said: self.reported.append(said))

    def find(self, digest: str, party: str) -> AcceptedRun:
        if digest != self.run:
            raise NotFound("no such run")
        self.storage.keep_run(self.record)
        return self.record

    def _look(self, _: Identity) -> None:
        self.looks += 1

    def _tell(self, *names: str) -> None:
        self.told.append(names)

    def signed(self, header: MessageHeader) -> Message:
        return sign_message(self.world.parties[header.sender].key, header)

    def made(self, kind: str, sender: str, size: int = 0, number: int = 1, **fields: Any) -> Message:
        session = "" if kind == "hello" else self.session(number)
        body = self.body(size)
        header = {"task": self.run, "round": number, "session": session, "kind": kind, "sender": sender, "size": size}
        header |= {"sha256": sha256(body) if size else NOTHING} | fields
        return self.signed(MessageHeader.model_validate(header))

    def body(self, size: int) -> bytes:
        return bytes(each % 251 for each in range(size))

    def hello(self, sender: str, number: int = 1) -> Message:
        return self.made("hello", sender, number=number, payload=sha256(f"{sender} {number}".encode()))

    def session(self, number: int = 1) -> str:
        return session_digest(self.hello(name, number).header for name in NAMES)

    def points(self, sender: str, origin: str, number: int = 1, **fields: Any) -> Message:
        receivers = (self.ring.after(sender),)
        size = self.ring.points_size(origin)
        return self.made("points", sender, size, number, **{"receivers": receivers, "dealer": origin} | fields)

    def open(self, parcel: Message) -> int:
        sender = self.world.parties[parcel.header.sender].identity
        return self.relay.open_parcels(sender, [(parcel.to_bytes(), b"")])[0]

    def bring(self, *parcels: Message) -> None:
        for parcel in parcels:
            held, header = self.open(parcel), parcel.header
            if held < header.size:
                upload = self.relay.begin(self.world.parties[header.sender].identity, self.run, header.digest())
                for chunk in pieces(self.body(header.size), start=held):
                    upload.take(chunk)
                upload.finish()

    def fetch(self, parcel: Message, party: str) -> bytes:
        identity = self.world.parties[party].identity
        return self.relay.body(identity, self.run, parcel.header.digest(), 0).read_bytes()


@pytest.fixture
def post(storage: Storage, trio: World) -> Post:
    return Post(storage, trio)


def test_points_go_to_the_next_of_the_ring_alone(post: Post) -> None:
    hellos = [post.hello(name) for name in NAMES]
    post.bring(*hellos)
    assert post.looks == 3
    parcel = post.points("north", "west")
    post.bring(parcel)
    assert post.told[-1] == ("south",)
    assert post.fetch(parcel, "south") == post.body(parcel.header.size)
    for party in ("north", "west"):
        with pytest.raises(AccessDenied):
            post.fetch(parcel, party)
    listed, _, _ = post.relay.listed(post.world.parties["west"].identity, post.run, 0)
    assert [Message.from_bytes(data) for data in listed] == [*hellos, parcel]
    reserved = post.storage.parcels(post.run) / "north.reserved"
    assert int(reserved.read_bytes()) == post.ring.most_bytes("north")


def test_who_has_sent_all_of_its_own_is_reported_before_others_see_the_last_of_it(post: Post) -> None:
    post.bring(*(post.hello(name) for name in NAMES))
    result = post.made("result", "south", payload=sha256(b"the patients"))
    away, post.relay._report = post.relay._report, lambda *said: (_ for _ in ()).throw(PeerUnavailable("the office"))
    with pytest.raises(PeerUnavailable):
        post.open(result)
    listed, _, _ = post.relay.listed(post.world.parties["west"].identity, post.run, 0)
    assert (len(listed), post.reported) == (len(NAMES), [])
    post.relay._report = away
    post.bring(result, result)  # announced as often as its sender likes, and told once
    assert post.reported == [(post.run, ("south",))]


def misplaced(what: str, error: type[DpReleaseError] = IntegrityError, **changes: Any) -> Fault:
    """A message of points that the ring does not have, made of an honest one."""
    return Fault(
        f"a parcel of an alignment run: {what}", "hub", Kind.ANSWERED, error, "nobody gets it", lambda honest: changes
    )


FAULTS = [
    misplaced("points past a neighbour of the ring", receivers=("west",)),
    misplaced("points for two hospitals", receivers=("south", "west")),
    misplaced("points of nobody's patients", dealer=""),
    misplaced("points of a stranger's patients", dealer="east"),
    misplaced("points with a payload", payload="00" * 32),
    misplaced("masked columns, which a release has", kind="columns"),
    misplaced("dealt randomness, which a release has", kind="deal"),
    misplaced("points of another run", NotFound, task="77" * 32),
    Fault(
        "a parcel of an alignment run: one patient more than was announced", "hub", Kind.ANSWERED, IntegrityError,
        "nobody gets it", lambda honest: {"size": honest.size + 32},
    ),
]  # fmt: skip


@each(FAULTS)
def test_what_the_ring_does_not_have_is_refused(post: Post, fault: Fault) -> None:
    post.bring(*(post.hello(name) for name in NAMES))
    honest = post.points("north", "west").header
    with fault.refused():
        post.open(post.signed(honest.model_copy(update=fault.act(honest))))
    post.bring(post.points("north", "west"))


def test_what_its_sender_did_not_sign_or_bring_is_refused(post: Post) -> None:
    post.bring(*(post.hello(name) for name in NAMES))
    honest = post.points("north", "west").header
    with pytest.raises(IntegrityError, match="its key did not sign"):
        post.open(Message(header=honest, signature=post.hello("south").signature))
    with pytest.raises(AccessDenied):
        post.relay.open_parcels(post.world.parties["south"].identity, [(post.points("north", "west").to_bytes(), b"")])


def test_strangers_and_other_keys_are_refused(post: Post) -> None:
    root = post.world.root
    for member in (mint("east", "party", root), mint("south", "party", root), post.world.hub):
        with pytest.raises(AccessDenied):
            post.relay.listed(member.identity, post.run, 0)


def test_sessions_and_rounds_are_kept_apart(post: Post) -> None:
    with pytest.raises(Conflict, match="another session"):
        post.open(post.points("north", "west"))
    post.bring(*(post.hello(name) for name in NAMES), post.points("north", "west"))
    with pytest.raises(Conflict, match="another points"):
        post.open(post.points("north", "west", sha256="00" * 32))
    with pytest.raises(Conflict, match="nobody has begun round 2"):
        post.open(post.hello("north", 3))
    post.bring(*(post.hello(name, 2) for name in NAMES))
    with pytest.raises(Conflict, match="abandoned"):
        post.open(post.points("north", "west"))
    assert [path.name for path in sorted(post.storage.parcels(post.run).glob("[0-9]*"))] == ["2"]


def test_what_the_coordinator_says_of_a_run_is_checked(trio: World) -> None:
    task, root = task_of(trio), trio.root.certificate
    said = consents(trio, task)
    other = task_of(trio, nonce="77" * 32)
    for digest, data, signed, consortium in (
        (other.digest(), task.to_bytes(), said, CONSORTIUM),
        (task.digest(), task.to_bytes(), said[:2], CONSORTIUM),
        (task.digest(), task.to_bytes(), [*said[:2], said[1]], CONSORTIUM),
        (task.digest(), task.to_bytes(), [*said[:2], consents(trio, other)[2]], CONSORTIUM),
        (task.digest(), task.to_bytes(), said, "another"),
        (task.digest(), b"{}", said, CONSORTIUM),
        (task.digest(), task.to_bytes(), [b"{}"], CONSORTIUM),
    ):
        with pytest.raises(IntegrityError):
            checked_run(digest, data, signed, consortium, root)


class Ended:
    """A coordinator that knows no release, and says whether a run is over."""

    def __init__(self) -> None:
        self.over = False

    def has_ended(self, digest: str) -> bool:
        raise NotFound("no such release")

    def run_has_ended(self, digest: str) -> bool:
        return self.over


def test_parcels_go_away_when_the_run_is_over(post: Post) -> None:
    post.bring(*(post.hello(name) for name in NAMES), post.points("north", "west"))
    office, signer = Ended(), None
    assert not advance(post.storage, office, signer, post.run, datetime.now(UTC))  # type: ignore[arg-type]
    assert post.storage.staged() == (post.run,)
    office.over = True
    assert advance(post.storage, office, signer, post.run, datetime.now(UTC))  # type: ignore[arg-type]
    assert post.storage.staged() == ()


def test_a_run_whose_record_is_only_being_written_is_taken_for_no_release(post: Post) -> None:
    """As it is after a crash, or while the first message comes in."""
    post.storage.reserve(post.run, "north", 1)
    office, signer = Ended(), None
    assert not advance(post.storage, office, signer, post.run, datetime.now(UTC))  # type: ignore[arg-type]
    office.over = True
    assert advance(post.storage, office, signer, post.run, datetime.now(UTC))  # type: ignore[arg-type]
    assert post.storage.staged() == ()


class Told:
    """The coordinator's answer about a run."""

    def __init__(self, record: release_pb2.AgreementRecord) -> None:
        self.record = record

    def GetRun(self, request: pb.GetAgreementRequest, timeout: float, metadata: object) -> pb.GetAgreementResponse:
        return pb.GetAgreementResponse(agreement=self.record)


@pytest.mark.parametrize("state", ["PROPOSED", "RUNNING", "DONE", "DECLINED", "FAILED", "CANCELLED", "EXPIRED"])
def test_only_a_run_that_all_accepted_and_that_is_not_over_has_parcels(trio: World, state: str) -> None:
    task = task_of(trio)
    with grpc.insecure_channel("localhost:1") as nowhere:
        coordination = Coordination(nowhere, CONSORTIUM, trio.root.certificate)
    record = release_pb2.AgreementRecord(
        proposal=task.to_bytes(), state=release_pb2.RunState.Value(f"RUN_STATE_{state}"), consents=consents(trio, task)
    )
    coordination._alignments = Told(record)  # type: ignore[assignment]
    if state == "RUNNING":
        assert coordination.accepted_run(task.digest()).task == task
    else:
        with pytest.raises(Conflict, match="takes no parcels now"):
            coordination.accepted_run(task.digest())
    assert coordination.run_has_ended(task.digest()) is (state not in {"PROPOSED", "RUNNING"})
