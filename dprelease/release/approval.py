"""A party's signed consent to one spec digest.

No party draws noise before it has seen the signed approvals of all parties over the same digest: otherwise a
coordinator could show each party a spec in which that party holds nearly the whole joint budget (docs/guarantees.md 10).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime

from dprelease.canonical import Digest, Value
from dprelease.data.columns import Name
from dprelease.errors import IntegrityError
from dprelease.identity.certificates import check_certificate
from dprelease.identity.signing import APPROVAL, PrivateKey, sign, verify
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Instant, instant, moment

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


def check_approval(signed: SignedApproval, spec: ReleaseSpec, root_pem: str) -> None:
    """Check one approval: its spec, its signature, and that its key is the one that the spec names for the party.

    Raises:
        IntegrityError: anything disagrees.
    """
    approval = signed.approval
    part = spec.party(approval.party)
    if part is None or approval.spec != spec.digest():
        raise IntegrityError(f"an approval by {approval.party} is for another release")
    identity = check_certificate(signed.certificate, root_pem, moment(approval.approved), "party")
    if identity.name != approval.party or identity.fingerprint != part.key:
        raise IntegrityError(f"the approval by {approval.party} was not made with the key that the spec names")
    verify(identity.key, signed.signature, APPROVAL, approval.to_bytes())


def check_all_approved(
    approvals: Iterable[SignedApproval], spec: ReleaseSpec, root_pem: str, pins: Mapping[str, str] | None = None
) -> None:
    """Check that every party of the spec signed this spec's digest, under the keys that were pinned out of band.

    Args:
        approvals: what the coordinator passed on.
        spec: the spec, whose digest is recomputed here.
        root_pem: the consortium root.
        pins: party to key fingerprint, as compared between people; None where nothing is pinned (the hub, a learner).

    Raises:
        IntegrityError: an approval is missing, doubled, or wrong, or a key is not the pinned one.
    """
    seen: set[str] = set()
    for signed in approvals:
        check_approval(signed, spec, root_pem)
        if signed.approval.party in seen:
            raise IntegrityError(f"{signed.approval.party} approved twice")
        seen.add(signed.approval.party)
    missing = [part.party for part in spec.parties if part.party not in seen]
    if missing:
        raise IntegrityError(f"no approval by {', '.join(missing)}")
    for part in spec.parties if pins is not None else ():
        if pins is not None and pins.get(part.party) != part.key:
            raise IntegrityError(f"the key of {part.party} is not the one pinned here")
