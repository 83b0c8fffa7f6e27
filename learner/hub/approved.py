"""A release, or an alignment run, as the hub believes it: every party's checked consent, and the plan of its session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import ClassVar, Self

from dprelease.agreement import Proposal, SignedAcceptance, check_all
from dprelease.canonical import Value
from dprelease.errors import IntegrityError, refused_as
from dprelease.identity.signing import PublicKey
from dprelease.intersection.ring import Ring, check_message
from dprelease.intersection.task import Task
from dprelease.mpc import messages as products
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.mpc.round import columns_expected
from dprelease.mpc.schedule import SEAL_BYTES, SEED_BYTES, Schedule
from dprelease.release.accounting import check_spec
from dprelease.release.approval import SignedApproval
from dprelease.release.spec import ReleaseSpec


@dataclass(frozen=True)
class Plan:
    """The public side of one session.

    Attributes:
        what: it is of, in words.
        keys: party to the fingerprint of its identity key, in the parties' order.
        check: raises `IntegrityError` for a parcel that is not one of it, or not signed with one of these keys.
        most_bytes: of the bodies of a party's parcels at once: those of one round, as older ones are deleted.
        awaiting: parties that may go on with a parcel that has just become complete, given how many there are of a kind in its
            round, for a receiver or, with an empty name, for all.
        concerns: tells whether a party has anything to do with a parcel.
    """

    what: str
    keys: Mapping[str, str]
    check: Callable[[Message, Mapping[str, PublicKey]], None]
    most_bytes: Callable[[str], int]
    awaiting: Callable[[MessageHeader, Callable[[str, str], int]], tuple[str, ...]]
    concerns: Callable[[str, MessageHeader], bool]


def plan_of_release(spec: ReleaseSpec) -> Plan:
    """The session of joint moments.

    Raises:
        InvalidInput: the release has none.
    """
    schedule = spec.schedule()
    return Plan(
        f"release {spec.digest()[:12]}",
        spec.party_keys,
        lambda parcel, keys: products.check_message(parcel, schedule, keys),
        partial(most_bytes, schedule),
        partial(_awaiting, schedule),
        lambda party, header: header.kind not in products.TO_ONE or party in (header.sender, *header.receivers),
    )


def plan_of_run(task: Task) -> Plan:
    """The session of an alignment run."""
    ring = Ring.of(task)
    return Plan(
        f"alignment run {task.digest()[:12]}",
        task.party_keys,
        lambda parcel, keys: check_message(parcel, ring, keys),
        ring.most_bytes,
        lambda header, _: ring.awaiting(header),
        lambda party, header: True,
    )


def most_bytes(schedule: Schedule, party: str) -> int:
    """Bytes of the bodies of all parcels of a party in one round of joint moments."""
    dealers = schedule.dealers_of(party)
    total = schedule.proofs_size(party) + len(dealers) * schedule.columns_size(party)
    total += sum(len(schedule.partners(party, dealer)) for dealer in dealers) * (SEED_BYTES + SEAL_BYTES)
    return total + sum(schedule.deal_size(receiver, party) + SEAL_BYTES for receiver in schedule.receivers(party))


def _awaiting(schedule: Schedule, header: MessageHeader, arrived: Callable[[str, str], int]) -> tuple[str, ...]:
    """Nobody goes on with one of many: told are those for whom a parcel is the last of its kind, or begins a round anew."""
    others, kind = tuple(party for party in schedule.parties if party != header.sender), header.kind
    whole = len(others) + 1
    if kind == "key":  # it comes before its sender's transcript, unless it is put back after all have been there
        return header.receivers if arrived("transcript", "") == whole else ()
    if kind in products.TO_ONE:
        return tuple(each for each in header.receivers if arrived(kind, each) == _due(schedule, kind, each))
    if kind in products.SHOWN:
        expected = len(columns_expected(schedule))
        return others if sum(arrived(each, "") for each in products.SHOWN) == expected else ()
    begins = kind == "hello" and header.round > 1 and arrived(kind, "") == 1
    return others if begins or arrived(kind, "") == whole else ()


def _due(schedule: Schedule, kind: str, receiver: str) -> int:
    """How many messages of a kind a party gets in a round."""
    if kind == "deal":
        return len(schedule.dealers_of(receiver))
    return len(schedule.proofs(receiver)) if kind == "challenge-3" else schedule.collusion_threshold


UNREADABLE = "the coordinator's record cannot be read"


class ApprovedRelease(Value):
    """An approved release, with every party's signed approval in the spec's order."""

    most_bytes: ClassVar[None] = None

    spec: ReleaseSpec
    approvals: tuple[SignedApproval, ...]

    @classmethod
    @lru_cache(maxsize=32)
    def from_bytes(cls, data: bytes) -> Self:
        """Read a record, as any value; those that were read lately are remembered, for each call of the relay asks for one.

        Raises:
            InvalidInput: as `Value.from_bytes`.
        """
        return super().from_bytes(data)

    @property
    def parties(self) -> tuple[str, ...]:
        """Parties of the release, in the spec's order."""
        return tuple(part.party for part in self.spec.parties)

    @cached_property
    def plan(self) -> Plan:
        """Plan of its session, made once; raises `InvalidInput` if it has none."""
        return plan_of_release(self.spec)


class AcceptedRun(Value):
    """An alignment run that every party accepted."""

    most_bytes: ClassVar[None] = None

    task: Task
    acceptances: tuple[SignedAcceptance, ...]

    @property
    def plan(self) -> Plan:
        """Of its session."""
        return plan_of_run(self.task)


def checked_record(
    digest: str, spec: bytes, approvals: Iterable[bytes], consortium: str, root_pem: str
) -> ApprovedRelease:
    """Believe what the coordinator says about a release only where it can be checked here.

    Raises:
        IntegrityError: another spec, another consortium, or not signed by every party.
        SpecRefused: a number in the spec does not check out.
    """
    with refused_as(IntegrityError, UNREADABLE):
        known = ReleaseSpec.from_bytes(spec)
        signed = {item.approval.party: item for item in map(SignedApproval.from_bytes, approvals)}
    _check(digest, known, known.consortium, consortium)
    check_spec(known)
    check_all(signed.values(), known, root_pem)
    return ApprovedRelease(spec=known, approvals=tuple(signed[part.party] for part in known.parties))


def checked_run(digest: str, task: bytes, acceptances: Iterable[bytes], consortium: str, root_pem: str) -> AcceptedRun:
    """Believe what the coordinator says about an alignment run only where it can be checked here; see `checked_record`."""
    with refused_as(IntegrityError, UNREADABLE):
        known = Task.from_bytes(task)
        signed = tuple(map(SignedAcceptance.from_bytes, acceptances))
    _check(digest, known, known.consortium, consortium)
    check_all(signed, known, root_pem)
    return AcceptedRun(task=known, acceptances=signed)


def _check(digest: str, known: Proposal, of: str, consortium: str) -> None:
    if known.digest() != digest:
        raise IntegrityError(f"the coordinator answered with another {known.noun}")
    if of != consortium:
        raise IntegrityError(f"the {known.noun} is of consortium {of}; this hub serves {consortium}")
