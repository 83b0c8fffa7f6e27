"""Signed charges to a hospital that the consortium's office has seen: the witness against a lost or restored ledger.

The office knows every spec that all hospitals approved, hence what each of them was charged at most. A hospital's ledger that
does not know such a release is older than what happened (guarantees.md 8).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, Literal

from cryptography.hazmat.primitives.asymmetric import ec

from dprelease.canonical import Digest, Rational, Value
from dprelease.data.columns import Name
from dprelease.errors import IntegrityError
from dprelease.identity.certificates import read_certificate
from dprelease.identity.signing import CHARGES, PrivateKey, sign, verify
from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Instant, instant


class Charge(Value):
    """The most that one release may have cost a hospital.

    Attributes:
        release: spec digest.
        roster: whose budget.
        mu2: exact mu^2 that its ledger was charged.
        exposure: exact mu^2 of what the release reveals of its own columns.
        published: whether the release is public, so that the hospital's block has left.
    """

    release: Digest
    roster: Name
    mu2: Rational
    exposure: Rational
    published: bool


class Statement(Value):
    """Every release of a hospital that all its hospitals approved."""

    format: Literal[1] = 1
    consortium: Name
    party: Name
    made: Instant
    charges: tuple[Charge, ...]


class SignedStatement(Value):
    """A statement under the signature of the consortium's root key."""

    most_bytes: ClassVar[int] = 4 << 20

    statement: Statement
    signature: str


def charge(spec: ReleaseSpec, party: str, *, published: bool) -> Charge:
    """The cost of a spec for one of its parties."""
    given = guarantee(spec)
    mu2, exposure = str(given.party(party).mu2), str(given.added(party))
    return Charge(release=spec.digest(), roster=spec.roster, mu2=mu2, exposure=exposure, published=published)


def state(consortium: str, party: str, charges: Iterable[Charge], key: PrivateKey, now: datetime) -> SignedStatement:
    """A statement of charges, oldest first, signed with the key of the consortium's root certificate."""
    made = Statement(consortium=consortium, party=party, made=instant(now), charges=tuple(charges))
    return SignedStatement(statement=made, signature=sign(key, CHARGES, made.to_bytes()))


def check_statement(signed: SignedStatement, root_pem: str, consortium: str, party: str) -> Statement:
    """The statement, if the root signed it for this hospital.

    Raises:
        IntegrityError: it did not.
    """
    public = read_certificate(root_pem).public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise IntegrityError("the root certificate has no key that signs statements")
    verify(public, signed.signature, CHARGES, signed.statement.to_bytes())
    if (signed.statement.consortium, signed.statement.party) != (consortium, party):
        raise IntegrityError(f"a statement of charges is for {signed.statement.party}, not for {party}")
    return signed.statement
