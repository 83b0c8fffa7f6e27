"""What the hospital sees on its own screen. Nothing printed here crosses the boundary."""

from __future__ import annotations

import os
from fractions import Fraction

from rich.console import Console
from rich.table import Table as Grid

from dprelease.columns import CategoricalColumn, Column, released_names
from dprelease.price import mu2_text, price_text
from dprelease.spec import ReleaseSpec
from dprelease.trust import trust
from dprelease.wire.console import plain
from party_node.decision import Assessment
from party_node.journal import Record

WIDTH = 200
"""Characters of a line that does not go to a terminal."""


def screen() -> Console:
    """A console that prints titles and names as they stand: no markup, no emoji, no colours of their own."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def describe(column: Column) -> str:
    """A declaration in words."""
    public = "; PUBLIC, published exactly" if column.public else ""
    if isinstance(column, CategoricalColumn):
        return f"{column.name}: one of {', '.join(column.levels)} or other; missing = {column.fill}{public}"
    unit = f" {column.unit}" if column.unit else ""
    return f"{column.name}: {column.lower:g} to {column.upper:g}{unit}; missing = {column.fill:g}{public}"


def card(assessment: Assessment, record: Record) -> dict[str, object]:
    """The review card: what would be published and what it costs, from metadata alone.

    JSON-ready, but for exact mu^2, each a `Fraction`, whose text is its JSON form.
    """
    spec, guarantee, balance = assessment.spec, assessment.guarantee, assessment.balance
    delta = spec.target.delta
    own = spec.party(assessment.party)
    return {
        "release": record.release,
        "title": spec.title,
        "status": record.status.value,
        "note": record.note,
        "consortium": spec.consortium,
        "roster": spec.roster,
        "patients": spec.rows,
        "would_publish": _published(spec),
        "own_columns": [describe(column) for column in (own.columns if own else ())],
        "public_columns": [column.name for column in spec.public],
        "parties": {part.party: list(part.released) for part in spec.parties},
        "joint_epsilon": guarantee.joint_epsilon,
        "own_epsilon": guarantee.party(assessment.party).epsilon,
        "epsilon_of_others_against_us": guarantee.against({assessment.party}),
        "delta": delta,
        "guarantee": list(guarantee.words()),
        "trust": list(trust(spec)),
        "costs": price_text(assessment.cost, delta),
        "costs_mu2": assessment.cost,
        "budget": {
            "cap_mu2": balance.cap,
            "spent_mu2_before": balance.held,
            "spent_mu2_after": balance.held + assessment.cost,
            "left_mu2_after": balance.remaining - assessment.cost,
            "spent_epsilon_before": balance.epsilon(delta),
            "spent_epsilon_after": balance.epsilon(delta, assessment.cost),
        },
        "decide_before": spec.expires,
        "pays_again": list(assessment.repeats),
        "first": list(assessment.blockers),
        "needs_a_person_because": list(assessment.beyond_auto),
    }


def _published(spec: ReleaseSpec) -> str:
    exact = len(released_names(spec.public))
    rows = f"; and, exactly, all {spec.rows} rows of {exact} public columns" if exact else ""
    return _noisy(spec, len(spec.released) - (0 if spec.moments else exact)) + rows


def _noisy(spec: ReleaseSpec, width: int) -> str:
    if spec.moments is not None:
        whom = (
            "by this hospital alone"
            if len(spec.parties) == 1
            else f"by {len(spec.parties)} hospitals on masked columns"
        )
        private = "private " if spec.public else ""
        sums = f"{spec.layout.entries} noisy sums over all {spec.rows} patients"
        return f"{sums}: means and products of {width} columns, computed {whom}; no {private}row of anybody's"
    if spec.mixing is None:
        return f"{spec.rows} noisy rows of {width} columns, one for each patient, in keyed order"
    anchor = " and one row of column sums" if Fraction(spec.anchor_weight) else ""
    return f"{spec.mixing.outputs} noisy random mixtures of all {spec.rows} patients{anchor}, {width} columns"


def print_card(console: Console, shown: dict[str, object]) -> None:
    """The review card as a table."""
    grid = Grid(show_header=False, box=None, padding=(0, 2, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in shown.items():
        grid.add_row(name.replace("_", " "), _words(value))
    console.print(grid)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key.replace('_', ' ')}: {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(plain(str(item)) for item in value) or "-"
    if isinstance(value, Fraction):
        return mu2_text(value)
    return f"{value:.6g}" if isinstance(value, float) else plain(str(value))


def print_releases(console: Console, records: list[Record]) -> None:
    """One line for each release."""
    grid = Grid("release", "status", "patients", "title", "note")
    for record in records:
        title, note = plain(record.spec.title), plain(record.note)
        grid.add_row(record.release[:12], record.status, str(record.spec.rows), title, note)
    console.print(grid)
