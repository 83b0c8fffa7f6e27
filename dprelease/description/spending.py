"""Privacy budget that published releases have spent, from their signed manifests alone, and what is left of it.

Releases of one roster of patients compose: mu^2 adds up, exactly, whatever each release was chosen for (docs/guarantees.md 8). A
manifest states what its own release costs, and the consortium's budget if its `about` declares one. A release that was charged
and never published is in none: the hospitals' ledgers have the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dprelease.document.cells import UNKNOWN, Said
from dprelease.document.document import Document, Heading, Table
from dprelease.privacy.calibration import budget
from dprelease.privacy.price import epsilon_at, epsilon_figure, mu2_text, room_text
from dprelease.release.accounting import guarantee
from dprelease.release.manifest import Manifest
from dprelease.spec_base import Target

MU2 = Heading("mu2", "mu^2")
"""Heading of an exact price."""
SHOWN_DIGITS = 16
"""Hexadecimal digits of a digest in tables: an ID that every command takes."""
USUAL_DELTA = 1e-6
"""delta at which epsilon is said before a release has one."""


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

    @property
    def declared(self) -> Target | None:
        """The budget that the latest release with one declares."""
        for manifest in (each.manifest for each in reversed(self.releases)):
            about, target = manifest.spec.about, manifest.spec.target
            if about is not None and about.budget:
                return Target(scope="joint", epsilon=about.budget, delta=target.delta)
        return None

    def remaining(self, epsilon: float, delta: float) -> Fraction:
        """mu^2 that they leave of a budget; below 0 when they exceed it."""
        return budget(Target(scope="joint", epsilon=epsilon, delta=delta)) - self.total


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


def latest_delta(found: Sequence[Account]) -> float:
    """delta of the target of the latest release; `USUAL_DELTA` before there is one."""
    released = [account.releases[-1].manifest for account in found]
    latest = max(released, key=lambda manifest: manifest.published, default=None)
    return USUAL_DELTA if latest is None else latest.spec.target.delta


def spending_document(consortium: str, found: Sequence[Account], delta: float, epsilon: float | None) -> Document:
    """All that was published, its price and the rest of a budget; every mu^2 is an exact rational in JSON, ``"p/q"``.

    The budget is `epsilon` at `delta`, or what each roster's releases declare.
    """
    given = None if epsilon is None else Target(scope="joint", epsilon=epsilon, delta=delta)
    budgets = [given or account.declared for account in found]
    tables = [_releases(account, delta) for account in found]
    charged = [
        (account.roster, hospital, *_price(mu2, delta))
        for account in found
        for hospital, mu2 in account.hospitals.items()
    ]
    if found:
        tables += [
            Table.of("charged", ("roster", "hospital", MU2, "epsilon"), charged, title="Charged to the hospitals"),
            _totals(found, delta, budgets),
        ]
    facts = {"consortium": consortium, "delta": Said(delta, f"{delta:g}")}
    return Document("Privacy budget of published releases", facts, tuple(tables), _left(found, budgets))


def _releases(account: Account, delta: float) -> Table:
    headings = (Heading("roster", detail=True), "published", "release", "title", "mechanism", MU2, "epsilon")
    so_far = (Heading("spent_mu2", "spent so far: mu^2"), Heading("spent_epsilon", "epsilon"))
    rows = [
        (
            account.roster,
            each.manifest.published,
            Said(each.manifest.spec.digest(), each.manifest.spec.digest()[:SHOWN_DIGITS]),
            each.manifest.spec.title,
            each.manifest.spec.mechanism,
            *_price(each.mu2, delta),
            *_price(each.total, delta),
        )
        for each in account.releases
    ]
    return Table.of("releases", (*headings, *so_far), rows, title=f"Roster {account.roster}")


def _totals(found: Sequence[Account], delta: float, budgets: Sequence[Target | None]) -> Table:
    headings = ("roster", Heading("spent_mu2", "spent: mu^2"), Heading("spent_epsilon", "epsilon"))
    left = (Heading("remaining_mu2", "left: mu^2"), Heading("remaining_epsilon", "epsilon"))
    rows = []
    for account, given in zip(found, budgets, strict=True):
        room: tuple[Said | None, Said | None] = (None, None)
        if given is not None:
            room = _price(account.remaining(given.epsilon, given.delta), delta)
        rows.append((account.roster, *_price(account.total, delta), *room))
    return Table.of("rosters", (*headings, *left), rows, title="In all")


def _left(found: Sequence[Account], budgets: Sequence[Target | None]) -> tuple[str, ...]:
    """Sentences on what is left."""
    if not found:
        return ("Nothing has been published yet.",)
    said = [left_text(each, given) for each, given in zip(found, budgets, strict=True) if given is not None]
    if not said:
        return ("These manifests declare no budget: say it with --budget EPSILON to see what is left.",)
    return (*said, "The budget is that of all hospitals together: the ledger of one hospital may have less.")


def left_text(account: Account, given: Target) -> str:
    """A sentence on what a roster's releases leave of a joint budget."""
    left = account.remaining(given.epsilon, given.delta)
    if left < 0:
        return f"Roster {account.roster}: a budget of epsilon = {given.epsilon:g} is exceeded."
    latest = account.releases[-1]
    room = room_text(left, latest.mu2, f"the latest release, {latest.manifest.spec.digest()[:12]}")
    return f"Roster {account.roster}: what is left of epsilon = {given.epsilon:g} is {room}."


def _price(mu2: Fraction, delta: float) -> tuple[Said, Said]:
    """An exact mu^2 and its epsilon; below 0 there is none."""
    epsilon = None if mu2 < 0 else epsilon_at(mu2, delta)
    return Said(mu2, mu2_text(mu2)), Said(epsilon, UNKNOWN if epsilon is None else epsilon_figure(epsilon))
