"""`coordinator plan`: what a release would be worth, before any hospital is asked."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from coordinator.cli.options import opened, print_json, with_json, with_settings
from coordinator.clock import utc_now
from coordinator.proposals.checks import agree, check_clashes, choose, enrolled, reported
from coordinator.proposals.proposals import Request
from coordinator.service.witness import left
from coordinator.settings import CoordinatorSettings
from coordinator.store.members import Members
from dprelease.canonical import read_data
from dprelease.cli.plan_options import compared, last_columns, outcomes_option, weight_option, with_guesses
from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.files.settings import read_settings
from dprelease.mechanisms.rational import read_weight
from dprelease.mechanisms.registry import mechanism_named, names
from dprelease.planning.assumptions import Setting, chosen, evenly
from dprelease.planning.forecast import proposed
from dprelease.privacy.gaussian import check_target
from dprelease.privacy.price import mu2_text
from dprelease.spec_base import Target


@click.command()
@click.argument("request", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--rows", type=click.IntRange(min=2), help="Patients, n; without a REQUEST.")
@click.option("--parties", metavar="D1,D2,...", help="Columns of each hospital; without a REQUEST.")
@click.option("--epsilon", type=float, help="Of the release; without a REQUEST.")
@click.option("--delta", type=float, help="Of the release; without a REQUEST.")
@click.option("--scope", type=click.Choice(["joint", "per-party"]), help="Joint if left out; without a REQUEST.")
@click.option("--k", type=click.IntRange(min=1), help="Mixing rows; without a REQUEST.")
@click.option("--rho", help="Weight of the anchor row; without a REQUEST.")
@click.option("--curious", type=click.IntRange(min=1), help="Hospitals that may pool what they saw; without a REQUEST.")
@outcomes_option
@weight_option
@click.option("--target", "outcome", metavar="COLUMN", help="Outcome of the fit; the last column if left out.")
@click.option("--features", metavar="A,B,...", help="Columns to fit on, or how many; every other if left out.")
@with_guesses
@with_json
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
    **numbers: Any,
) -> None:
    """Say what to expect of the REQUEST (as for `release create`), and which mechanism to choose. Nothing is proposed.

    From public numbers and guesses alone, without any data: n and columns from the hospitals' catalogues, or, without a
    REQUEST, from the options.

    \b
    Example:
      coordinator plan study.toml --target glucose
      coordinator plan --rows 20000 --parties 3,4,2 --epsilon 1 --delta 1e-6 --signal 0.3 --plot plan.png
    """
    given = {name: value for name, value in numbers.items() if value is not None}
    room: dict[str, Fraction] = {}
    if request is None:
        public = _by_hand(given)
    elif given:
        raise InvalidInput(f"the request says already what --{', --'.join(given)} would say; give one or the other")
    else:
        with opened(settings) as store, store.reading() as tx:
            public = _requested(read_settings(request, Request), tx.members, utc_now())
            roster = next(iter(reported(tx.members, tuple(public["parties"])).values())).roster
            room = {party: left(tx, party, roster) for party in public["parties"]}
    name, used = chosen(public["parties"], outcome, features, public.get("outcomes", ()))
    setting = Setting(**public, mechanism=names()[0], outcome=name, features=used, spread=spread)
    found = compared(setting, mechanisms, signals, plot)
    if as_json:
        print_json(found.to_json() | {"left_mu2": {party: str(mu2) for party, mu2 in room.items()}})
        return
    *lines, advice = found.lines()
    for line in lines:
        click.echo(line)
    for party, mu2 in room.items():
        prices = {each.mechanism: proposed(each).prices[party] for each in found.settings}
        fits = ", ".join(
            f"{max(0, mu2 // price) if price else 'any number'} by {name}" for name, price in prices.items()
        )
        click.echo(f"{party} has mu^2 = {mu2_text(mu2)} left: releases like this one that fit: {fits}")
    click.echo(advice)


def _by_hand(given: dict[str, Any]) -> dict[str, Any]:
    missing = [name for name in ("rows", "parties", "epsilon", "delta") if name not in given]
    if missing:
        raise InvalidInput(f"give a REQUEST, or else --{', --'.join(missing)} too")
    target = {"scope": given.get("scope", "joint"), "epsilon": given["epsilon"], "delta": given["delta"]}
    parties = evenly(given["parties"])
    return {
        "rows": given["rows"],
        "parties": parties,
        "outcomes": last_columns(parties, given.get("outcomes")),
        "target": read_data(Target, target, "coordinator plan"),
        "outputs": given.get("k"),
        "anchor_weight": _weight(given.get("rho")),
        "curious": given.get("curious"),
        "weights": given.get("weight", {}),
    }


def _requested(request: Request, members: Members, now: datetime) -> dict[str, Any]:
    names = tuple(request.parties)
    for name in names:
        enrolled(members, name, now)
    catalogues = reported(members, names)
    agreed = agree(catalogues)
    parties: dict[str, tuple[Column, ...]] = {name: choose(request.parties[name], catalogues[name]) for name in names}
    check_clashes(parties)
    check_target(request.epsilon, request.delta)
    return {
        "rows": agreed.rows,
        "parties": parties,
        "target": request.target(),
        "rows_per_subject": agreed.rows_per_subject,
        "grid_bits": request.grid_bits,
        **mechanism_named(request.mechanism).scenario(request.options, parties),
    }


def _weight(rho: str | None) -> Fraction | None:
    return None if rho is None else read_weight("rho", rho)
