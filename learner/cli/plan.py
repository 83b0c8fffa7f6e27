"""`learner plan`: what a fit would be worth, before anybody has released anything."""

from __future__ import annotations

from pathlib import Path

import click

from dprelease.canonical import read_data
from dprelease.cli.plan_options import compared, with_guesses
from dprelease.cli.printing import explain_option, json_option, print_document
from dprelease.mechanisms.assumptions import PlannedFit, Scenario, chosen, draft_of, evenly
from dprelease.mechanisms.registry import names
from dprelease.spec_base import Target


def _weights(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """``NAME=2``, repeated, as a mapping."""
    pairs = [text.partition("=") for text in given]
    wrong = [text for text, (name, _, weight) in zip(given, pairs, strict=True) if not (name and weight.isdecimal())]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not a column and its weight, such as glucose=2")
    return {name: int(weight) for name, _, weight in pairs}


@click.command("plan")
@click.option("--rows", type=click.IntRange(min=2), required=True, help="Patients, n.")
@click.option("--parties", required=True, metavar="D1,D2,...", help="Columns of each hospital, the outcome among them.")
@click.option("--features", type=click.IntRange(min=1), help="Features of the fit; every other column if left out.")
@click.option("--epsilon", type=float, required=True, help="Of the release.")
@click.option("--delta", type=float, required=True, help="Of the release.")
@click.option(
    "--scope",
    type=click.Choice(["joint", "per-party"]),
    default="joint",
    show_default=True,
    help="Scope of epsilon: all blocks together or each; joint moments are always joint.",
)
@click.option("--rows-per-subject", type=click.IntRange(min=1), default=1, show_default=True, help="Rows of a patient.")
@click.option("--k", "outputs", type=click.IntRange(min=1), help="Mixing rows; by the usual rule if left out.")
@click.option(
    "--collusion-threshold", type=click.IntRange(min=1), help="Hospitals that may pool what they saw; 1 if left out."
)
@click.option(
    "--outcomes", type=click.IntRange(min=1), metavar="L", help="The last L columns are outcomes only; for moments."
)
@click.option(
    "--weight",
    multiple=True,
    metavar="NAME=W",
    callback=_weights,
    help="Give a column W times less noise than others have, for mixed and rows; may be repeated.",
)
@with_guesses
@json_option
@explain_option
def plan(
    rows: int,
    parties: str,
    features: int | None,
    epsilon: float,
    delta: float,
    scope: str,
    rows_per_subject: int,
    outputs: int | None,
    collusion_threshold: int | None,
    outcomes: int | None,
    weight: dict[str, int],
    mechanisms: tuple[str, ...],
    signals: tuple[float, ...],
    spread: float,
    plot: Path | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Say what to expect of a release, and which mechanism to ask for, before anything is spent.

    From public numbers and guesses alone, without any data: the share of variance that a fit is expected to explain,
    the error of its coefficients, from how many patients or which epsilon it would beat the mean, and what every
    hospital's ledger would be charged.

    \b
    Example:
      learner plan --rows 20000 --parties 3,4,2 --epsilon 1 --delta 1e-6 --signal 0.3 --plot plan.png
    """
    held = evenly(parties)
    columns = tuple(column.name for declared in held.values() for column in declared)
    outcome_only = columns[-outcomes:] if outcomes else ()
    outcome, used = chosen(held, None, None if features is None else str(features), outcome_only)
    target = read_data(Target, {"scope": scope, "epsilon": epsilon, "delta": delta}, "learner plan")
    given = {"k": outputs, "collusion_threshold": collusion_threshold, "weights": weight, "outcomes": outcome_only}
    draft = draft_of(held, rows, rows_per_subject, target)
    fit = PlannedFit(draft.everything, outcome, used, spread)
    scenario = Scenario(draft, names()[0], fit, {key: value for key, value in given.items() if value})
    found = compared(scenario, mechanisms, signals, plot)
    print_document(found.document(), as_json=as_json, explain=explain)
