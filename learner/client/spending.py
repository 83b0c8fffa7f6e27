"""Privacy budget that published releases have spent, from their signed manifests alone, and what is left of a given one.

Releases of one roster of patients compose: mu^2 adds up, exactly, whatever each release was chosen for (docs/guarantees.md 8). A
manifest states what its own release costs. What the consortium may spend in all is not in it, and neither is a release that
was charged and never published: the hospitals' ledgers have the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dprelease.privacy.calibration import budget
from dprelease.privacy.price import epsilon_at, mu2_text, price_text, room_text
from dprelease.release.accounting import guarantee
from dprelease.release.manifest import Manifest
from dprelease.spec_base import Target
from learner.client.download import Patience, signed_manifest
from learner.client.pinned_roots import Trusted
from learner.client.sources import ListingSource


@dataclass(frozen=True)
class Spent:
    """A published release, and what its roster's releases have spent up to it.

    Attributes:
        manifest: signed and checked.
        mu2: joint mu^2 that the release adds: nothing at later checkpoints of a stream.
        total: of all releases of its roster that were published up to it, itself included.
    """

    manifest: Manifest
    mu2: Fraction
    total: Fraction


@dataclass(frozen=True)
class Account:
    """A roster's published releases.

    Attributes:
        roster: name of the set of patients.
        releases: oldest first.
        hospitals: hospital to the mu^2 that its ledger was charged for them.
    """

    roster: str
    releases: tuple[Spent, ...]
    hospitals: dict[str, Fraction] = field(default_factory=dict)

    @property
    def total(self) -> Fraction:
        """Joint mu^2 of all of them."""
        return self.releases[-1].total

    def remaining(self, epsilon: float, delta: float) -> Fraction:
        """mu^2 that they leave of a budget; below 0 when they exceed it."""
        return budget(Target(scope="joint", epsilon=epsilon, delta=delta)) - self.total


def signed_manifests(
    source: ListingSource, consortium: Trusted, patience: Patience | None = None
) -> Iterator[Manifest]:
    """Every manifest that a hub or mirror lists, each checked against the pinned root.

    Raises:
        IntegrityError: one does not verify, or is not the one that the list names.
        PeerUnavailable: the source is away.
    """
    for line in source.releases():
        yield signed_manifest(source, consortium, line.digest, patience)


def accounts(manifests: Iterable[Manifest]) -> tuple[Account, ...]:
    """One account for each roster, by name."""
    ordered = sorted(manifests, key=lambda manifest: (manifest.published, manifest.spec.digest()))
    return tuple(
        _account(roster, [manifest for manifest in ordered if manifest.spec.roster == roster])
        for roster in sorted({manifest.spec.roster for manifest in ordered})
    )


def _account(roster: str, manifests: Iterable[Manifest]) -> Account:
    total, releases = Fraction(0), []
    hospitals: dict[str, Fraction] = {}
    for manifest in manifests:
        given = guarantee(manifest.spec)
        total += given.added_mu2
        releases.append(Spent(manifest, given.added_mu2, total))
        for part in given.parties:
            hospitals[part.party] = hospitals.get(part.party, Fraction(0)) + part.mu2
    return Account(roster, tuple(releases), hospitals)


def summary(account: Account, delta: float, epsilon: float | None) -> list[str]:
    """Sentences: what is spent, by hospital too, and what is left.

    Args:
        account: of a roster.
        delta: at which epsilon is said.
        epsilon: the consortium's budget at that delta, as it announced it; None if nobody said.
    """
    found = [f"spent on roster {account.roster}: {price_text(account.total, delta)}"]
    found += [f"  charged to {name}: {price_text(mu2, delta)}" for name, mu2 in account.hospitals.items()]
    if epsilon is None:
        return [*found, "remaining: manifests do not state the consortium's budget; say it with --budget EPSILON"]
    left = account.remaining(epsilon, delta)
    if left < 0:
        return [
            *found,
            f"remaining: nothing; a budget of epsilon = {epsilon:g} is exceeded by mu^2 = {mu2_text(-left)}",
        ]
    latest = account.releases[-1]
    room = room_text(left, latest.mu2, f"the latest release, {latest.manifest.spec.digest()[:12]}")
    return [
        *found,
        f"remaining of a budget of epsilon = {epsilon:g}, over all hospitals' ledgers together: {price_text(left, delta)}, {room}, "
        "at most: a hospital's own ledger may have less",
    ]


def to_json(found: Iterable[Account], delta: float, epsilon: float | None) -> dict[str, Any]:
    """The accounts as plain data; every mu^2 is an exact rational, ``"p/q"``."""
    return {"delta": delta, "rosters": [_account_json(account, delta, epsilon) for account in found]}


def _account_json(account: Account, delta: float, epsilon: float | None) -> dict[str, Any]:
    return {
        "roster": account.roster,
        "spent_mu2": str(account.total),
        "spent_epsilon": epsilon_at(account.total, delta),
        "remaining_mu2": None if epsilon is None else str(account.remaining(epsilon, delta)),
        "charged_mu2": {name: str(mu2) for name, mu2 in account.hospitals.items()},
        "releases": [
            {
                "release": each.manifest.spec.digest(),
                "title": each.manifest.spec.title,
                "published": each.manifest.published,
                "mechanism": each.manifest.spec.mechanism,
                "mu2": str(each.mu2),
                "epsilon": epsilon_at(each.mu2, delta),
                "spent_mu2": str(each.total),
                "spent_epsilon": epsilon_at(each.total, delta),
            }
            for each in account.releases
        ],
    }
