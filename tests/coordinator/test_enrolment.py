"""Invites and the caps that go with them; the call itself is tested over the wire in test_service.py.

Certificates: what they say, for how long, and which signing requests are taken.
"""

import ipaddress
import math
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coordinator.authority.authority import BACKDATED, Authority, general_name, hosts_of, read_signing_request
from coordinator.lifecycle import Approved
from coordinator.service import enrolment
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.errors import Conflict, InvalidInput, Unauthenticated
from dprelease.files.settings import read_settings
from dprelease.identity.certificates import Role, check_certificate, read_certificate, read_identity, signing_request
from dprelease.identity.invite import Invite
from dprelease.identity.signing import key_fingerprint, new_private_key, private_key_pem, write_private
from dprelease.privacy.gaussian import epsilon_of
from dprelease.spec_base import moment
from dprelease.wire.v1.enrolment_pb2 import EnrolRequest
from tests.coordinator.office import NOW, Office, catalogue, founded
from tests.support.damaged import mutated

DAY = timedelta(hours=24)
THIRD = Fraction(1, 3)


@pytest.fixture
def settings(tmp_path: Path) -> CoordinatorSettings:
    return read_settings(founded(tmp_path / "office", NOW).settings, CoordinatorSettings)


@pytest.fixture
def office(store: Store) -> Office:
    return Office(store)


def invite(
    office: Office, settings: CoordinatorSettings, party: str, share: Fraction | None, now: datetime = NOW
) -> Invite:
    cap = None if share is None else enrolment.share_of(office.store.consortium, share)
    return enrolment.invite(office.store, settings, office.authority.root_pem, party, cap, now, DAY)


def join(office: Office, settings: CoordinatorSettings, made: Invite, subject: str = "whoever") -> str:
    request = EnrolRequest(secret=made.secret, signing_request=signing_request(subject, new_private_key()).decode())
    return enrolment.enrol(request, office.store, office.authority, settings, NOW).certificate


def test_an_invite_carries_what_a_hospital_needs(office: Office, settings: CoordinatorSettings) -> None:
    made = Invite.from_token(invite(office, settings, "north", THIRD).token())
    assert (made.consortium, made.party) == ("Trio", "north")
    assert made.address == "localhost:7442"
    assert made.root == office.authority.root_pem.decode()
    assert Fraction(made.cap_mu2) == office.store.consortium.mu2 / 3
    assert moment(made.expires) == NOW + DAY
    assert invite(office, settings, "north", THIRD).secret != made.secret


def test_the_name_in_the_certificate_is_the_invites(office: Office, settings: CoordinatorSettings) -> None:
    certificate = join(office, settings, invite(office, settings, "north", THIRD), subject="south")
    assert read_identity(certificate).name == "north"
    with office.store.reading() as tx:
        known = tx.members.find("north")
    assert known is not None
    assert known.certificate == certificate
    assert known.cap_mu2 == office.store.consortium.mu2 / 3


def test_caps_sum_to_at_most_the_consortiums(office: Office, settings: CoordinatorSettings) -> None:
    join(office, settings, invite(office, settings, "north", THIRD))
    invite(office, settings, "south", THIRD)
    with pytest.raises(Conflict, match=r"0\.3333 of it is left, 0\.5 was asked for"):
        invite(office, settings, "west", Fraction(1, 2))
    invite(office, settings, "west", THIRD)
    with pytest.raises(Conflict, match="0 of it is left"):
        invite(office, settings, "east", Fraction(1, 10**9))
    with office.store.reading() as tx:
        assert sum(enrolment.caps(tx, NOW).values()) == office.store.consortium.mu2


def test_a_lapsed_invite_frees_its_cap(office: Office, settings: CoordinatorSettings) -> None:
    old = invite(office, settings, "north", Fraction(1))
    invite(office, settings, "south", Fraction(1), now=NOW + DAY)
    with pytest.raises(Unauthenticated):
        enrolment.enrol(
            EnrolRequest(secret=old.secret, signing_request="late"), office.store, office.authority, settings, NOW + DAY
        )


