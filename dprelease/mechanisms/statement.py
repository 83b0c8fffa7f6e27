"""A mechanism's statements about a release: its cost, every printed sentence about it, and what to expect of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True)
class Cost:
    """The cost of a release, in mu^2 of Gaussian differential privacy under replace-one.

    Attributes:
        joint: of all blocks together.
        charges: party to what its ledger is charged.
        exposures: party to what is revealed of its own columns.
        collusion_threshold: parties that may pool what they saw and learn no more than the joint figure says; None where every
            party's own figure holds whatever the others do.
        rounds: mechanism of each round to what it adds to the charges; empty where there is one round.
    """

    joint: Fraction
    charges: Mapping[str, Fraction]
    exposures: Mapping[str, Fraction]
    collusion_threshold: int | None = None
    rounds: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)

    def after(self, first: Cost) -> Cost:
        """The cost of both, if these blocks depend on the first through its published numbers alone: mu^2 adds up.

        Args:
            first: of parties of the same names; its own threshold does not count.
        """
        return Cost(
            self.joint + first.joint,
            {party: mu2 + first.charges[party] for party, mu2 in self.charges.items()},
            {party: mu2 + first.exposures[party] for party, mu2 in self.exposures.items()},
            self.collusion_threshold,
        )


OWN_NOISE = (
    "The joint figure holds if every hospital added the noise it declared; each hospital's own figure needs no trust in anybody "
    "else."
)


def own_blocks(whose: str, nothing: str, figures: Mapping[str, str | None], joint: str, delta: str) -> tuple[str, str]:
    """The guarantee of blocks that every party makes alone: what the joint figure is for, and what is said instead of none."""
    each = "; ".join(
        f"{party}: {nothing if figure is None else f'epsilon = {figure}'}" for party, figure in figures.items()
    )
    return (
        f"Joint: (epsilon, delta) = ({joint}, {delta}) for {whose}, provided every hospital added its declared noise.",
        f"Each hospital's own columns, unconditional, at delta = {delta}: {each}.",
    )


@dataclass(frozen=True)
class Statements:
    """Every sentence that is printed about a release of this mechanism.

    Attributes:
        would_publish: what becomes public, for the hospital's review.
        details: more of the same, a line each.
        trust: who has to be trusted for what; part of the manifest.
        about: what fits describe, where it is not the rows as bounded; part of the manifest, beside `trust`.
        content: what a learner gets, in half a line.
        summary: mechanism, released numbers and what they mean, for a report's page.
        shape: the mechanism's own parameters, in half a line.
        figures: the same for JSON.
        checks: what verifying checks beside what it checks of every release.
    """

    would_publish: str
    trust: tuple[str, ...]
    content: str
    summary: str
    shape: str = ""
    details: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    figures: Mapping[str, object] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
