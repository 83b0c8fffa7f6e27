"""Facts about a session between hospitals that the relay has to know: members, sizes, who waits for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from dprelease.errors import InvalidInput
from dprelease.identity.signing import PublicKey
from dprelease.intersection import messages as alignment
from dprelease.intersection.ring import Ring
from dprelease.intersection.task import Task
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc import messages as products
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.mpc.schedule import SEAL_BYTES, SEED_BYTES, Schedule
from dprelease.release.spec import ReleaseSpec


@dataclass(frozen=True)
class Plan:
    """The public side of one session.

    Attributes:
        what: it is of, in words.
        keys: party to the fingerprint of its identity key, in the parties' order.
        check: raises `IntegrityError` for a parcel that is not one of it, or not signed with one of these keys.
        most_bytes: of the bodies of a party's parcels at once: those of one round, as older ones are deleted.
        awaiting: parties that may go on with a parcel.
    """

    what: str
    keys: Mapping[str, str]
    check: Callable[[Message, Mapping[str, PublicKey]], None]
    most_bytes: Callable[[str], int]
    awaiting: Callable[[MessageHeader], tuple[str, ...]]

    @property
    def parties(self) -> tuple[str, ...]:
        """Names, in their order."""
        return tuple(self.keys)


def plan_of_release(spec: ReleaseSpec) -> Plan:
    """The session of joint moments.

    Raises:
        InvalidInput: the release has none.
    """
    schedule = mechanism_of(spec).schedule(spec)
    if schedule is None:
        raise InvalidInput(f"release {spec.digest()[:12]} is of mechanism {spec.mechanism!r}: it has no parcels")
    return Plan(
        f"release {spec.digest()[:12]}",
        {part.party: part.key for part in spec.parties},
        lambda parcel, keys: products.check_message(parcel, schedule, keys),
        partial(most_bytes, schedule),
        partial(_awaiting, schedule),
    )


def plan_of_run(task: Task) -> Plan:
    """The session of an alignment run."""
    ring = Ring.of(task)
    return Plan(
        f"alignment run {task.digest()[:12]}",
        {member.party: member.key for member in task.members},
        lambda parcel, keys: alignment.check_message(parcel, ring, keys),
        ring.most_bytes,
        ring.awaiting,
    )


def most_bytes(schedule: Schedule, party: str) -> int:
    """Bytes of the bodies of all parcels of a party in one round of joint moments."""
    columns = sum(schedule.columns_size(party) for _ in schedule.dealers_of(party))
    keys = sum(
        SEED_BYTES + SEAL_BYTES for dealer in schedule.dealers_of(party) for _ in schedule.partners(party, dealer)
    )
    return (
        columns + keys + sum(schedule.deal_size(receiver, party) + SEAL_BYTES for receiver in schedule.receivers(party))
    )


def _awaiting(schedule: Schedule, header: MessageHeader) -> tuple[str, ...]:
    """Every other party signs to have seen all masked columns."""
    if header.kind in ("deal", "key"):
        return header.receivers
    return tuple(party for party in schedule.parties if party != header.sender)
