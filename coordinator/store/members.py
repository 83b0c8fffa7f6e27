"""Members of the consortium: invites, parties, their catalogues and the hub. Works inside a transaction of the store."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from sqlalchemy import Row, select

from coordinator.store.database import Part, put
from coordinator.store.tables import catalogues, invites, parties, revocations
from dprelease.catalogue import Catalogue
from dprelease.errors import AccessDenied, Conflict, NotFound, Unauthenticated
from dprelease.identity.certificates import Identity, read_certificate, read_identity


@dataclass(frozen=True)
class Invitation:
    """An invite as the office remembers it: without its secret."""

    party: str
    cap_mu2: Fraction
    expires: datetime


@dataclass(frozen=True)
class Party:
    """An enrolled party.

    Attributes:
        name: name in its certificate.
        certificate: present certificate, PEM.
        fingerprint: SHA-256 of its public key.
        serial: of the present certificate, hexadecimal.
        cap_mu2: cap on mu^2, fixed at its first enrolment.
        enrolled: when it got the present certificate.
        revoked: when the office revoked it, if so.
        last_seen: when it last called, to the minute.
        protocol: version of the protocol that it spoke then; None where that was not kept.
    """

    name: str
    certificate: str
    fingerprint: str
    serial: str
    cap_mu2: Fraction
    enrolled: datetime
    revoked: datetime | None
    last_seen: datetime | None
    protocol: int | None

    @property
    def expires(self) -> datetime:
        """When the certificate ends."""
        return read_certificate(self.certificate).not_valid_after_utc


def secret_hash(secret: str) -> str:
    """Digest that is kept of an invite's secret. It has 256 bits of entropy, so a plain hash cannot be searched."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Members(Part):
    """Invites, parties and catalogues, in one transaction."""

    def invite(self, invitation: Invitation, secret: str, now: datetime) -> None:
        """Keep an invite; unused ones for the same party end here."""
        self._connection.execute(invites.delete().where(invites.c.party == invitation.party, invites.c.used.is_(None)))
        values = {"party": invitation.party, "cap_mu2": invitation.cap_mu2, "expires": invitation.expires}
        self._connection.execute(
            invites.insert().values(secret_hash=secret_hash(secret), created=now, used=None, **values)
        )

    def invitations(self, now: datetime) -> tuple[Invitation, ...]:
        """Invites that are neither used nor lapsed, by party."""
        return tuple(_invitation(row) for row in self._unused(now))

    def redeem(self, secret: str, now: datetime) -> Invitation:
        """Use up an invite.

        Raises:
            Unauthenticated: no invite has this secret, or it was used, replaced or has lapsed; which one is not said.
        """
        presented = secret_hash(secret)
        found = [row for row in self._unused(now) if hmac.compare_digest(row.secret_hash, presented)]
        if not found:
            raise Unauthenticated("no open invite has this secret")
        self._connection.execute(invites.update().where(invites.c.secret_hash == presented).values(used=now))
        return _invitation(found[0])

    def end_invitations(self, now: datetime) -> tuple[str, ...]:
        """End every open invite; the parties that they were for."""
        ended = tuple(invitation.party for invitation in self.invitations(now))
        self._connection.execute(invites.delete().where(invites.c.used.is_(None)))
        return ended

    def enrol(self, certificate: str, cap_mu2: Fraction, now: datetime) -> None:
        """Keep a party's new certificate; an earlier one of the same party is no longer accepted.

        Raises:
            Conflict: another party has this key.
        """
        identity = read_identity(certificate)
        owner = self._connection.scalar(select(parties.c.name).where(parties.c.fingerprint == identity.fingerprint))
        if owner not in (None, identity.name):
            raise Conflict(f"{identity.name} asked for a certificate over the key of {owner}")
        values = {"certificate": certificate, "fingerprint": identity.fingerprint, "serial": identity.serial}
        # The office invited this party again; a key that it left behind for good stays revoked.
        self._connection.execute(revocations.delete().where(revocations.c.fingerprint == identity.fingerprint))
        put(
            self._connection,
            parties,
            {"name": identity.name},
            {**values, "cap_mu2": cap_mu2, "enrolled": now, "revoked": None},
        )

    def renew(self, certificate: str) -> None:
        """Keep a later certificate over the same name and key. The earlier ones stay good until they end."""
        identity = read_identity(certificate)
        same = (parties.c.name == identity.name, parties.c.fingerprint == identity.fingerprint)
        values = {"certificate": certificate, "serial": identity.serial}
        self._connection.execute(parties.update().where(*same).values(values))

    def admit(self, identity: Identity, now: datetime, protocol: int | None = None) -> Party:
        """The party behind a certificate that TLS has checked; notes that it was seen.

        Args:
            identity: from the certificate.
            now: the present.
            protocol: version that the call speaks, which is noted too; None leaves what is known.

        Raises:
            AccessDenied: as `check`.
        """
        party = self.check(identity, now)
        seen: dict[str, Any] = {"last_seen": now} | ({} if protocol is None else {"protocol": protocol})
        self._connection.execute(parties.update().where(parties.c.name == party.name).values(seen))
        return party

    def check(self, identity: Identity, now: datetime) -> Party:
        """The party behind a certificate that TLS has checked.

        It goes by the key: certificates are public, so an earlier one of the same key proves as much as the latest.

        Raises:
            AccessDenied: it is unknown here, its key was replaced or revoked, or it has expired on an old connection.
        """
        party = self.find(identity.name)
        if party is None or party.fingerprint != identity.fingerprint:
            if party is None or identity.expires > party.expires:
                raise AccessDenied(
                    f"{identity.name} calls with a certificate of this consortium that is not known here; if the "
                    "database was restored from an older copy: coordinator invite"
                )
            raise AccessDenied(f"{identity.name} calls with a key that is not the one enrolled last")
        if party.revoked is not None:
            raise AccessDenied(f"{identity.name} was revoked")
        if now > identity.expires:
            raise AccessDenied(f"the certificate of {identity.name} has expired")
        return party

    def find(self, name: str) -> Party | None:
        """The enrolled party of this name, revoked or not, or None."""
        row = self._connection.execute(select(parties).where(parties.c.name == name)).one_or_none()
        return None if row is None else Party(**row._mapping)

    def all(self) -> tuple[Party, ...]:
        """Every party that ever enrolled, by name."""
        rows = self._connection.execute(select(parties).order_by(parties.c.name))
        return tuple(Party(**row._mapping) for row in rows)

    def revoke(self, name: str, now: datetime) -> None:
        """Stop accepting a party's certificate; its unused invites end too. Revoking twice changes nothing.

        Raises:
            NotFound: no such party is enrolled or invited.
        """
        cancelled = self._connection.execute(
            invites.delete().where(invites.c.party == name, invites.c.used.is_(None))
        ).rowcount
        party = self.find(name)
        if party is None and not cancelled:
            raise NotFound(f"no party called {name!r} is enrolled or invited")
        if party is not None:
            put(self._connection, revocations, {"fingerprint": party.fingerprint}, {"party": name, "at": now})
        unrevoked = parties.c.revoked.is_(None)
        self._connection.execute(parties.update().where(parties.c.name == name, unrevoked).values(revoked=now))

    def revoked_keys(self) -> tuple[str, ...]:
        """Fingerprints of every key that was revoked and did not enrol again."""
        chosen = select(revocations.c.fingerprint).order_by(revocations.c.fingerprint)
        return tuple(self._connection.scalars(chosen))

    def report_catalogue(self, catalogue: Catalogue, now: datetime) -> None:
        """Keep a party's catalogue in place of an earlier one. Specs that were made from that one stay as they are."""
        values = {"catalogue": catalogue.to_bytes(), "reported": now}
        put(self._connection, catalogues, {"party": catalogue.party}, values)

    def catalogues(self) -> dict[str, Catalogue]:
        """Party to the catalogue that it reported last."""
        rows = self._connection.execute(select(catalogues.c.party, catalogues.c.catalogue))
        return {row.party: Catalogue.from_bytes(row.catalogue) for row in rows}

    def _unused(self, now: datetime) -> Sequence[Row[Any]]:
        open_now = (invites.c.used.is_(None), invites.c.expires > now)
        return self._connection.execute(select(invites).where(*open_now).order_by(invites.c.party)).all()


def _invitation(row: Row[Any]) -> Invitation:
    return Invitation(row.party, row.cap_mu2, row.expires)


_KEY = "hub"


class HubCertificate(Part):
    """The hub's current certificate, in one transaction: the latest issued for it, or none."""

    def certificate(self) -> str | None:
        """The hub's latest certificate, PEM; None while no hub is accepted."""
        return self._setting(_KEY) or None

    def set(self, certificate: str) -> None:
        """Accept the hub with the key of this certificate. A hub with another key is no longer accepted."""
        self._set(_KEY, certificate)

    def clear(self) -> None:
        """Accept no hub. Again changes nothing."""
        self._set(_KEY, "")

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
