"""Agreement: a proposal with a digest, and every party's signed consent to just that digest, under keys that people compared.

Releases, their checkpoints and alignment runs are kinds of it. No party computes or sends anything of a proposal before it has seen
the consent of all: otherwise a coordinator could show each party another proposal, or take the place of all others
(docs/guarantees.md 10; docs/party.md, "Aligning patients").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

from dprelease.canonical import moment
from dprelease.errors import IntegrityError
from dprelease.identity.certificates import check_certificate
from dprelease.identity.signing import verify


class Proposal(Protocol):
    """A release or a run to which parties consent.

    Attributes:
        noun: what one of its kind is called.
    """

    noun: ClassVar[str]

    @property
    def keys(self) -> dict[str, str]:
        """Party to the fingerprint of its key, in the proposal's order."""

    def digest(self) -> str:
        """SHA-256 of its canonical bytes: its identity."""


class Consent(Protocol):
    """What is signed: an `Approval`, or an `Acceptance`."""

    @property
    def party(self) -> str:
        """Who consents."""

    @property
    def proposal(self) -> str:
        """Digest of the proposal."""

    @property
    def given(self) -> str:
        """When, as an `Instant`."""

    def to_bytes(self) -> bytes:
        """Canonical bytes."""


class SignedConsent(Protocol):
    """A consent, its signature and the certificate of the key that made it.

    Attributes:
        purpose: what the signature is for.
    """

    purpose: ClassVar[str]

    @property
    def consent(self) -> Consent:
        """What is signed."""

    @property
    def commitment(self) -> str:
        """To data, which may not be another one when a party consents again; empty where there is none."""

    @property
    def signature(self) -> str:
        """Hexadecimal."""

    @property
    def certificate(self) -> str:
        """PEM."""

    def to_bytes(self) -> bytes:
        """Canonical bytes."""


def check_consent(signed: SignedConsent, proposal: Proposal, root_pem: str) -> None:
    """Check one consent: its proposal, its signature, and that its key is the one that the proposal names for the party.

    Raises:
        IntegrityError: anything disagrees.
    """
    consent, noun = signed.consent, proposal.noun
    key = proposal.keys.get(consent.party)
    if key is None or consent.proposal != proposal.digest():
        raise IntegrityError(f"an approval by {consent.party} is for another {noun}")
    identity = check_certificate(signed.certificate, root_pem, moment(consent.given), "party")
    if identity.name != consent.party or identity.fingerprint != key:
        raise IntegrityError(f"the approval by {consent.party} was not made with the key that the {noun} names")
    verify(identity.key, signed.signature, signed.purpose, consent.to_bytes())


def check_all(
    consents: Iterable[SignedConsent], proposal: Proposal, root_pem: str, pins: Mapping[str, str] | None = None
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
    missing = [party for party in proposal.keys if party not in seen]
    if missing:
        raise IntegrityError(f"no approval by {', '.join(missing)}")
    for party, key in proposal.keys.items() if pins is not None else ():
        if pins is not None and pins.get(party) != key:
            raise IntegrityError(f"the key of {party} is not the one pinned here")
