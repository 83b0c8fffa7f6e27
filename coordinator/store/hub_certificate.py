"""Who the hub is: one certificate at a time, known to the office by its key. Works inside a transaction of the store."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from coordinator.store.database import put
from coordinator.store.tables import meta
from dprelease.errors import AccessDenied
from dprelease.identity.certificates import Identity, read_identity

_KEY = "hub"


class HubSeat:
    """The hub's seat, in one transaction: taken by the latest certificate issued for it, or vacant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def certificate(self) -> str | None:
        """The hub's latest certificate, PEM; None while the seat is vacant."""
        chosen = select(meta.c.value).where(meta.c.key == _KEY)
        return self._connection.execute(chosen).scalar_one_or_none() or None

    def take(self, certificate: str) -> None:
        """Give the seat to whoever holds the key of this certificate. A hub with another key is no longer accepted."""
        put(self._connection, meta, {"key": _KEY}, {"value": certificate})

    def vacate(self) -> None:
        """Accept no hub. Again changes nothing."""
        put(self._connection, meta, {"key": _KEY}, {"value": ""})

    def admit(self, identity: Identity, now: datetime) -> str:
        """The hub's latest certificate, if it is the hub that calls with a certificate that TLS has checked.

        Raises:
            AccessDenied: the seat is vacant or another's, or the certificate has expired on an old connection.
        """
        certificate = self.certificate()
        if certificate is None or read_identity(certificate).fingerprint != identity.fingerprint:
            raise AccessDenied("this hub was revoked or replaced; see: coordinator hub --help")
        if now > identity.expires:
            raise AccessDenied("the certificate of the hub has expired")
        return certificate
