"""How a hospital joins, by an invite that it trades for a certificate; and certificates before they end, also the office's own."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from coordinator.authority.authority import SERVER_DAYS, Authority, read_signing_request
from coordinator.clock import Clock
from coordinator.service.recovery import statement
from coordinator.settings import CoordinatorSettings
from coordinator.store.members import Invitation
from coordinator.store.store import Consortium, Store, Transaction
from dprelease.canonical import check_name, read_data
from dprelease.errors import AccessDenied, Conflict, InvalidInput
from dprelease.files.durable import can, write_durably
from dprelease.identity.certificates import Identity, read_certificate, renewal_due
from dprelease.identity.invite import Invite
from dprelease.identity.signing import key_fingerprint
from dprelease.privacy.calibration import budget
from dprelease.privacy.gaussian import check_target
from dprelease.spec_base import Target, instant
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.enrolment_pb2 import EnrolRequest, EnrolResponse
from dprelease.wire.v1.enrolment_pb2_grpc import EnrolmentServiceServicer

SECRET_BYTES = 32
_KEPT = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def share_of(consortium: Consortium, part: Fraction) -> Fraction:
    """A rational part of the consortium's mu^2, as a cap.

    Raises:
        InvalidInput: not in (0, 1].
    """
    if not 0 < part <= 1:
        raise InvalidInput(f"a share lies above 0 and at most at 1, e.g. 1/3; not {part}")
    return consortium.mu2 * part


def cap_of_epsilon(consortium: Consortium, epsilon: float) -> Fraction:
    """The cap under which a party's own columns keep to epsilon, at the consortium's delta.

    Raises:
        InvalidInput: epsilon is not positive and finite.
    """
    check_target(epsilon, consortium.delta)
    return budget(Target(scope="per-party", epsilon=epsilon, delta=consortium.delta))


def invite(
    store: Store,
    settings: CoordinatorSettings,
    root_pem: bytes,
    party: str,
    cap: Fraction | None,
    now: datetime,
    lasting: timedelta,
) -> Invite:
    """A fresh invite; unused ones for the same party end.

    The caps of all parties sum to at most the consortium's mu^2, so a joint cap over time holds without anybody seeing
    another's ledger (docs/guarantees.md 8). A party that joined once keeps its cap: what it spent cannot be undone.

    Args:
        store: the consortium's.
        settings: addresses for the token.
        root_pem: root certificate for the token.
        party: whom to invite.
        cap: cap on mu^2 of a new party; None keeps the one that is set aside for it already.
        now: the present.
        lasting: until the invite lapses.

    Raises:
        InvalidInput: no cap for a new party, or a name that is malformed or fits no file at some learners.
        Conflict: the sum of caps would exceed the consortium's, or the party has another cap already.
    """
    check_name(party, "a hospital")
    secret = secrets.token_urlsafe(SECRET_BYTES)
    expires = now + lasting
    with store.writing() as tx:
        _check_files(party, caps(tx, now))
        kept = _cap_for(store, tx, party, cap, now)
        token = {
            "consortium": store.consortium.name,
            "party": party,
            "address": settings.enrolment_address,
            "root": root_pem.decode(),
            "secret": secret,
            "cap_mu2": str(kept),
            "expires": instant(expires),
        }
        made = read_data(Invite, token, f"the invite of {party!r}")
        tx.members.invite(Invitation(party, kept, expires), secret, now)
        tx.history.note(f"{party} was invited until {instant(expires)}", now, party=party)
    return made


def _check_files(party: str, known: Collection[str]) -> None:
    """Refuse a new name that learners cannot have in names of files: Windows keeps it, or a disk takes it for another one."""
    if party in known:
        return
    if _KEPT.fullmatch(party):
        raise InvalidInput(
            f"{party!r} cannot name a hospital: Windows keeps it for itself, and learners have it in files"
        )
    if alike := [each for each in known if each.lower() == party.lower()]:
        raise InvalidInput(f"{party!r} is {alike[0]!r} on disks that tell no capitals apart; take another name")


def caps(tx: Transaction, now: datetime) -> dict[str, Fraction]:
    """Party to the cap that is set aside for it.

    Counted are enrolled parties, open invites, and revoked parties that may have made a block: patients' data that were
    released stay released, so such a cap is never free again.
    """
    held = {
        party.name: party.cap_mu2
        for party in tx.members.all()
        if party.revoked is None or tx.releases.may_have_spent(party.name)
    }
    return {invitation.party: invitation.cap_mu2 for invitation in tx.members.invitations(now)} | held


def enrol(
    request: EnrolRequest, store: Store, authority: Authority, settings: CoordinatorSettings, now: datetime
) -> EnrolResponse:
    """Trade an invite and a signing request for a certificate. The name is the invite's.

    With it comes what the office has seen charged to the party before, so that a ledger that was lost does not begin anew.

    Raises:
        Unauthenticated: the invite is unknown, used, replaced or lapsed.
        InvalidInput: the signing request is not one, or its key is not on P-256; the invite stays good.
        Conflict: another party has this key; the invite stays good.
    """
    with store.writing() as tx:
        invitation = tx.members.redeem(request.secret, now)
        key = read_signing_request(request.signing_request)
        certificate = authority.issue(invitation.party, "party", key, now, settings.certificate_days).decode()
        tx.members.enrol(certificate, invitation.cap_mu2, now)
        tx.history.note(f"{invitation.party} enrolled", now, party=invitation.party)
        charges = statement(store, tx, authority, invitation.party, now)
    return EnrolResponse(
        certificate=certificate,
        root=authority.root_pem.decode(),
        consortium=store.consortium.name,
        coordinator=settings.public_address,
        hub=settings.hub_address,
        charges=charges.to_bytes(),
        delta=store.consortium.delta,
    )


class EnrolmentService(EnrolmentServiceServicer):
    """Enrolment, over TLS without a client certificate; arguments as of `enrol`."""

    def __init__(self, store: Store, authority: Authority, settings: CoordinatorSettings, clock: Clock) -> None:
        self._store, self._authority, self._settings, self._clock = store, authority, settings, clock

    def Enrol(self, request: EnrolRequest, context: Any) -> EnrolResponse:  # noqa: N802 - as in the protocol
        """For whoever holds an open invite."""
        return enrol(request, self._store, self._authority, self._settings, self._clock())


def _cap_for(store: Store, tx: Transaction, party: str, cap: Fraction | None, now: datetime) -> Fraction:
    held = caps(tx, now)
    known = tx.members.find(party)
    fixed = party in held and known is not None
    if cap is None and party not in held:
        raise InvalidInput(f"{party} is new: give its part of the consortium's budget, e.g. --share 1/3")
    if cap is None or (fixed and cap == held[party]):
        return held[party]
    if fixed:
        raise Conflict(f"the cap of {party} was fixed when it joined; invite it again without a share")
    total = store.consortium.mu2
    left = total - sum((other for name, other in held.items() if name != party), Fraction(0))
    if cap > left:
        raise Conflict(
            f"the caps would exceed the consortium's budget: {float(left / total):.4g} of it is left, "
            f"{float(cap / total):.4g} was asked for"
        )
    return cap


log = logging.getLogger(__name__)


def renew(
    request: pb.RenewCertificateRequest,
    store: Store,
    authority: Authority,
    settings: CoordinatorSettings,
    caller: Identity,
    now: datetime,
) -> pb.RenewCertificateResponse:
    """A later certificate for the caller's own name and key; the one issued last, if enough is left of its life.

    So a call whose answer was lost may be repeated.

    Raises:
        InvalidInput: not a signing request.
        AccessDenied: the caller is revoked, or the request is over another key than the one that calls.
    """
    if key_fingerprint(read_signing_request(request.signing_request)) != caller.fingerprint:
        raise AccessDenied(f"{caller.name} asked for a certificate over another key than its own")
    with store.writing() as tx:
        if caller.role == "hub":
            latest, days = tx.hub.check(caller, now), SERVER_DAYS
        else:
            latest, days = tx.members.admit(caller, now).certificate, settings.certificate_days
        if renewal_due(latest, now):
            latest = authority.renew(latest, now, days).decode()
            tx.hub.set(latest) if caller.role == "hub" else tx.members.renew(latest)
            tx.history.note(
                f"the certificate of {caller.name} was renewed",
                now,
                party=None if caller.role == "hub" else caller.name,
            )
    return pb.RenewCertificateResponse(certificate=latest)


class OwnCertificate:
    """The coordinator's own certificate, renewed by itself: the authority is at hand.

    Raises:
        InvalidInput: a file cannot be read.
    """

    def __init__(self, settings: CoordinatorSettings, authority: Authority) -> None:
        self._path = settings.certificate
        self._authority = authority
        with can("read", settings.certificate):
            certificate = settings.certificate.read_bytes()
        with can("read", settings.key):
            key = settings.key.read_bytes()
        self._present = Credentials(authority.root_pem, certificate, key)

    def credentials(self) -> Credentials:
        """As they are now."""
        return self._present

    def renew(self, now: datetime) -> bool:
        """Renew the certificate if little is left of its life, or nothing, or our clock ran ahead when it was made; kept in place.

        Returns:
            True if there is a new one, for the listeners to present.

        Raises:
            InvalidInput: the certificate was not issued by this authority.
            Conflict: the root has expired.
        """
        present = self._present.certificate or b""
        if not renewal_due(present, now) and read_certificate(present).not_valid_before_utc <= now:
            return False
        renewed = self._authority.renew(present, now, SERVER_DAYS)
        try:
            write_durably(self._path, renewed)
        except OSError as error:
            log.error("%s cannot be written (%s); the next start renews again", self._path, error.strerror)
        self._present = Credentials(self._present.root, renewed, self._present.key)
        log.info("the coordinator's certificate was renewed")
        return True
