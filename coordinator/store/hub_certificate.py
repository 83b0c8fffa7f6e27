"""Identity of the hub: one certificate at a time, known to the office by its key. Works inside a transaction of the store."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from coordinator.store.database import put
from coordinator.store.tables import meta
from dprelease.errors import AccessDenied
from dprelease.identity.certificates import Identity, read_identity

_KEY = "hub"


class HubCertificate:
    """The hub's current certificate, in one transaction: the latest issued for it, or none."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def certificate(self) -> str | None:
        """The hub's latest certificate, PEM; None while no hub is accepted."""
        chosen = select(meta.c.value).where(meta.c.key == _KEY)
        return self._connection.execute(chosen).scalar_one_or_none() or None

    def set(self, certificate: str) -> None:
        """Accept the hub with the key of this certificate. A hub with another key is no longer accepted."""
        put(self._connection, meta, {"key": _KEY}, {"value": certificate})

    def clear(self) -> None:
        """Accept no hub. Again changes nothing."""
        put(self._connection, meta, {"key": _KEY}, {"value": ""})

    def check(self, identity: Identity, now: datetime) -> str:
        """The hub's latest certificate, if it is the hub that calls with a certificate that TLS has checked.

        Raises:
            AccessDenied: no hub is accepted, or another, or the certificate has expired on an old connection.
        """
        certificate = self.certificate()
        known = read_identity(certificate) if certificate else None
        if known is not None and known.fingerprint != identity.fingerprint and identity.expires > known.expires:
            raise AccessDenied(
                "this hub's certificate is later than the one known here; if the database was restored from an older copy: "
                "coordinator hub reissue"
            )
        if certificate is None or known is None or known.fingerprint != identity.fingerprint:
            raise AccessDenied("this hub was revoked or replaced; see: coordinator hub --help")
        if now > identity.expires:
            raise AccessDenied("the certificate of the hub has expired")
        return certificate
