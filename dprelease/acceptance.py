"""A hospital's signed consent to one alignment run: `dprelease.release.approval`, for a `Task` of an intersection.

No hospital sends a byte of a run before it has seen the signed acceptances of all over the same task, under the keys that
people compared: otherwise a coordinator could take the place of all other hospitals, and ask which patients one has.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dprelease.canonical import Digest, Value
from dprelease.data.columns import Name
from dprelease.errors import IntegrityError
from dprelease.identity.certificates import check_certificate
from dprelease.identity.signing import ACCEPTANCE, PrivateKey, sign, verify
from dprelease.intersection.task import Task
from dprelease.spec_base import Instant, instant, moment


class Acceptance(Value):
    """What is signed.

    Attributes:
        party: who accepts.
        run: digest of the task.
        accepted: when.
    """

    party: Name
    run: Digest
    accepted: Instant


class SignedAcceptance(Value):
    """An acceptance, its signature and the certificate of the key that made it."""

    acceptance: Acceptance
    signature: str
    certificate: str


def accept(task: Task, party: str, key: PrivateKey, certificate: str, now: datetime) -> SignedAcceptance:
    """Sign consent to a run."""
    acceptance = Acceptance(party=party, run=task.digest(), accepted=instant(now))
    signature = sign(key, ACCEPTANCE, acceptance.to_bytes())
    return SignedAcceptance(acceptance=acceptance, signature=signature, certificate=certificate)


def check_acceptance(signed: SignedAcceptance, task: Task, root_pem: str) -> None:
    """Check one acceptance: its run, its signature, and that its key is the one that the task names for the party.

    Raises:
        IntegrityError: anything disagrees.
    """
    acceptance = signed.acceptance
    member = task.member(acceptance.party)
    if member is None or acceptance.run != task.digest():
        raise IntegrityError(f"an acceptance by {acceptance.party} is for another alignment run")
    identity = check_certificate(signed.certificate, root_pem, moment(acceptance.accepted), "party")
    if identity.name != acceptance.party or identity.fingerprint != member.key:
        raise IntegrityError(f"the acceptance by {acceptance.party} was not made with the key that the run names")
    verify(identity.key, signed.signature, ACCEPTANCE, acceptance.to_bytes())


def check_all_accepted(
    acceptances: Iterable[SignedAcceptance], task: Task, root_pem: str, pins: Mapping[str, str] | None = None
) -> None:
    """Check that every party of a task signed its digest, under the keys that were pinned out of band.

    Args:
        acceptances: what the coordinator passed on.
        task: whose digest is recomputed here.
        root_pem: the consortium root.
        pins: party to key fingerprint, as compared between people; None where nothing is pinned (the hub).

    Raises:
        IntegrityError: an acceptance is missing, doubled, or wrong, or a key is not the pinned one.
    """
    seen: set[str] = set()
    for signed in acceptances:
        check_acceptance(signed, task, root_pem)
        if signed.acceptance.party in seen:
            raise IntegrityError(f"{signed.acceptance.party} accepted twice")
        seen.add(signed.acceptance.party)
    missing = [member.party for member in task.members if member.party not in seen]
    if missing:
        raise IntegrityError(f"no acceptance by {', '.join(missing)}")
    for member in task.members if pins is not None else ():
        if pins is not None and pins.get(member.party) != member.key:
            raise IntegrityError(f"the key of {member.party} is not the one pinned here")
