"""Identity of the hub: its key, and its certificate as it is now. Both listeners, the coordinator and manifests use them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.files.durable import write_durably
from dprelease.identity.certificates import (
    check_certificate,
    check_renewed,
    read_certificate,
    read_identity,
    renewal_due,
    signing_request,
)
from dprelease.identity.signing import key_fingerprint, load_private_key, private_key_pem
from dprelease.wire.transport import Credentials
from learner.hub.publish import Signer
from learner.hub.settings import HubSettings

log = logging.getLogger(__name__)


class HubIdentity:
    """The hub's key with its present certificate.

    Raises:
        InvalidInput: a file cannot be read, or the key is not the certificate's.
        IntegrityError: the certificate is not the consortium's, has expired, or is not a hub's.
    """

    def __init__(self, settings: HubSettings, now: Callable[[], datetime]) -> None:
        self._path = settings.certificate
        self._now = now
        self._signer = read_signer(settings, now())

    def signer(self) -> Signer:
        """Signer of manifests now."""
        return self._signer

    def credentials(self) -> Credentials:
        """For TLS, as they are now."""
        signer = self._signer
        return Credentials(signer.root_pem.encode(), signer.certificate.encode(), private_key_pem(signer.key))

    def renew(self, ask: Callable[[bytes], str]) -> bool:
        """Renew the certificate if little is left of its life. In use at once; kept where it was.

        Returns:
            Tells whether there is a new one.

        Raises:
            IntegrityError: the answer is not a later certificate of this hub's name and key.
            PeerUnavailable, AccessDenied, ...: as the coordinator answers.
        """
        signer = self._signer
        if not renewal_due(signer.certificate, self._now()):
            return False
        answer = ask(signing_request(read_identity(signer.certificate).name, signer.key))
        granted = check_renewed(answer, signer.certificate, signer.root_pem, self._now())
        try:
            write_durably(self._path, answer.encode())
        except OSError as error:
            log.error("%s cannot be written (%s); the next start asks again", self._path, error.strerror)
        self._signer = Signer(signer.key, answer, signer.root_pem)
        log.info("the hub's certificate was renewed until %s", f"{granted.expires:%Y-%m-%d %H:%M} UTC")
        return True


def read_signer(settings: HubSettings, now: datetime) -> Signer:
    """The hub's key and certificate, checked against the consortium root.

    Raises:
        InvalidInput: a file cannot be read, or the key is not the certificate's.
        IntegrityError: the certificate is not the consortium's, has expired, or is not a hub's.
    """
    root, certificate = _read(settings.root), _read(settings.certificate)
    ends = read_certificate(certificate).not_valid_after_utc
    if ends < now:
        raise IntegrityError(
            f"the hub's certificate expired at {ends:%Y-%m-%d %H:%M} UTC; at the consortium's office: "
            "coordinator hub reissue"
        )
    identity = check_certificate(certificate, root, now, "hub")
    key = load_private_key(settings.key)
    if key_fingerprint(key.public_key()) != identity.fingerprint:
        raise InvalidInput(f"{settings.key} is not the key of {settings.certificate}")
    return Signer(key, certificate, root)


def _read(path: Path) -> str:
    try:
        pem = path.read_text(encoding="ascii")
        read_certificate(pem)
    except (OSError, UnicodeDecodeError, InvalidInput) as error:
        raise InvalidInput(f"cannot read the certificate {path}: {error}") from error
    return pem
