"""A hospital's signed consent to one alignment run; see `dprelease.agreement`.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

from datetime import datetime

from dprelease.agreement import SignedConsent
from dprelease.canonical import Digest, Instant, Name, Value, instant
from dprelease.identity.signing import ACCEPTANCE, PrivateKey, sign
from dprelease.intersection.task import Task


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
