"""Keys and certificates of consortia: at the time when most tests happen, or valid now, for handshakes on the loopback."""

import ipaddress
import ssl
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from dprelease.identity.certificates import Identity, read_certificate, read_identity
from dprelease.identity.signing import PrivateKey, PublicKey, key_fingerprint, new_private_key, private_key_pem
from dprelease.release.charges import Charge, state
from dprelease.wire.transport import Credentials

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
"""When everything happens in tests that do not say otherwise."""

HOST = "localhost"
_BEFORE = timedelta(days=31)
MONTH = timedelta(days=30)


def served(port: int) -> str:
    """The certificate that a server on this machine shows."""
    pem = ssl.get_server_certificate((HOST, port))
    return read_certificate(pem).public_bytes(serialization.Encoding.PEM).decode()


def served_if_any(port: int) -> str | None:
    """None for the connection that is being made at the very moment of the change: it is cut, and the next one is not."""
    try:
        return served(port)
    except (ssl.SSLError, ConnectionError):
        return None


@dataclass(frozen=True)
class Member:
    """A key, its certificate (PEM) and whom they speak for; an authority is a member too."""

    name: str
    key: PrivateKey
    certificate: str

    @property
    def fingerprint(self) -> str:
        return key_fingerprint(self.key.public_key())

    @property
    def identity(self) -> Identity:
        return read_identity(self.certificate)

    @property
    def key_pem(self) -> bytes:
        return private_key_pem(self.key)

    def credentials(self, root: str) -> Credentials:
        """For mutual TLS as this member, against a root."""
        return Credentials(root.encode(), self.certificate.encode(), self.key_pem)


def certify(
    name: str,
    role: str | None,
    *,
    by: Member | None = None,
    key: PrivateKey | None = None,
    authority: bool = False,
    address: bool = False,
    start: datetime = NOW - timedelta(days=1),
    end: datetime = NOW + timedelta(days=90),
) -> Member:
    """A member with a certificate for `HOST`.

    Args:
        name: common name.
        role: organisational unit; None leaves it out.
        by: the authority that signs; None makes a self-signed one.
        key: the holder's key; fresh unless given.
        authority: whether the certificate may sign others.
        address: whether it names the loopback's address, too.
        start: not valid before.
        end: not valid after.
    """
    holder = key or new_private_key()
    made = Member(name, holder, "")
    return replace(
        made, certificate=_signed(name, role, holder.public_key(), by or made, start, end, authority, address)
    )


def mint(
    name: str, role: str | None, by: Member | None = None, *, key: PrivateKey | None = None, days: float = 30
) -> Member:
    """A member whose certificate is valid now, also for the loopback's address; without `by`, an authority."""
    now = datetime.now(UTC)
    span = {"start": now - _BEFORE, "end": now + timedelta(days=days)}
    return certify(name, role, by=by, key=key, authority=by is None, address=True, **span)


class Authority:
    """A consortium's root, valid now."""

    def __init__(self, consortium: str = "trial") -> None:
        self.consortium = consortium
        self._member = mint(consortium, None)
        self.root = self._member.certificate

    def member(self, name: str, role: str | None, *, lasting: timedelta = MONTH) -> Member:
        key = new_private_key()
        return Member(name, key, self.issue(name, role, key.public_key(), lasting=lasting))

    def issue(
        self, name: str, role: str | None, key: PublicKey, *, lasting: timedelta = MONTH, authority: bool = False
    ) -> str:
        """A certificate over a key, PEM."""
        now = datetime.now(UTC)
        return _signed(name, role, key, self._member, now - _BEFORE, now + lasting, authority)

    def statement(self, party: str, *charges: Charge) -> bytes:
        """What the office has seen charged to a party, signed by the root."""
        return state(self.consortium, party, charges, self._member.key, datetime.now(UTC)).to_bytes()


def _signed(
    name: str,
    role: str | None,
    key: PublicKey,
    by: Member,
    start: datetime,
    end: datetime,
    authority: bool,
    address: bool = False,
) -> str:
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if role is not None:
        subject.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role))
    issuer = x509.load_pem_x509_certificate(by.certificate.encode()).subject if by.certificate else x509.Name(subject)
    hosts: list[x509.GeneralName] = [x509.DNSName(HOST)]
    if address:
        hosts.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    )
    return builder.sign(by.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