def test_inviting_again_before_enrolment_replaces_invite_and_cap(office: Office, settings: CoordinatorSettings) -> None:
    first = invite(office, settings, "north", Fraction(1))
    second = invite(office, settings, "north", THIRD)
    assert Fraction(second.cap_mu2) == office.store.consortium.mu2 / 3
    assert invite(office, settings, "north", None).cap_mu2 == second.cap_mu2
    with pytest.raises(InvalidInput, match="'North' is 'north' on disks that tell no capitals apart"):
        invite(office, settings, "North", THIRD)
    invite(office, settings, "south", Fraction(2, 3))
    with pytest.raises(Unauthenticated):
        join(office, settings, first)


def test_an_enrolled_party_keeps_its_cap(office: Office, settings: CoordinatorSettings) -> None:
    first = join(office, settings, invite(office, settings, "north", THIRD))
    assert Fraction(invite(office, settings, "north", None).cap_mu2) == office.store.consortium.mu2 / 3
    with pytest.raises(Conflict, match="was fixed when it joined"):
        invite(office, settings, "north", Fraction(1, 2))
    second = join(office, settings, invite(office, settings, "north", THIRD))
    assert read_identity(second).serial != read_identity(first).serial
    with office.store.reading() as tx:
        assert enrolment.caps(tx, NOW) == {"north": office.store.consortium.mu2 / 3}


def test_a_new_party_needs_a_cap_and_a_proper_name(office: Office, settings: CoordinatorSettings) -> None:
    with pytest.raises(InvalidInput, match="--share 1/3"):
        invite(office, settings, "north", None)
    with pytest.raises(InvalidInput, match="cannot name a hospital"):
        invite(office, settings, "no spaces please", THIRD)
    for kept in ("CON", "aux.site", "Lpt1"):
        with pytest.raises(InvalidInput, match="Windows keeps it"):
            invite(office, settings, kept, THIRD)
    for part in (Fraction(0), Fraction(-1), Fraction(3, 2)):
        with pytest.raises(InvalidInput, match="share"):
            invite(office, settings, "north", part)
    with office.store.reading() as tx:
        assert tx.members.invitations(NOW) == ()


def test_a_cap_may_be_said_as_an_epsilon(office: Office) -> None:
    cap = enrolment.cap_of_epsilon(office.store.consortium, 1.5)
    assert epsilon_of(math.sqrt(cap), 1e-6) == pytest.approx(1.5, rel=1e-9)
    assert epsilon_of(math.sqrt(cap), 1e-6) <= 1.5
    with pytest.raises(InvalidInput):
        enrolment.cap_of_epsilon(office.store.consortium, 0.0)


def test_a_revoked_partys_cap_is_free_only_if_it_can_have_spent_nothing(
    office: Office, settings: CoordinatorSettings
) -> None:
    office.enrol("north", "south", share=Fraction(1, 2))
    office.store.revoke("north", NOW)
    invite(office, settings, "west", Fraction(1, 2))
    office.store.revoke("west", NOW)
    office.enrol("north", share=Fraction(1, 2))
    office.report(catalogue("north"), catalogue("south"))
    release = office.propose(epsilon=0.5)
    with office.store.writing() as tx:
        for party in ("north", "south"):
            tx.releases.advance(release.digest, Approved(party), NOW, b"signed")
    office.store.revoke("north", NOW)
    with pytest.raises(Conflict, match="0 of it is left"):
        invite(office, settings, "west", Fraction(1, 10))
    assert Fraction(invite(office, settings, "north", None).cap_mu2) == office.store.consortium.mu2 / 2


def test_a_refused_signing_request_leaves_the_invite_good(office: Office, settings: CoordinatorSettings) -> None:
    made = invite(office, settings, "north", THIRD)
    with pytest.raises(InvalidInput):
        enrolment.enrol(
            EnrolRequest(secret=made.secret, signing_request="rubbish"), office.store, office.authority, settings, NOW
        )
    join(office, settings, made)


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
