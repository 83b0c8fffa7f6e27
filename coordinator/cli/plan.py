"""`coordinator plan`: what a release would be worth, before any hospital is asked."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import click

from coordinator.cli.options import opened, with_settings
from coordinator.clock import utc_now
from coordinator.proposals.proposals import Request, make_draft
from coordinator.proposals.published import EarlierReleases, with_ranges
from coordinator.service.witness import left
from coordinator.settings import CoordinatorSettings
from dprelease.cli.plan_options import compared, with_guesses
from dprelease.cli.printing import json_option, print_json
from dprelease.data.columns import unbounded
from dprelease.errors import InvalidInput
from dprelease.files.settings import read_settings
from dprelease.mechanisms.assumptions import PlannedFit, Setting, chosen
from dprelease.mechanisms.draft import Numbers
from dprelease.mechanisms.registry import mechanism_named, names
from dprelease.mechanisms.statement import Expectation
from dprelease.planning.comparison import NO_DATA
from dprelease.planning.forecast import proposed
from dprelease.privacy.price import how_many, price_text, room_text

NO_FIT = (
    "a release of this mechanism is not planned for a fit: leave out --target, --features, --signal and --plot, or name mechanisms "
    "to compare with --mechanism"
)


@click.command()
@click.argument("request", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--target", "outcome", metavar="COLUMN", help="Outcome of the fit; the last column if left out.")
@click.option("--features", metavar="A,B,...", help="Columns to fit on, or how many; every other if left out.")
@with_guesses
@json_option
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
    mechanism = mechanism_named(asked.mechanism)
    expected = None if mechanisms else mechanism.expected(asked.options, draft, spread)
    if expected is not None:
        if outcome or features or signals or plot:
            raise InvalidInput(NO_FIT)
        _say(expected, mechanism.propose(asked.options, draft), draft.target.delta, room, as_json=as_json)
        return
    if not unbounded(draft.everything):  # without bounds most requests are refused, and a plan says what is possible
        mechanism.propose(asked.options, draft)
    name, used = chosen(draft.columns, outcome, features, mechanism.outcomes(asked.options, draft.columns))
    fit = PlannedFit(draft.everything, name, used, spread)
    setting = Setting(draft, asked.mechanism, fit, asked.options.model_dump(exclude_unset=True))
    found = compared(setting, mechanisms, signals, plot)
    if as_json:
        print_json(found.to_json() | {"left_mu2": {party: str(mu2) for party, mu2 in room.items()}})
        return
    releases = {each.plan: proposed(each) for each in found.settings}
    *lines, advice = found.lines()
    for line in lines:
        click.echo(line)
    for party, mu2 in room.items():
        prices = {plan: release.prices[party] for plan, release in releases.items()}
        fits = ", ".join(f"{how_many(mu2, price)} by {name}" for name, price in prices.items())
        click.echo(f"{party} has left {price_text(mu2, draft.target.delta)}: releases like this one that fit: {fits}")
    latest = with_ranges(earlier.known, draft.columns, draft.agreed)
    ranged = latest or with_ranges(earlier.known, draft.columns)
    used_already = any(each.noise.reuse for each in releases.values())
    if ranged is not None and not used_already and not setting.asked.get("outcomes"):
        how = "auto" if latest else "FOLDER"
        whose = "" if latest else " of other patients"
        click.echo(
            f"ranges of all these numbers{whose} were published on {ranged.record.since:%Y-%m-%d}, release {ranged.digest[:12]}: "
            f'with ranges = "{how}" in the request moments use them at no charge'
        )
    planned = {each.mechanism for each in found.settings}
    for name in () if mechanisms else names():
        if name not in planned and (purpose := mechanism_named(name).purpose):
            click.echo(f"not planned here, {name}: {purpose}")
    click.echo(advice)


def _say(expected: Expectation, made: Numbers, delta: float, room: Mapping[str, Fraction], *, as_json: bool) -> None:
    """Print the expected worth and cost of a release that nobody fits on."""
    if as_json:
        charged = {party: str(mu2) for party, mu2 in made.charges.items()}
        left_mu2 = {party: str(mu2) for party, mu2 in room.items()}
        print_json({**expected.figures, "charged_mu2": charged, "left_mu2": left_mu2})
        return
    click.echo(NO_DATA)
    click.echo(made.explanation)
    for line in expected.lines:
        click.echo(line)
    for party, price in made.charges.items():
        has = f"it has left {price_text(room[party], delta)}, {room_text(room[party], price)}"
        click.echo(f"{party} is charged {price_text(price, delta)}; {has}")
