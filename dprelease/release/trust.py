"""Who has to be trusted for what, and what fits describe, in words: printed in every review, manifest and fit of a release.

The sentences are part of manifest format 1, as the words of the guarantee are: a verifier compares them.
"""

from __future__ import annotations

from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.statement import Words
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
