"""Certificates: judged against a pinned root, at a moment, for a role.

Keys and signatures: one purpose each, and secrets that only their owner can read.
"""

import base64
import hashlib
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.certificates import (
    certificate_fingerprint,
    check_certificate,
    read_certificate,
    read_identity,
    renewal_due,
    signing_request,
)
from dprelease.identity.signing import (
    APPROVAL,
    BLOCK,
    key_fingerprint,
    load_private_key,
    new_private_key,
    private_key_pem,
    sign,
    verify,
    write_private,
)
from tests.support.certificates import NOW, Member, certify
from tests.support.damaged import mutated

ROOT = certify("trial", None, authority=True)
NORTH = certify("north", "party", by=ROOT)


def test_a_good_certificate_names_its_holder() -> None:
    identity = check_certificate(NORTH.certificate, ROOT.certificate, NOW, "party")
    assert (identity.name, identity.role) == ("north", "party")
    assert identity.fingerprint == NORTH.fingerprint
    assert int(identity.serial, 16) == read_certificate(NORTH.certificate).serial_number
    assert read_identity(NORTH.certificate.encode()) == identity


@pytest.mark.parametrize("offset", [timedelta(days=-1), timedelta(days=90)])
def test_validity_includes_its_ends(offset: timedelta) -> None:
    check_certificate(NORTH.certificate, ROOT.certificate, NOW + offset, "party")


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("offset", [-timedelta(days=1) - SECOND, timedelta(days=90) + SECOND, timedelta(days=9000)])
def test_outside_its_validity_a_certificate_is_refused(offset: timedelta) -> None:
    with pytest.raises(IntegrityError, match="not valid at"):
        check_certificate(NORTH.certificate, ROOT.certificate, NOW + offset, "party")


@pytest.mark.parametrize("role", ["hub", "coordinator"])
def test_another_role_is_refused(role: str) -> None:
    with pytest.raises(IntegrityError, match=f"holds a {role} certificate where a party"):
        check_certificate(certify("x", role, by=ROOT).certificate, ROOT.certificate, NOW, "party")


def _same_name_other_key() -> Member:
    return certify("trial", None, authority=True)


@pytest.mark.parametrize(
    "issuer", [_same_name_other_key(), certify("elsewhere", None, authority=True), None], ids=["twin", "other", "self"]
)
def test_another_issuer_is_refused(issuer: Member | None) -> None:
    forged = certify("north", "party", by=issuer)
    with pytest.raises(IntegrityError, match="not issued by the pinned consortium root"):
        check_certificate(forged.certificate, ROOT.certificate, NOW, "party")


def test_a_party_cannot_issue_certificates() -> None:
    forged = certify("south", "party", by=NORTH)
    with pytest.raises(IntegrityError, match="not issued by"):
        check_certificate(forged.certificate, ROOT.certificate, NOW, "party")


@pytest.mark.parametrize("member", [ROOT, certify("north", "party", by=ROOT, authority=True)], ids=["root", "under it"])
def test_an_authority_is_no_party(member: Member) -> None:
    with pytest.raises(IntegrityError, match="authority stands where"):
        check_certificate(member.certificate, ROOT.certificate, NOW, "party")


@pytest.mark.parametrize("role", [None, "admin", "Party"])
def test_a_certificate_without_a_known_role_is_refused(role: str | None) -> None:
    strange = certify("north", role, by=ROOT).certificate
    with pytest.raises(IntegrityError, match="one holder and one role"):
        check_certificate(strange, ROOT.certificate, NOW, "party")
    with pytest.raises(InvalidInput, match="one holder and one role"):
        read_identity(strange)


def test_a_key_on_another_curve_is_refused() -> None:
    other = certify("north", "party", by=ROOT, key=ec.generate_private_key(ec.SECP384R1()))
    with pytest.raises(IntegrityError, match="not on P-256"):
        check_certificate(other.certificate, ROOT.certificate, NOW, "party")


def test_text_that_is_no_certificate() -> None:
    with pytest.raises(InvalidInput, match="not a PEM certificate"):
        read_certificate("hello")
    with pytest.raises(IntegrityError):
        check_certificate("hello", ROOT.certificate, NOW, "party")


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # cryptography's remark on some of the damaged ones
def test_any_bit_of_the_signed_part_matters() -> None:
    certificate = read_certificate(NORTH.certificate)
    whole, signed = certificate.public_bytes(serialization.Encoding.DER), certificate.tbs_certificate_bytes
    start = 8 * whole.index(signed)
    for bit in range(start, start + 8 * len(signed)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        pem = f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(damaged).decode()}-----END CERTIFICATE-----\n"
        with pytest.raises(IntegrityError):
            check_certificate(pem, ROOT.certificate, NOW, "party")


def test_fingerprint_is_of_the_whole_certificate() -> None:
    expected = read_certificate(ROOT.certificate).fingerprint(hashes.SHA256()).hex()
    assert certificate_fingerprint(ROOT.certificate) == expected
    assert certificate_fingerprint(certify("trial", None, authority=True, key=ROOT.key).certificate) != expected


def test_a_signing_request_names_its_key() -> None:
    key = new_private_key()
    request = x509.load_pem_x509_csr(signing_request("north", key))
    assert request.is_signature_valid
    assert request.subject.rfc4514_string() == "CN=north"
    public = request.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert key_fingerprint(public) == key_fingerprint(key.public_key())


