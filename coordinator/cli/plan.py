"""`coordinator plan`: what a release would be worth, before any hospital is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import click

from coordinator.cli.options import opened, with_settings
from coordinator.clock import utc_now
from coordinator.proposals.proposals import Request, make_draft
from coordinator.proposals.published import EarlierReleases, with_ranges
from coordinator.service.recovery import left
from coordinator.settings import CoordinatorSettings
from dprelease.cli.plan_options import compared, with_guesses
from dprelease.cli.printing import explain_option, json_option, print_document
from dprelease.data.columns import unbounded
from dprelease.document.cells import price
from dprelease.document.document import Heading, Table
from dprelease.errors import InvalidInput
from dprelease.files.settings import read_settings
from dprelease.mechanisms.assumptions import PlannedFit, Scenario, chosen
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.registry import mechanism_named, names
from dprelease.planning.comparison import NO_DATA, charges
from dprelease.planning.forecast import proposed
from dprelease.planning.tables import tables as as_tables
from dprelease.privacy.price import how_many

NO_FIT = (
    "a release of this mechanism is not planned for a fit: leave out --target, --features, --signal and --plot, or name mechanisms "
    "to compare with --mechanism"
)
IN_RANGES = (
    "Cells, costs of columns and hazard ratios are planned in public bounds alone, and this request is for ranges. The line on the "
    "number of patients of a level has its noise."
)


@click.command()
@click.argument("request", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--target", "outcome", metavar="COLUMN", help="Outcome of the fit; the last column if left out.")
@click.option("--features", metavar="A,B,...", help="Columns to fit on, or how many; every other if left out.")
@with_guesses
@json_option
@explain_option
@with_settings
def plan(
    settings: CoordinatorSettings,
    request: Path | None,
    outcome: str | None,
    features: str | None,
    mechanisms: tuple[str, ...],
    signals: tuple[float, ...],
    spread: float,
    plot: Path | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Say what to expect of the REQUEST (as for `release create`), and which mechanism to choose. Nothing is proposed.

    From public numbers and guesses alone, without any data: n and columns are those of the hospitals' catalogues. Without
    a REQUEST, `learner plan` takes them as options.

    \b
    Example:
      coordinator plan study.toml --target glucose
    """
    if request is None:
        raise InvalidInput("give a REQUEST; `learner plan` takes the numbers of a release as options")
    with opened(settings) as store, store.reading() as tx:
        asked = read_settings(request, Request)
        earlier = EarlierReleases(tx.releases.all(), settings.published, settings.root)
        draft = make_draft(asked, store.consortium.name, tx.members, utc_now(), earlier=earlier)
        room = {party: left(tx, party, draft.agreed.roster) for party in draft.columns}
    mechanism, delta = mechanism_named(asked.mechanism), draft.target.delta
    expected = None if mechanisms else mechanism.expected(asked.options, draft, spread)
    if expected is not None:
        if outcome or features or signals or plot:
            raise InvalidInput(NO_FIT)
        made = mechanism.propose(asked.options, draft)
        prices: Mapping[str, Mapping[str, Fraction]] = {mechanism.name: made.charges}
        expected = replace(expected, tables=(*expected.tables, charges(prices, delta)))
        notes: tuple[str, ...] = (made.explanation, NO_DATA)
    else:
        outcomes: tuple[str, ...] = ()
        if not unbounded(draft.everything):
            # Without bounds most requests are refused, and a plan says what is possible.
            outcomes = mechanism.propose(asked.options, draft).terms.outcomes
        name, used = chosen(draft.columns, outcome, features, outcomes)
        fit = PlannedFit(draft.everything, name, used, spread)
        scenario = Scenario(draft, asked.mechanism, fit, asked.options.model_dump(exclude_unset=True))
        found = compared(scenario, mechanisms, signals, plot)
        releases = {each.plan: proposed(each) for each in found.scenarios}
        prices = {plan: release.prices for plan, release in releases.items()}
        planned = {each.mechanism for each in found.scenarios}
        used_already = any(each.noise.reuse for each in releases.values())
        ranges = "" if used_already or scenario.asked.get("outcomes") else _ranges(earlier, draft)
        others = [each for each in map(mechanism_named, names()) if each.name not in planned and each.purpose]
        expected = found.document()
        told = [each for each in found.scenarios if each.plan == asked.mechanism and releases[each.plan].noise.levels]
        in_ranges = bool(told) and proposed(scenario).noise.in_ranges
        as_asked = () if in_ranges else told
        expected = replace(
            expected, tables=(*expected.tables, *(table for each in as_asked for table in as_tables(each)))
        )
        notes = (
            *expected.notes,
            ranges,
            IN_RANGES if in_ranges else "",
            *(f"Not planned here, {each.name}: {each.purpose}" for each in others if not mechanisms),
        )
    tables = (*expected.tables, _left(room, prices, delta))
    notes = tuple(filter(None, notes))
    print_document(replace(expected, tables=tables, notes=notes), as_json=as_json, explain=explain)


def _left(room: Mapping[str, Fraction], prices: Mapping[str, Mapping[str, Fraction]], delta: float) -> Table:
    """The rest of each hospital's budget, and how many releases like the planned ones fit into it."""
    headings = ("hospital", Heading("left", "has left"), *(Heading(plan, f"{plan} that fit") for plan in prices))
    rows = [
        (party, price(mu2, delta), *(how_many(mu2, charged[party]) for charged in prices.values()))
        for party, mu2 in room.items()
    ]
    return Table.of("left", headings, rows)


def _ranges(earlier: EarlierReleases, draft: Draft) -> str:
    """A sentence on ranges that were published already; empty where there are none of these numbers."""
    latest = with_ranges(earlier.known, draft.columns, draft.agreed)
    found = latest or with_ranges(earlier.known, draft.columns)
    if found is None:
        return ""
    how, whose = ("auto", "") if latest else ("FOLDER", " of other patients")
    return (
        f"Ranges of all these numbers{whose} were published on {found.record.since:%Y-%m-%d}, release {found.digest[:12]}: "
        f'with ranges = "{how}" in the request moments use them at no charge.'
    )
