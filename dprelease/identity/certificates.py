"""Certificates of a consortium: one private root, one level, a name and a role in each certificate.

The root is pinned by whoever verifies; a certificate found in a message or manifest never vouches for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.signing import PrivateKey, PublicKey, key_fingerprint

Role = Literal["party", "coordinator", "hub"]


# cryptography parses a certificate's parts when they are asked for, so a damaged one may fail at any of them.
_PARTS = ("version", "subject", "issuer", "serial_number", "not_valid_before_utc", "not_valid_after_utc", "extensions")
_UNREADABLE = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True)
class Identity:
    """Subject that a checked certificate speaks for.

    Attributes:
        name: common name.
        role: organisational unit.
        key: public key.
        serial: serial number, hexadecimal.
        expires: until when the certificate is valid.
    """

    name: str
    role: Role
    key: PublicKey
    serial: str
    expires: datetime

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the public key."""
        return key_fingerprint(self.key)


def read_certificate(pem: bytes | str) -> x509.Certificate:
    """Parse one PEM certificate, whole: what is returned can be asked for any of its parts.

    Raises:
        InvalidInput: it is not one, or is damaged.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode() if isinstance(pem, str) else pem)
        certificate.public_key()
        for part in _PARTS:
            getattr(certificate, part)
    except _UNREADABLE as error:
        raise InvalidInput("not a PEM certificate, or a damaged one") from error
    return certificate


def certificate_fingerprint(pem: bytes | str) -> str:
    """SHA-256 of the certificate (DER), hexadecimal: what a learner compares when pinning a root.

    Raises:
        InvalidInput: it is not a certificate.
    """
    return read_certificate(pem).fingerprint(hashes.SHA256()).hex()


def read_identity(pem: bytes | str) -> Identity:
    """Name, role and key written in a certificate, unchecked: use `check_certificate` unless TLS has checked it.

    Raises:
        InvalidInput: it is not a certificate of this system.
    """
    certificate = read_certificate(pem)
    names = [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    roles = [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)]
    key = certificate.public_key()
    if len(names) != 1 or len(roles) != 1 or roles[0] not in get_args(Role):
        raise InvalidInput("the certificate does not name one holder and one role")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InvalidInput("the certificate's key is not on P-256")
    serial, expires = f"{certificate.serial_number:x}", certificate.not_valid_after_utc
    return Identity(names[0], roles[0], key, serial, expires)  # type: ignore[arg-type]


def renewal_due(pem: bytes | str, now: datetime) -> bool:
    """Tells whether less than a third is left of a certificate's life: time for the next one, with time for trouble.

    Raises:
        InvalidInput: it is not a certificate.
    """
    certificate = read_certificate(pem)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now < life / 3


def check_certificate(pem: bytes | str, root_pem: bytes | str, at: datetime, role: Role) -> Identity:
    """Check a certificate against a pinned root, at a moment, for a role.

    Args:
        pem: the certificate.
        root_pem: the pinned consortium root.
        at: when the certificate must be (or have been) valid.
        role: the role it must carry.

    Raises:
        IntegrityError: wrong issuer, outside its validity, an authority itself, or another role.
    """
    try:
        certificate, root = read_certificate(pem), read_certificate(root_pem)
        certificate.verify_directly_issued_by(root)
        if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
            raise IntegrityError(f"a certificate was not valid at {at:%Y-%m-%d %H:%M:%S} UTC")
        if _is_authority(certificate):
            raise IntegrityError("a certificate authority stands where a role's certificate belongs")
        identity = read_identity(pem)
    except InvalidInput as error:
        raise IntegrityError(error.message) from error
    except _UNREADABLE as error:
        raise IntegrityError("a certificate is damaged or was not issued by the pinned consortium root") from error
    if identity.role != role:
        raise IntegrityError(f"{identity.name} holds a {identity.role} certificate where a {role} is needed")
    return identity


def check_renewed(pem: str, held: str, root_pem: str, at: datetime) -> Identity:
    """Check what a coordinator answered to a request for a later certificate.

    Raises:
        IntegrityError: as `check_certificate`; or its holder is another than before, or it ends no later.
    """
    before = read_identity(held)
    granted = check_certificate(pem, root_pem, at, before.role)
    if (granted.name, granted.fingerprint) != (before.name, before.fingerprint):
        raise IntegrityError("the coordinator answered with a certificate for somebody else")
    if granted.expires <= before.expires:
        raise IntegrityError("the coordinator answered with a certificate that ends no later than ours")
    return granted


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def signing_request(name: str, key: PrivateKey) -> bytes:
    """A certificate signing request for a name, PEM. The authority decides the role."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)
