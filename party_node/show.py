"""What the hospital sees on its own screen. Nothing printed here crosses the boundary."""

from __future__ import annotations

import json
from fractions import Fraction

from rich.console import Console
from rich.table import Table as Grid

from dprelease.columns import CategoricalColumn, Column
from dprelease.spec import ReleaseSpec
from dprelease.trust import trust
from dprelease.wire.console import plain
from party_node.decision import Assessment
from party_node.journal import Record
from party_node.ledger import Balance, Entry

JOINT_NOTE = "a patient who is in every block; holds if every hospital adds the noise it declares"


def screen() -> Console:
    """A console that prints titles and names as they stand: no markup, no emoji, no colours of their own."""
    return Console(markup=False, emoji=False, highlight=False)


def describe(column: Column) -> str:
    """A declaration in words."""
    if isinstance(column, CategoricalColumn):
        return f"{column.name}: one of {', '.join(column.levels)} or other; missing = {column.fill}"
    unit = f" {column.unit}" if column.unit else ""
    return f"{column.name}: {column.lower:g} to {column.upper:g}{unit}; missing = {column.fill:g}"


def card(assessment: Assessment, record: Record) -> dict[str, object]:
    """The review card: what would be published and what it costs, from metadata alone. JSON-ready."""
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
        "parties": {part.party: list(part.released) for part in spec.parties},
        "joint_epsilon": guarantee.joint_epsilon,
        "own_epsilon": guarantee.party(assessment.party).epsilon,
        "epsilon_of_others_against_us": guarantee.against({assessment.party}),
        "delta": delta,
        "guarantee": list(guarantee.words()),
        "trust": list(trust(spec)),
        "costs_mu2": float(assessment.cost),
        "budget": {
            "cap_mu2": float(balance.cap),
            "spent_mu2_before": float(balance.charged + balance.reserved),
            "spent_mu2_after": float(balance.charged + balance.reserved + assessment.cost),
            "spent_epsilon_before": balance.epsilon(delta),
            "spent_epsilon_after": balance.epsilon(delta, assessment.cost),
        },
        "decide_before": spec.expires,
        "pays_again": list(assessment.repeats),
        "first": list(assessment.blockers),
        "needs_a_person_because": list(assessment.beyond_auto),
    }


def _published(spec: ReleaseSpec) -> str:
    width = len(spec.released)
    if spec.moments is not None:
        whom = (
            "by this hospital alone"
            if len(spec.parties) == 1
            else f"by {len(spec.parties)} hospitals on masked columns"
        )
        sums = f"{spec.layout.entries} noisy sums over all {spec.rows} patients"
        return f"{sums}: means and products of {width} columns, computed {whom}; no row of anybody's"
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
    return f"{value:.6g}" if isinstance(value, float) else plain(str(value))


def print_releases(console: Console, records: list[Record]) -> None:
    """One line for each release."""
    grid = Grid("release", "status", "patients", "title", "note")
    for record in records:
        title, note = plain(record.spec.title), plain(record.note)
        grid.add_row(record.release[:12], record.status, str(record.spec.rows), title, note)
    console.print(grid)


def print_ledger(console: Console, roster: str, balance: Balance, entries: list[Entry], delta: float) -> None:
    """A roster's account."""
    grid = Grid("no", "at", "kind", "release", "mu^2", "title")
    for entry in entries:
        detail = json.loads(entry.detail)
        mu2 = f"{float(Fraction(entry.mu2)):.6g}"
        title = plain(str(detail.get("title", "")))
        grid.add_row(str(entry.number), entry.at, entry.kind, entry.release[:12], mu2, title)
    console.print(grid)
    console.print(
        f"roster {roster}: cap mu^2 = {float(balance.cap):.6g}, charged {float(balance.charged):.6g}, "
        f"reserved {float(balance.reserved):.6g}, left {float(balance.remaining):.6g}; "
        f"spent epsilon = {balance.epsilon(delta):.6g} at delta = {delta:g}"
    )
