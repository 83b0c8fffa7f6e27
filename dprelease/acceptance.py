"""A hospital's signed consent to one alignment run; see `dprelease.agreement`.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from dprelease.agreement import Consent, SignedConsent
from dprelease.canonical import Digest, Instant, instant
from dprelease.identity.signing import ACCEPTANCE, PrivateKey, sign
from dprelease.intersection.task import Task


class Acceptance(Consent):
    """What is signed.

    Attributes:
        party: who accepts.
        run: digest of the task.
        accepted: when.
    """

    run: Digest
    accepted: Instant

    @property
    def proposal(self) -> str:
        """Digest of the task."""
        return self.run

    @property
    def given(self) -> str:
        """When."""
        return self.accepted


class SignedAcceptance(SignedConsent):
    """An acceptance, its signature and the certificate of the key that made it."""

    purpose: ClassVar[str] = ACCEPTANCE

    acceptance: Acceptance

    @property
    def consent(self) -> Acceptance:
        """What is signed."""
        return self.acceptance


def accept(task: Task, party: str, key: PrivateKey, certificate: str, now: datetime) -> SignedAcceptance:
    """Sign consent to a run."""
    acceptance = Acceptance(party=party, run=task.digest(), accepted=instant(now))
    signature = sign(key, ACCEPTANCE, acceptance.to_bytes())
    return SignedAcceptance(acceptance=acceptance, signature=signature, certificate=certificate)
