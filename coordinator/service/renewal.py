"""Certificates before they end: the coordinator's own, and those of parties and the hub when they ask."""

from __future__ import annotations

import logging
from datetime import datetime

from coordinator.authority.authority import SERVER_DAYS, Authority, read_signing_request
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.errors import AccessDenied, InvalidInput
from dprelease.files.durable import write_durably
from dprelease.identity.certificates import Identity, renewal_due
from dprelease.identity.signing import key_fingerprint
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb

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

    Args:
        settings: where certificate and key are.
        authority: signs.

    Raises:
        InvalidInput: a file cannot be read.
    """

    def __init__(self, settings: CoordinatorSettings, authority: Authority) -> None:
        self._path = settings.certificate
        self._authority = authority
        try:
            certificate, key = settings.certificate.read_bytes(), settings.key.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot read {error.filename}: {error.strerror}") from error
        self._present = Credentials(authority.root_pem, certificate, key)

    def credentials(self) -> Credentials:
        """As they are now."""
        return self._present

    def renew(self, now: datetime) -> bool:
        """Renew the certificate if little is left of its life, or nothing; kept where it was.

        Returns:
            True if there is a new one, for the listeners to present.

        Raises:
            InvalidInput: the certificate was not issued by this authority.
            Conflict: the root has expired.
        """
        if not renewal_due(self._present.certificate or b"", now):
            return False
        renewed = self._authority.renew(self._present.certificate or b"", now, SERVER_DAYS)
        try:
            write_durably(self._path, renewed)
        except OSError as error:
            log.error("%s cannot be written (%s); the next start renews again", self._path, error.strerror)
        self._present = Credentials(self._present.root, renewed, self._present.key)
        log.info("the coordinator's certificate was renewed")
        return True
