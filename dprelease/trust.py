"""Who has to be trusted for what, in words: printed in every review, manifest and fit of a release.

The sentences are part of manifest format 1, as the words of the guarantee are: a verifier compares them.
Source: design.md, rule 4; joint_moments.md "Who may learn what"; second_reading.md 5.
"""

from __future__ import annotations

from dprelease.spec import ReleaseSpec

BLOCKS = (
    "Each block was noised inside its hospital; no other party, the coordinator or the hub saw a row.",
    "The joint figure holds if every hospital added the noise it declared; "
    "each hospital's own figure needs no trust in anybody else.",
)

ALONE = ("The moments were computed and noised inside the one hospital; nobody else saw a row.",)

COMPUTED_TOGETHER = (
    "The hospitals computed the moments together on masked columns. If they followed the protocol, the hub, the public "
    "and the coordinator together learn the released numbers and nothing else."
)

ROTATING = (
    "A third hospital dealt the randomness for each pair: one hospital may be curious about the others, but no two may "
    "pool their protocol messages. The coordinator has no part in this."
)

RANGE_ATTACK = (
    "Not covered: a hospital that runs altered software can feed numbers outside the declared bounds and read chosen "
    "patients' cells of other hospitals, undetected. Blocks of mechanism 'mixed' do not have this weakness."
)

STATED_NORM = (
    "The noise for private features beside public outcomes counts on {owner}, who has these outcomes, to have made sure that "
    "no patient's are longer than stated. Whoever verifies the release makes sure again."
)

PUBLIC = "Public columns are the exception: their rows were published exactly, for everybody to read."

KEYS = "It rests on keys that the hospitals compared with one another, not on the coordinator's certificates."


def trust(spec: ReleaseSpec) -> tuple[str, ...]:
    """The trust assumption of a spec, one sentence each."""
    return (*_sentences(spec), *_owners(spec), PUBLIC) if spec.public else _sentences(spec)


def _owners(spec: ReleaseSpec) -> tuple[str, ...]:
    """What outcomes apart ask of the one party that has a public side, where there are others."""
    if spec.norm_owner is None or len(spec.parties) == 1:
        return ()
    return (STATED_NORM.format(owner=spec.norm_owner),)


def _sentences(spec: ReleaseSpec) -> tuple[str, ...]:
    moments = spec.moments
    if moments is None:
        return BLOCKS
    if len(spec.parties) == 1:
        return ALONE
    if moments.dealer == "rotating":
        return (COMPUTED_TOGETHER, ROTATING, KEYS, RANGE_ATTACK)
    curious = "one hospital" if moments.curious == 1 else f"{moments.curious} hospitals"
    dealt = (
        "The coordinator dealt the randomness: it must not collude with any hospital. "
        f"Up to {curious} may be curious about the others."
    )
    return (COMPUTED_TOGETHER, dealt, KEYS, RANGE_ATTACK)
