"""A hospital's signed consent to one alignment run; see `dprelease.agreement`.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

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

    @property
    def proposal(self) -> str:
        """Digest of the task."""
        return self.run

    @property
    def given(self) -> str:
        """When."""
        return self.accepted


class SignedAcceptance(Value):
    """An acceptance, its signature and the certificate of the key that made it."""

    purpose: ClassVar[str] = ACCEPTANCE

    acceptance: Acceptance
    signature: str
    certificate: str

    @property
    def consent(self) -> Acceptance:
        """What is signed."""
        return self.acceptance

    @property
    def commitment(self) -> str:
        """None: the patients are counted in the task."""
        return ""


def accept(task: Task, party: str, key: PrivateKey, certificate: str, now: datetime) -> SignedAcceptance:
    """Sign consent to a run."""
    acceptance = Acceptance(party=party, run=task.digest(), accepted=instant(now))
    signature = sign(key, ACCEPTANCE, acceptance.to_bytes())
    return SignedAcceptance(acceptance=acceptance, signature=signature, certificate=certificate)
