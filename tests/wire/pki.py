"""Certificates for real handshakes on the loopback: valid now, with the host names that TLS asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from dprelease.identity.signing import PrivateKey, PublicKey, key_fingerprint, new_private_key, private_key_pem
from dprelease.release.charges import Charge, state
from dprelease.wire.transport import Credentials

HOST = "localhost"


@dataclass(frozen=True)
class Member:
    """A key and its certificate, PEM."""

    name: str
    key: PrivateKey
    certificate: str

    @property
    def fingerprint(self) -> str:
        return key_fingerprint(self.key.public_key())

    def credentials(self, root: str) -> Credentials:
        """For mutual TLS as this member, against a root."""
        return Credentials(root.encode(), self.certificate.encode(), private_key_pem(self.key))


class Authority:
    """A consortium's root."""

    def __init__(self, consortium: str = "trial") -> None:
        self.consortium = consortium
        self._key = new_private_key()
        self.root = self._sign(consortium, None, self._key.public_key(), (), timedelta(days=30), authority=True)

    def member(self, name: str, role: str | None, *, lasting: timedelta = timedelta(days=30)) -> Member:
        """A fresh key with a certificate for the loopback."""
        key = new_private_key()
        return Member(name, key, self.issue(name, role, key.public_key(), lasting=lasting))

    def issue(
        self,
        name: str,
        role: str | None,
        key: PublicKey,
        *,
        lasting: timedelta = timedelta(days=30),
        authority: bool = False,
    ) -> str:
        """A certificate over a key, PEM."""
        return self._sign(name, role, key, (HOST,), lasting, authority=authority)

    def statement(self, party: str, *charges: Charge) -> bytes:
        """What the office has seen charged to a party, signed by the root."""
        return state(self.consortium, party, charges, self._key, datetime.now(UTC)).to_bytes()

    def _sign(
        self,
        name: str,
        role: str | None,
        key: PublicKey,
        hosts: Iterable[str],
        lasting: timedelta,
        *,
        authority: bool,
    ) -> str:
        now = datetime.now(UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.consortium)])
        units = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role)] if role else []
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), *units]))
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=30))
            .not_valid_after(now + lasting)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        names = [x509.DNSName(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
