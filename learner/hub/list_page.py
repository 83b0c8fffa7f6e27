"""The page of all that a hub has published, and of the privacy budget that it spent over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dprelease.description.spending import Account, accounts, latest_delta, left_text, spending_document
from dprelease.document.charts import CoefficientPath, Mark, panels
from dprelease.document.html import Figure, Links, Section, environment
from dprelease.privacy.calibration import budget
from dprelease.privacy.price import epsilon_at
from dprelease.release.folder import PAGE, ReleaseFolder
from learner.listing import Listed

MOST_LISTED = 500
"""Releases on the page; it has no sums of what more than these spent."""
MOST_PICTURED = 40
"""Releases in a picture, the newest ones."""
LEAD = "Data about patients of several hospitals, published with noise that hides each patient. Anybody may use and verify them."
SPENT = (
    "Releases about the same patients add up: mu^2 of all of them is the sum of theirs. These numbers follow from the signed "
    "manifests. The limit that each hospital keeps to stands in its own ledger, and may be less than what a consortium declares."
)


def list_page(folder: Path, releases: Sequence[Listed]) -> str:
    """The page of published releases, HTML and well-formed XML: a function of their manifests.

    Args:
        folder: that of all of them.
        releases: one or more of its list, newest first.

    Raises:
        NotFound, IntegrityError: a manifest cannot be read.
    """
    lines = releases[:MOST_LISTED]
    manifests = [ReleaseFolder(folder / line.digest).manifest() for line in lines]
    consortium = manifests[0].spec.consortium
    links = tuple(
        (
            f"{line.digest}/{PAGE}",
            line.title,
            f"{line.published[:10]}, {line.rows:,} patients, {line.columns} columns, "
            f"mechanism {manifest.spec.mechanism}, epsilon = {manifest.spec.target.epsilon:g}, {line.digest[:16]}",
        )
        for line, manifest in zip(lines, manifests, strict=True)
    )
    more = () if len(lines) == len(releases) else (f"These are the newest {len(lines)} of {len(releases):,} releases.",)
    sections = [Section("Releases", (*more, Links(links)), "releases")]
    if not more:
        found = accounts(manifests)
        delta = latest_delta(found)
        tables = spending_document(consortium, found, delta, None).tables
        if all(account.declared is None for account in found):
            tables = tables[:-1]  # nobody outside knows what is left
        pictures = [_spent(place, account, delta) for place, account in enumerate(found)]
        sections.append(Section("Privacy budget", (SPENT, *pictures, *tables), "budget"))
    made: str = (
        environment("dprelease.publication")
        .get_template("releases.html")
        .render(title=f"Releases of {consortium}", lead=LEAD, sections=sections)
    )
    return f"{made}\n"


def _spent(place: int, account: Account, delta: float) -> Figure:
    """A picture of what a roster's releases have spent over time."""
    shown = account.releases[-MOST_PICTURED:]
    spent = [epsilon_at(each.total, delta) for each in shown]
    marks = [
        Mark(each.manifest.published[:10], value, value, value, clear=True)
        for each, value in zip(shown, spent, strict=True)
    ]
    line = [(at + 0.5, value) for at, value in enumerate(spent)]
    declared = account.declared
    room = None if declared is None else (0.0, epsilon_at(budget(declared), delta))
    unit = f"epsilon at delta = {delta:g}"
    path = CoefficientPath(marks, unit=unit, across="published", line=line, zero=True, noise=room)
    words = f"Roster {account.roster}: {len(account.releases)} releases have spent epsilon = {spent[-1]:.3g} at delta = {delta:g}."
    if declared is not None:
        words += f" The dashed line is the budget that the consortium declares. {left_text(account, declared)}"
    return Figure(panels(f"spent-{place}", f"Budget spent on roster {account.roster}", words, [path]), words)
