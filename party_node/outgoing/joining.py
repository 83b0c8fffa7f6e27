"""How a hospital joins: an invite becomes a certificate and a budget, and a budget is never forgotten."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from fractions import Fraction
from functools import partial
from itertools import islice
from time import sleep

from dprelease.errors import Conflict, DpReleaseError, IntegrityError, PeerUnavailable, TooManyRequests, VersionMismatch
from dprelease.identity.certificates import signing_request
from dprelease.identity.invite import Invite
from dprelease.release.charges import SignedStatement
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import ask
from dprelease.wire.retry import Backoff
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import enrolment_pb2, enrolment_pb2_grpc
from party_node.hospital import HospitalState
from party_node.identity import Enrolment, KeyFolder
from party_node.outgoing.office import OVER, PEER, Coordinator
from party_node.state.books import check, reconcile
from party_node.state.entries import CHARGED
from party_node.state.journal import Record, Status

log = logging.getLogger(__name__)

_TURNS, _MOST_TURNS = Backoff(first_seconds=3.0, longest_seconds=30.0), 10
"""Some three minutes in all, in which a coordinator admits 60 from one address."""

_HELD = {Status.APPROVED, Status.SEALED, Status.DELIVERED}


def enrol(hospital: HospitalState, invite: Invite, *, ledger_lost: bool = False) -> Enrolment:
    """Join the consortium and open our roster's budget, with a cap that is fixed for good.

    A new ledger is at once charged what the office has seen charged to us before.

    Args:
        hospital: the party's state.
        invite: from the consortium's office.
        ledger_lost: open a new ledger although one was here, and charge it with everything that is known here.

    Raises:
        Conflict: the ledger or an earlier enrolment names another cap, or the ledger was lost; the invite stays unused.
        InvalidInput, Unauthenticated, PeerUnavailable, ...: see `trade`.
    """
    cap = Fraction(invite.cap_mu2)
    if any(entry.kind == "open" and Fraction(entry.mu2) != cap for entry in hospital.ledger.entries()):
        raise Conflict("the invite names another cap than the one that our ledger was opened with")
    if not ledger_lost:
        _check_not_lost(hospital, hospital.settings.roster)
    enrolment = trade(invite, hospital.identity, hospital.settings.name)
    open_roster(
        hospital, hospital.settings.roster, f"fixed at enrolment in {enrolment.consortium}", ledger_lost=ledger_lost
    )
    return enrolment


def trade(invite: Invite, identity: KeyFolder, name: str) -> Enrolment:
    """Trade an invite for a certificate, over TLS pinned to the root that the invite carries, and keep it.

    Raises:
        InvalidInput: the invite is for another party, or has lapsed.
        Unauthenticated: the coordinator does not accept it.
        PeerUnavailable: the coordinator cannot be reached.
        TooManyRequests: others at our address enrol all the time.
    """
    identity.check_invite(invite, name)
    signing = signing_request(name, identity.key()).decode()
    request = enrolment_pb2.EnrolRequest(secret=invite.secret, signing_request=signing)
    with connect(invite.address, Credentials(invite.root.encode())) as channel:
        answer = _in_our_turn(partial(ask, PEER, enrolment_pb2_grpc.EnrolmentServiceStub(channel).Enrol, request))
    enrolment = Enrolment(
        party=name,
        consortium=invite.consortium,
        coordinator=answer.coordinator,
        hub=answer.hub,
        certificate=answer.certificate,
        root=invite.root,
        cap_mu2=invite.cap_mu2,
        delta=answer.delta if 0 < answer.delta < 1 else 0.0,
    )
    identity.keep_enrolment(enrolment, SignedStatement.from_bytes(answer.charges))
    return enrolment


def _in_our_turn(call: Callable[[], enrolment_pb2.EnrolResponse]) -> enrolment_pb2.EnrolResponse:
    """The answer to a call that is tried again while the coordinator asks for fewer: hospitals may share an address."""
    for seconds in islice(_TURNS.waits(), _MOST_TURNS):
        try:
            return call()
        except TooManyRequests:
            log.warning("others enrol from this address; next attempt in %.0f s", seconds)
            sleep(seconds)
    return call()


def open_roster(hospital: HospitalState, roster: str, detail: str, *, ledger_lost: bool = False) -> None:
    """Open a roster's account under our cap, with what the office has seen charged to it; again changes nothing.

    Raises:
        Conflict: it was opened with another cap, or the ledger was lost.
    """
    if not ledger_lost:
        _check_not_lost(hospital, roster)
    hospital.ledger.open(roster, Fraction(hospital.enrolment.cap_mu2), detail)
    if ledger_lost:
        reconcile(hospital.books)
    for charge in hospital.identity.charges():
        if charge.roster == roster and not hospital.ledger.stage(roster, charge.release):
            hospital.ledger.close(
                roster,
                charge.release,
                Fraction(charge.mu2),
                Fraction(charge.exposure),
                "charged before, as the office has seen",
            )


def _check_not_lost(hospital: HospitalState, roster: str) -> None:
    opened = any(entry.kind == "open" and entry.roster == roster for entry in hospital.ledger.entries())
    if not opened and any(record.consent and record.spec.roster == roster for record in hospital.journal.releases()):
        raise Conflict(
            f"releases of roster {roster} were approved here, so there was a ledger: restore state/ledger.sqlite, the "
            "latest that there is; if it is lost for good: party-node enrol TOKEN --ledger-lost"
        )


def hear_witness(hospital: HospitalState, coordinator: Coordinator) -> IntegrityError | None:
    """Ask the office what it has seen charged to us; what the node must stop for, if our books do not know it."""
    try:
        told = coordinator.charges()
        hospital.identity.keep_charges(told)
    except VersionMismatch:
        log.warning("the coordinator is older: a ledger that was restored from a backup would not be recognised")
        return None
    try:
        check(hospital.books)
    except IntegrityError as error:
        return error
    _remind(hospital, coordinator, {charge.release for charge in told.statement.charges})
    return None


def _remind(hospital: HospitalState, coordinator: Coordinator, told: set[str]) -> None:
    """Show the office what it has forgotten of us: it was restored from an older backup. So it is our witness again."""
    stages = hospital.ledger.stages(hospital.settings.roster)
    ours = {release for release, stage in stages.items() if stage in CHARGED}
    ours |= {release for release, status in hospital.journal.standing(ReleaseSpec).items() if status in _HELD}
    if ours <= told:
        return
    listed = coordinator.releases.pending()
    held = {approval for pending in listed for approval in pending.consents}
    ours -= {
        pending.digest for pending in listed if pending.state not in OVER and stages.get(pending.digest) == "close"
    }
    for release in sorted(ours - told):
        record = hospital.journal.get(release)
        if record is not None:
            show_approval(coordinator, record, held)


def show_approval(coordinator: Coordinator, record: Record, held: Container[bytes]) -> None:
    """Show the office our approval of a release, unless it has it: after a restore it is a witness of our charge again.

    Raises:
        PeerUnavailable: the office is away; try again.
    """
    if record.consent is None or record.consent in held:
        return
    try:
        coordinator.releases.approve(record.consent, record.spec.to_bytes())
    except PeerUnavailable:
        raise
    except DpReleaseError as error:
        log.error("the office does not know release %s, which was approved here: %s", record.digest[:12], error.message)
