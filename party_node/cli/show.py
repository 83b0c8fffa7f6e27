"""What the hospital sees on its own screen. Nothing printed here crosses the boundary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from rich.console import Console
from rich.table import Table as Grid

from dprelease.data.columns import CategoricalColumn, Column, released_names
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.statement import Words
from dprelease.one_line import one_line
from dprelease.privacy.price import epsilon_at, epsilon_figure, mu2_text, price_text
from dprelease.release.spec import ReleaseSpec
from dprelease.release.trust import trust
from party_node.decision.decision import Assessment
from party_node.source.findings import Findings
from party_node.state.journal import Record

WIDTH = 200
"""Characters of a line that does not go to a terminal."""

_IF_ANY = {
    "own_cells_seen_here_only": "own cells (never sent)",
    "pays_again": "pays again",
    "first": "to do here first",
    "needs_a_person_because": "needs a person because",
}
"""Rows of the card that are there only where there is something to say."""


def screen() -> Console:
    """A console that prints titles and names as they stand: no markup, no emoji, no colours of their own."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def describe(column: Column) -> str:
    """A declaration in words."""
    derived = f"; derived: {column.derivation}" if column.derivation else ""
    more = derived + ("; PUBLIC, published exactly" if column.public else "")
    if isinstance(column, CategoricalColumn):
        return f"{column.name}: one of {column.extent}; missing = {column.fill}{more}"
    unit = (" " if column.bounded else ", in ") + column.unit if column.unit else ""
    return f"{column.name}: {column.extent}{unit}; missing = {column.fill:g}{more}"


def card(
    assessment: Assessment, record: Record, findings: Mapping[str, Findings] = MappingProxyType({})
) -> dict[str, object]:
    """The review card: what would be published and what it costs, from metadata alone, beside local counts.

    JSON-ready, but for exact mu^2, each a `Fraction`, whose text is its JSON form.

    Args:
        assessment: what taking part would mean.
        record: the release in the journal.
        findings: from `HospitalState.findings`.
    """
    spec, guarantee, balance = assessment.spec, assessment.guarantee, assessment.balance
    delta, words = spec.target.delta, mechanism_of(spec).words(spec)
    own = spec.party(assessment.party)
    return {
        "release": record.release,
        "title": spec.title,
        "status": record.status.value,
        "note": record.note,
        "consortium": spec.consortium,
        "roster": spec.roster,
        "patients": spec.rows,
        **({"common_to_all_by_alignment_run": spec.aligned} if spec.aligned is not None else {}),
        "would_publish": _published(spec, words),
        "own_columns": [describe(column) for column in (own.columns if own else ())],
        "own_cells_seen_here_only": [f"{name}: {found.words()}" for name, found in findings.items()],
        "public_columns": [column.name for column in spec.public],
        "weighted_columns": [
            f"{name}: noise {weight} times smaller, at the cost of the other columns"
            for name, weight in spec.weights.items()
        ],
        "outcome_columns": list(spec.outcomes),
        "details": list(words.details),
        "parties": {part.party: list(part.released) for part in spec.parties},
        "joint_epsilon": guarantee.joint_epsilon,
        "own_epsilon": guarantee.party(assessment.party).epsilon,
        "epsilon_of_others_against_us": guarantee.against({assessment.party}),
        "delta": delta,
        "guarantee": list(guarantee.words()),
        "trust": list(trust(spec, words)),
        "costs": price_text(assessment.cost, delta),
        "costs_mu2": assessment.cost,
        "budget": {
            "cap_mu2": balance.cap,
            "cap_epsilon": epsilon_at(balance.cap, delta),
            "spent_mu2_before": balance.held,
            "spent_mu2_after": balance.held + assessment.cost,
            "left_mu2_after": balance.remaining - assessment.cost,
            "left_epsilon_after": epsilon_at(balance.remaining - assessment.cost, delta),
            "spent_epsilon_before": balance.epsilon(delta),
            "spent_epsilon_after": balance.epsilon(delta, assessment.cost),
        },
        "decide_before": spec.expires,
        "pays_again": list(assessment.repeats),
        "first": list(assessment.blockers),
        "needs_a_person_because": list(assessment.review_reasons),
    }


def _published(spec: ReleaseSpec, words: Words) -> str:
    exact = len(released_names(spec.public))
    rows = f"; and, exactly, all {spec.rows} rows of {exact} public columns" if exact else ""
    return words.would_publish + rows


def print_card(console: Console, shown: dict[str, object]) -> None:
    """The review card as a table."""
    grid = Grid(show_header=False, box=None, padding=(0, 2, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in shown.items():
        if value or name not in _IF_ANY:
            grid.add_row(_IF_ANY.get(name, name.replace("_", " ")), _words(value))
    console.print(grid)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key.replace('_', ' ')}: {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(one_line(str(item)) for item in value) or "-"
    if isinstance(value, Fraction):
        return mu2_text(value)
    if value is None:
        return "-"
    # Every number of the card that is no mu^2 is an epsilon or a delta.
    return epsilon_figure(value) if isinstance(value, float) else one_line(str(value))


def print_releases(console: Console, records: list[Record]) -> None:
    """One line for each release."""
    grid = Grid("release", "status", "patients", "title", "note")
    for record in records:
        title, note = one_line(record.spec.title), one_line(record.note)
        grid.add_row(record.release[:12], record.status, str(record.spec.rows), title, note)
    console.print(grid)
