"""Certificates: what they say, for how long, and which signing requests are taken."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coordinator.authority.authority import BACKDATED, Authority, general_name, hosts_of, read_signing_request
from dprelease.errors import Conflict, IntegrityError, InvalidInput
from dprelease.identity.certificates import Role, check_certificate, read_certificate, signing_request
from dprelease.identity.signing import key_fingerprint, new_private_key, private_key_pem, write_private
from tests.coordinator.office import NOW
from tests.support.damaged import mutated

AUTHORITY = Authority.found("Trio", NOW)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def request_for(key: CertificateIssuerPrivateKeyTypes, name: str = "north") -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, algorithm)
    return made.public_bytes(serialization.Encoding.PEM).decode()


def test_the_root_signs_roles_and_no_further_authority() -> None:
    root = AUTHORITY.root
    constraints = root.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    usage = root.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign
    assert not usage.digital_signature
    root.verify_directly_issued_by(root)


@pytest.mark.parametrize(
    ("role", "purposes"), [("party", {CLIENT}), ("coordinator", {SERVER}), ("hub", {SERVER, CLIENT})]
)
def test_a_certificate_carries_name_role_key_and_purpose(role: Role, purposes: set[x509.ObjectIdentifier]) -> None:
    key = new_private_key()
    pem = AUTHORITY.issue("north", role, key.public_key(), NOW, 90)
    identity = check_certificate(pem, AUTHORITY.root_pem, NOW, role)
    assert (identity.name, identity.role) == ("north", role)
    assert identity.fingerprint == key_fingerprint(key.public_key())
    certificate = read_certificate(pem)
    assert set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == purposes
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_validity_starts_a_little_before_and_ends_with_the_root_at_the_latest() -> None:
    key = new_private_key().public_key()
    certificate = read_certificate(AUTHORITY.issue("north", "party", key, NOW, 90))
    assert certificate.not_valid_before_utc == NOW - BACKDATED
    assert certificate.not_valid_after_utc == NOW + timedelta(days=90)
    long = read_certificate(AUTHORITY.issue("north", "party", key, NOW, 100_000))
    assert long.not_valid_after_utc == AUTHORITY.root.not_valid_after_utc
    with pytest.raises(Conflict, match="root certificate has expired"):
        AUTHORITY.issue("north", "party", key, NOW + timedelta(days=100_000), 90)


def test_serial_numbers_differ() -> None:
    key = new_private_key().public_key()
    serials = {read_certificate(AUTHORITY.issue("north", "party", key, NOW, 90)).serial_number for _ in range(20)}
    assert len(serials) == 20


def test_hosts_become_names_and_addresses() -> None:
    key = new_private_key().public_key()
    pem = AUTHORITY.issue("coordinator", "coordinator", key, NOW, 90, ("office.example.org", "127.0.0.1", "::1"))
    names = read_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["office.example.org"]
    addresses = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    assert names.get_values_for_type(x509.IPAddress) == addresses


@pytest.mark.parametrize(
    "host", ["", "office:7441", "https://office", "a b", "x" * 64, ".example.org", "büro.example.org"]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match="neither a host name nor an address"):
        general_name(host)


def test_the_key_of_a_signing_request_is_read_and_its_name_ignored() -> None:
    key = new_private_key()
    read = read_signing_request(signing_request("anybody else", key).decode())
    assert key_fingerprint(read) == key_fingerprint(key.public_key())


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP384R1()),
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["P-384", "RSA", "Ed25519"],
)
def test_other_kinds_of_key_are_refused(key: CertificateIssuerPrivateKeyTypes) -> None:
    with pytest.raises(InvalidInput, match="P-256"):
        read_signing_request(request_for(key))


@pytest.mark.parametrize(
    "text", ["", "nonsense", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
)
def test_what_is_no_signing_request_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a certificate signing request"):
        read_signing_request(text)


def test_a_request_not_signed_with_its_own_key_is_refused() -> None:
    """One bit of the signature is changed: whoever sends this does not hold the key."""
    der = bytearray(
        x509.load_pem_x509_csr(request_for(new_private_key()).encode()).public_bytes(serialization.Encoding.DER)
    )
    der[-1] ^= 1
    forged = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM).decode()
    with pytest.raises(InvalidInput, match="not signed with its own key"):
        read_signing_request(forged)


def test_an_authority_is_read_from_its_files_and_its_key_must_fit(tmp_path: Path) -> None:
    (tmp_path / "root.pem").write_bytes(AUTHORITY.root_pem)
    write_private(tmp_path / "root.key", private_key_pem(AUTHORITY.key))
    write_private(tmp_path / "other.key", private_key_pem(new_private_key()))
    read = Authority.load(tmp_path / "root.pem", tmp_path / "root.key")
    assert read.root == AUTHORITY.root
    with pytest.raises(InvalidInput, match="is not the key of"):
        Authority.load(tmp_path / "root.pem", tmp_path / "other.key")
    with pytest.raises(InvalidInput, match="cannot read"):
        Authority.load(tmp_path / "missing.pem", tmp_path / "root.key")


def test_a_certificate_of_another_consortium_does_not_pass() -> None:
    stranger = Authority.found("Trio", NOW)
    pem = stranger.issue("north", "party", new_private_key().public_key(), NOW, 90)
    with pytest.raises(IntegrityError, match="pinned consortium root"):
        check_certificate(pem, AUTHORITY.root_pem, NOW, "party")


@pytest.mark.filterwarnings("ignore:Parsed a serial number", "ignore:The parsed certificate contains")
def test_a_damaged_certificate_is_not_renewed_and_names_no_host() -> None:
    issued = AUTHORITY.issue("hub", "hub", new_private_key().public_key(), NOW, 90, ["hub.example.org", "10.0.0.7"])
    refused = 0
    for pem in mutated(issued.decode(), "CERTIFICATE", 3_000, seed=7):
        try:
            hosts_of(read_certificate(pem))
            AUTHORITY.renew(pem, NOW, 90)
        except InvalidInput:
            refused += 1
    assert refused > 2_900


def test_a_damaged_signing_request_is_refused() -> None:
    request = signing_request("north", new_private_key()).decode()
    for pem in mutated(request, "CERTIFICATE REQUEST", 3_000, seed=7):
        with pytest.raises(InvalidInput):
            read_signing_request(pem)
