"""The consortium's certificate authority: one private root, one level below it, ECDSA over P-256.

A certificate carries a name and a role (`dprelease.identity.certificates`). Both are the authority's to say: from a signing
request only the public key is taken.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dprelease.errors import Conflict, InvalidInput
from dprelease.files.durable import can
from dprelease.identity.certificates import Role, read_certificate, read_identity
from dprelease.identity.signing import PrivateKey, PublicKey, key_fingerprint, load_private_key, new_private_key

ROOT_DAYS = 3653
SERVER_DAYS = 730
BACKDATED = timedelta(minutes=5)
"""Certificates are valid from a little before they were made, for clocks that run behind."""

_PURPOSES = {
    "party": (ExtendedKeyUsageOID.CLIENT_AUTH,),
    "coordinator": (ExtendedKeyUsageOID.SERVER_AUTH,),
    "hub": (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
}


@dataclass(frozen=True)
class Authority:
    """The root certificate and its key.

    Attributes:
        root: self-signed root certificate.
        key: its private key; the most valuable secret of the office.
    """

    root: x509.Certificate
    key: PrivateKey

    @classmethod
    def found(cls, consortium: str, now: datetime) -> Self:
        """A new root for a consortium. It may sign certificates of roles, but no further authority."""
        key = new_private_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, consortium)])
        usage = _key_usage(key_cert_sign=True, crl_sign=True)
        builder = _builder(name, name, key.public_key(), now, timedelta(days=ROOT_DAYS))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, root: Path, key: Path) -> Self:
        """Read an authority from its files.

        Raises:
            InvalidInput: a file cannot be read, or the key is not the root's.
        """
        with can("read", root):
            certificate = read_certificate(root.read_bytes())
        private = load_private_key(key)
        public = certificate.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or (
            key_fingerprint(public) != key_fingerprint(private.public_key())
        ):
            raise InvalidInput(f"{key} is not the key of the root certificate {root}")
        return cls(certificate, private)

    @property
    def root_pem(self) -> bytes:
        """The root certificate, PEM."""
        return pem(self.root)

    def renew(self, certificate: bytes | str, now: datetime, days: int) -> bytes:
        """A later certificate for the same name, role, key and hosts, PEM.

        Args:
            certificate: one that this authority issued, expired or not.
            now: the present.
            days: validity; never beyond the root's own.

        Raises:
            InvalidInput: it is not a certificate of this authority.
            Conflict: the root has expired.
        """
        old, identity = read_certificate(certificate), read_identity(certificate)
        try:
            old.verify_directly_issued_by(self.root)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise InvalidInput(f"the certificate of {identity.name} was not issued by this authority") from error
        return self.issue(identity.name, identity.role, identity.key, now, days, hosts_of(old))

    def issue(
        self, name: str, role: Role, key: PublicKey, now: datetime, days: int, hosts: Iterable[str] = ()
    ) -> bytes:
        """A certificate for a role, PEM.

        Args:
            name: common name.
            role: organisational unit; decides what TLS may use the certificate for.
            key: the holder's public key.
            now: the present.
            days: validity; never beyond the root's own.
            hosts: names and addresses of a server.

        Raises:
            Conflict: the root has expired.
            InvalidInput: a host is neither a name nor an address.
        """
        if self.root.not_valid_after_utc <= now:
            raise Conflict("the consortium's root certificate has expired; a new consortium must be founded")
        units = [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
        ]
        lasting = min(timedelta(days=days), self.root.not_valid_after_utc - now)
        builder = _builder(x509.Name(units), self.root.subject, key, now, lasting)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(digital_signature=True), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(_PURPOSES[role]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        names = [general_name(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return pem(builder.sign(self.key, hashes.SHA256()))


def read_signing_request(request: str) -> PublicKey:
    """The public key of a certificate signing request whose sender holds the private half.

    Args:
        request: PEM. Its subject is ignored: names come from invites.

    Raises:
        InvalidInput: not a signing request, not signed with its own key, or the key is not on P-256.
    """
    try:
        parsed = x509.load_pem_x509_csr(request.encode())
        valid = parsed.is_signature_valid
        key = parsed.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.InvalidVersion) as error:
        raise InvalidInput("not a certificate signing request in PEM") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InvalidInput("the key of a signing request must be on P-256")
    if not valid:
        raise InvalidInput("the signing request was not signed with its own key")
    return key


def general_name(host: str) -> x509.GeneralName:
    """A host as an entry of a server's certificate: an address as an address, anything else as a DNS name.

    Raises:
        InvalidInput: it is neither.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        labels = host.encode("ascii").decode().split(".")
    except UnicodeEncodeError:
        labels = [""]
    if not all(label and len(label) <= 63 and label.replace("-", "").isalnum() for label in labels):
        raise InvalidInput(f"{host!r} is neither a host name nor an address, e.g. office.example.org or 10.0.0.7")
    return x509.DNSName(host)


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Names and addresses of a server, from its certificate; none of a party's."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PublicKey, now: datetime, lasting: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - BACKDATED).not_valid_after(now + lasting)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
