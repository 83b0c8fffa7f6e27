"""A release, or an alignment run, as the hub believes it: every party's signed consent, checked before it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import ClassVar, Self

from dprelease.acceptance import SignedAcceptance
from dprelease.agreement import Proposal, check_all
from dprelease.canonical import Value
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.intersection.task import Task
from dprelease.release.accounting import check_spec
from dprelease.release.approval import SignedApproval
from dprelease.release.spec import ReleaseSpec
from learner.hub.plans import Plan, plan_of_release, plan_of_run


class ApprovedRelease(Value):
    """An approved release.

    Attributes:
        spec: the spec.
        approvals: every party's signed approval, in the spec's order.
    """

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

    @property
    def plan(self) -> Plan:
        """Plan of its session; raises `InvalidInput` if it has none."""
        return plan_of_release(self.spec)


class AcceptedRun(Value):
    """An alignment run that every party accepted.

    Attributes:
        task: what is computed.
        acceptances: every party's.
    """

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
    with _readable():
        known = ReleaseSpec.from_bytes(spec)
        signed = {item.approval.party: item for item in map(SignedApproval.from_bytes, approvals)}
    _check(digest, known, known.consortium, consortium)
    check_spec(known)
    check_all(signed.values(), known, root_pem)
    return ApprovedRelease(spec=known, approvals=tuple(signed[part.party] for part in known.parties))


def checked_run(digest: str, task: bytes, acceptances: Iterable[bytes], consortium: str, root_pem: str) -> AcceptedRun:
    """Believe what the coordinator says about an alignment run only where it can be checked here; see `checked_record`."""
    with _readable():
        known = Task.from_bytes(task)
        signed = tuple(map(SignedAcceptance.from_bytes, acceptances))
    _check(digest, known, known.consortium, consortium)
    check_all(signed, known, root_pem)
    return AcceptedRun(task=known, acceptances=signed)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise IntegrityError(f"the coordinator's record cannot be read: {error.message}") from error


def _check(digest: str, known: Proposal, of: str, consortium: str) -> None:
    if known.digest() != digest:
        raise IntegrityError(f"the coordinator answered with another {known.noun}")
    if of != consortium:
        raise IntegrityError(f"the {known.noun} is of consortium {of}; this hub serves {consortium}")
