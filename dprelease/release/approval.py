"""A party's signed consent to one spec digest, with a commitment to its own columns; see `dprelease.agreement`."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from dprelease.agreement import SignedConsent
from dprelease.canonical import Digest, Instant, Name, Value, instant
from dprelease.identity.signing import APPROVAL, PrivateKey, sign
from dprelease.release.spec import ReleaseSpec

SALT_BYTES = 32


class Approval(Value):
    """What is signed.

    Attributes:
        party: who approves.
        spec: digest of the release spec.
        commitment: salted commitment to the digest of the party's quantised, ordered columns.
        approved: when.
    """

    party: Name
    spec: Digest
    commitment: Digest
    approved: Instant


class SignedApproval(Value):
    """An approval, its signature and the certificate of the key that made it."""

    approval: Approval
    signature: str
    certificate: str

    @property
    def consent(self) -> SignedConsent:
        """As all kinds have it."""
        said, signed = self.approval, (self.signature, self.certificate)
        return SignedConsent(said.party, said.spec, said.approved, said.to_bytes(), APPROVAL, *signed, said.commitment)


def new_salt() -> bytes:
    """A fresh salt for one commitment; it never leaves the hospital."""
    return secrets.token_bytes(SALT_BYTES)


def commit(salt: bytes, codes_digest: str) -> str:
    """Salted commitment to a table's codes: hiding as long as the salt is secret, binding always."""
    return hashlib.sha256(b"dprelease/commitment/v1" + salt + bytes.fromhex(codes_digest)).hexdigest()


def approve(
    spec: ReleaseSpec, party: str, commitment: str, key: PrivateKey, certificate: str, now: datetime
) -> SignedApproval:
    """Sign consent to a spec."""
    approval = Approval(party=party, spec=spec.digest(), commitment=commitment, approved=instant(now))
    return SignedApproval(
        approval=approval, signature=sign(key, APPROVAL, approval.to_bytes()), certificate=certificate
    )