@pytest.mark.parametrize(
    ("left", "due"), [(timedelta(days=31), False), (timedelta(days=30), True), (timedelta(0), True), (-SECOND, True)]
)
def test_a_certificate_is_due_when_less_than_a_third_of_its_life_is_left(left: timedelta, due: bool) -> None:
    ends = read_identity(NORTH.certificate).expires  # it lasts 91 days
    assert renewal_due(NORTH.certificate, ends - left) is due


READERS: dict[str, Callable[[str], object]] = {
    "read_certificate": read_certificate,
    "certificate_fingerprint": certificate_fingerprint,
    "read_identity": read_identity,
    "renewal_due": lambda pem: renewal_due(pem, NOW),
    "check_certificate": lambda pem: check_certificate(pem, ROOT.certificate, NOW, "party"),
    "check_certificate against it": lambda pem: check_certificate(NORTH.certificate, pem, NOW, "party"),
    "every part": lambda pem: [getattr(read_certificate(pem), part) for part in PARTS],
}
PARTS = ("version", "subject", "issuer", "extensions", "serial_number", "not_valid_before_utc", "not_valid_after_utc")


@pytest.mark.filterwarnings("ignore:Parsed a serial number", "ignore:The parsed certificate contains")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_certificate_ends_in_the_documented_error(name: str) -> None:
    expected = IntegrityError if name.startswith("check") else InvalidInput
    refused = 0
    for pem in mutated(NORTH.certificate, "CERTIFICATE", 3_000, seed=7):
        try:
            READERS[name](pem)
        except expected:
            refused += 1
    assert refused > 1_000


@pytest.mark.parametrize("version", [0x03, 0x22, 0xFF])
def test_a_version_that_there_is_not(version: int) -> None:
    der = base64.b64decode("".join(NORTH.certificate.strip().splitlines()[1:-1]))
    damaged = der.replace(b"\xa0\x03\x02\x01\x02", bytes([0xA0, 0x03, 0x02, 0x01, version]), 1)
    pem = f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(damaged).decode()}-----END CERTIFICATE-----\n"
    with pytest.raises(InvalidInput, match="not a PEM certificate, or a damaged one"):
        read_identity(pem)


KEY = new_private_key()
PUBLIC = KEY.public_key()


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        (BLOCK, (b"ab", b"c")),
        (APPROVAL, (b"ab", b"d")),
        (APPROVAL, (b"a", b"bc")),
        (APPROVAL, (b"abc",)),
        (APPROVAL, (b"ab", b"c", b"")),
        (APPROVAL, (b"c", b"ab")),
        (APPROVAL + "ab", (b"c",)),
    ],
)
def test_a_signature_speaks_for_its_label_and_parts_only(label: str, parts: tuple[bytes, ...]) -> None:
    signature = sign(KEY, APPROVAL, b"ab", b"c")
    with pytest.raises(IntegrityError, match=f"kind {label} is not valid"):
        verify(PUBLIC, signature, label, *parts)


def test_a_signature_of_another_key_is_refused() -> None:
    with pytest.raises(IntegrityError):
        verify(new_private_key().public_key(), sign(KEY, BLOCK, b"x"), BLOCK, b"x")


@pytest.mark.parametrize("signature", ["", "00", "zz", "é", "3006020101020101"])
def test_text_that_is_no_signature_is_refused(signature: str) -> None:
    with pytest.raises(IntegrityError):
        verify(PUBLIC, signature, BLOCK, b"x")


def test_fingerprint_is_the_hash_of_the_public_key_info() -> None:
    spki = PUBLIC.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert key_fingerprint(PUBLIC) == hashlib.sha256(spki).hexdigest()
    assert key_fingerprint(PUBLIC) != key_fingerprint(new_private_key().public_key())


def test_a_key_is_written_for_its_owner_alone_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.pem"
    write_private(path, private_key_pem(KEY))
    assert path.stat().st_mode & 0o777 == 0o600
    assert key_fingerprint(load_private_key(path).public_key()) == key_fingerprint(PUBLIC)


def test_a_secret_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_private(path, b"first")
    with pytest.raises(InvalidInput, match="exists already"):
        write_private(path, b"second")
    assert path.read_bytes() == b"first"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key.pem"
    write_private(path, private_key_pem(KEY))
    path.chmod(mode)
    with pytest.raises(InvalidInput, match="chmod 600"):
        load_private_key(path)


def _pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"not a key", _pem(ed25519.Ed25519PrivateKey.generate()), _pem(ec.generate_private_key(ec.SECP384R1()))],
    ids=["empty", "text", "ed25519", "p384"],
)
def test_files_that_hold_no_p256_key_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "key.pem"
    write_private(path, data)
    with pytest.raises(InvalidInput, match=r"key\.pem"):
        load_private_key(path)


def test_an_absent_key_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot read the private key .*absent\.pem"):
        load_private_key(tmp_path / "absent.pem")


def test_the_process_mask_does_not_widen_a_secret(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "secret", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    path, refused = tmp_path / "key.pem", 0
    write_private(path, b"")
    for pem in mutated(private_key_pem(KEY).decode(), "PRIVATE KEY", 3_000, seed=7):
        path.write_text(pem)
        try:
            load_private_key(path)
        except InvalidInput:
            refused += 1
    assert refused > 1_000


def test_a_key_that_wants_a_password_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    locked = serialization.BestAvailableEncryption(b"secret")
    write_private(path, KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    with pytest.raises(InvalidInput, match="cannot read the private key"):
        load_private_key(path)
