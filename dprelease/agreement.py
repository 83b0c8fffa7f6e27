"""Agreement: a proposal with a digest, and every party's signed consent to just that digest, under keys that people compared.

Releases, their checkpoints and alignment runs are kinds of it. No party computes or sends anything of a proposal before it has seen
the consent of all: otherwise a coordinator could show each party another proposal, or take the place of all others
(docs/guarantees.md 10; docs/party.md, "Aligning patients").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol

from dprelease.canonical import Digest, Instant, Name, Value, instant, moment
from dprelease.errors import IntegrityError
from dprelease.identity.certificates import check_certificate
from dprelease.identity.signing import ACCEPTANCE, PrivateKey, sign, verify
from dprelease.intersection.task import Task


class Proposal(Protocol):
    """A release or a run to which parties consent.

    Attributes:
        noun: what one of its kind is called.
    """

    noun: ClassVar[str]

    @property
    def party_keys(self) -> dict[str, str]:
        """Party to the fingerprint of its key, in the proposal's order."""

    def digest(self) -> str:
        """SHA-256 of its canonical bytes: its identity."""


@dataclass(frozen=True)
class SignedConsent:
    """One party's signed consent, whatever it is to.

    Attributes:
        party: who consents.
        proposal: digest of the proposal.
        given: when, as an `Instant`.
        statement: canonical bytes of what is signed.
        purpose: what the signature is for.
        signature: hexadecimal.
        certificate: of the key that made it, PEM.
        commitment: to data, which may not be another one when a party consents again; empty where there is none.
    """

    party: str
    proposal: str
    given: str
    statement: bytes
    purpose: str
    signature: str
    certificate: str
    commitment: str = ""


class Signed(Protocol):
    """A consent of some kind as it travels: a `SignedApproval`, or a `SignedAcceptance`."""

    @property
    def consent(self) -> SignedConsent:
        """As all kinds have it."""

    def to_bytes(self) -> bytes:
        """Canonical bytes."""


def check_consent(signed: Signed, proposal: Proposal, root_pem: str) -> None:
    """Check one consent: its proposal, its signature, and that its key is the one that the proposal names for the party.

    Raises:
        IntegrityError: anything disagrees.
    """
    consent, noun = signed.consent, proposal.noun
    key = proposal.party_keys.get(consent.party)
    if key is None or consent.proposal != proposal.digest():
        raise IntegrityError(f"an approval by {consent.party} is for another {noun}")
    identity = check_certificate(consent.certificate, root_pem, moment(consent.given), "party")
    if identity.name != consent.party or identity.fingerprint != key:
        raise IntegrityError(f"the approval by {consent.party} was not made with the key that the {noun} names")
    verify(identity.key, consent.signature, consent.purpose, consent.statement)


def check_all(
    consents: Iterable[Signed], proposal: Proposal, root_pem: str, pins: Mapping[str, str] | None = None
) -> None:
    """Check that every party of a proposal signed its digest, under the keys that were pinned out of band.

    Args:
        consents: what the coordinator passed on.
        proposal: whose digest is recomputed here.
        root_pem: the consortium root.
        pins: party to key fingerprint, as compared between people; None where nothing is pinned (the hub, a learner).

    Raises:
        IntegrityError: a consent is missing, doubled, or wrong, or a key is not the pinned one.
    """
    seen: set[str] = set()
    for signed in consents:
        check_consent(signed, proposal, root_pem)
        party = signed.consent.party
        if party in seen:
            raise IntegrityError(f"{party} approved twice")
        seen.add(party)
    missing = [party for party in proposal.party_keys if party not in seen]
    if missing:
        raise IntegrityError(f"no approval by {', '.join(missing)}")
    for party, key in proposal.party_keys.items() if pins is not None else ():
        if pins is not None and pins.get(party) != key:
            raise IntegrityError(f"the key of {party} is not the one pinned here")


class Acceptance(Value):
    """What is signed.

    Attributes:
        party: who accepts.
        run: digest of the task.
        accepted: when.
    """

    party: Name
    run: Digest
    accepted: Instant


class SignedAcceptance(Value):
    """An acceptance, its signature and the certificate of the key that made it."""

    acceptance: Acceptance
    signature: str
    certificate: str

    @property
    def consent(self) -> SignedConsent:
        """As all kinds have it."""
        said, signed = self.acceptance, (self.signature, self.certificate)
        return SignedConsent(said.party, said.run, said.accepted, said.to_bytes(), ACCEPTANCE, *signed)


def accept(task: Task, party: str, key: PrivateKey, certificate: str, now: datetime) -> SignedAcceptance:
    """Sign consent to a run."""
    acceptance = Acceptance(party=party, run=task.digest(), accepted=instant(now))
    signature = sign(key, ACCEPTANCE, acceptance.to_bytes())
    return SignedAcceptance(acceptance=acceptance, signature=signature, certificate=certificate)
