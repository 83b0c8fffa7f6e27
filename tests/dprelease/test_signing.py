"""Keys and signatures: one purpose each, and secrets that only their owner can read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.signing import (
    APPROVAL,
    BLOCK,
    MANIFEST,
    key_fingerprint,
    load_private_key,
    new_private_key,
    private_key_pem,
    sign,
    verify,
    write_private,
)
from tests.support.damaged import mutated

KEY = new_private_key()
PUBLIC = KEY.public_key()


@pytest.mark.parametrize("label", [APPROVAL, BLOCK, MANIFEST])
@pytest.mark.parametrize("parts", [(), (b"",), (b"one",), (b"one", b"two")])
def test_what_was_signed_verifies(label: str, parts: tuple[bytes, ...]) -> None:
    verify(PUBLIC, sign(KEY, label, *parts), label, *parts)


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


def test_keys_are_on_p256() -> None:
    assert isinstance(KEY.curve, ec.SECP256R1)


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
