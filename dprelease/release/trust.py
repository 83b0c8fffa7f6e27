"""The trust that a release asks for, and what fits describe, in words of every review, manifest and fit of a release.

The sentences are part of manifest format 1, as the words of the guarantee are: a verifier compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.statement import Words
from dprelease.release.fake import NOTE
from dprelease.release.spec import ReleaseSpec

PUBLIC = "Public columns are the exception: their rows were published exactly, for everybody to read."


def trust(spec: ReleaseSpec, words: Words | None = None) -> tuple[str, ...]:
    """The trust assumption of a spec, one sentence each, and what fits are about.

    Args:
        spec: of the release.
        words: its mechanism's, where they are at hand.
    """
    words = words or mechanism_of(spec).words(spec)
    return (*words.trust, *((PUBLIC,) if spec.public else ()), *words.about)


@dataclass(frozen=True)
class ReleasePromise:
    """The guarantee of a release and whom it trusts.

    Attributes:
        spec: of the release.
        guarantee: in sentences; of a release that a dry run made up, that first.
    """

    spec: ReleaseSpec
    guarantee: tuple[str, ...]

    @property
    def line(self) -> str:
        """Both in one line: the target that its noise was checked to keep."""
        target = self.spec.target
        whose = "over all hospitals together" if target.scope == "joint" else "over what each hospital holds"
        line = (
            f"Guarantee: {self.spec.guarantee}, epsilon = {target.epsilon:g} at delta = {target.delta:g} for one person, {whose}. "
            f"In full, and whom it trusts: learner verify {self.spec.digest()[:12]}"
        )
        return f"{NOTE} {line}" if NOTE in self.guarantee else line

    @property
    def trust(self) -> tuple[str, ...]:
        """The people who have to be trusted, in sentences."""
        return trust(self.spec)
