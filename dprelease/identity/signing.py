"""Keys and signatures: ECDSA over P-256 with SHA-256, one label for each purpose.

P-256 because one key then serves both gRPC's TLS (which takes no Ed25519) and signing. The label and the length-prefixed
parts make it impossible to pass a signature made for one purpose off as another's.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.files.durable import TEMPORARY, make_folder, sync_folder, write_secret

ACCEPTANCE = "dprelease/acceptance/v1"
APPROVAL = "dprelease/approval/v1"
BLOCK = "dprelease/block/v1"
CHARGES = "dprelease/charges/v1"
MANIFEST = "dprelease/manifest/v1"
SESSION = "dprelease/session/v1"

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey


def new_private_key() -> PrivateKey:
    """A fresh P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def private_key_pem(key: PrivateKey) -> bytes:
    """The key as unencrypted PKCS#8 PEM; file permissions protect it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_private_key(path: Path) -> PrivateKey:
    """Read a P-256 private key from PEM.

    Raises:
        InvalidInput: the file cannot be read, others may read it, or it holds another kind of key.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"{path} can be read by others; run: chmod 600 {path}")
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it wants a password
        raise InvalidInput(f"cannot read the private key {path}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InvalidInput(f"{path} does not hold a key on the curve P-256")
    return key


def write_private(path: Path, data: bytes) -> None:
    """Write a secret file that only its owner can read; refuse to replace one.

    Raises:
        InvalidInput: the file exists already.
        PeerUnavailable: the disk refuses it, as a full one does; nothing is left of it.
    """
    make_folder(path.parent)
    whole = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        write_secret(whole, [data])
        os.link(whole, path)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already; move it away if it is no longer needed") from error
    finally:
        whole.unlink(missing_ok=True)
    sync_folder(path.parent)


def key_fingerprint(key: PublicKey) -> str:
    """SHA-256 of the SubjectPublicKeyInfo, hexadecimal: what hospitals compare by telephone."""
    spki = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).hexdigest()


def sign(key: PrivateKey, label: str, *parts: bytes) -> str:
    """Signature over a label and parts, DER in hexadecimal."""
    return key.sign(_message(label, parts), ec.ECDSA(hashes.SHA256())).hex()


def verify(key: PublicKey, signature: str, label: str, *parts: bytes) -> None:
    """Check a signature made by `sign`.

    Raises:
        IntegrityError: it is not valid for this key, label and these parts.
    """
    try:
        key.verify(bytes.fromhex(signature), _message(label, parts), ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError) as error:
        raise IntegrityError(f"a signature of kind {label} is not valid") from error


def _message(label: str, parts: tuple[bytes, ...]) -> bytes:
    framed = [len(part).to_bytes(8, "big") + part for part in (label.encode(), *parts)]
    return b"".join(framed)
