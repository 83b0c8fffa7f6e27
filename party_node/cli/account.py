"""A roster's account as a document: what is spent and left, and how it came to that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction

from dprelease.document.cells import Cell, Said, price
from dprelease.document.document import Document, Heading, Table
from dprelease.privacy.price import epsilon_at, epsilon_text, mu2_text, room_text
from party_node.state.entries import Balance
from party_node.state.statement import Line

_ENTRY = (
    Heading("number", "no"),
    Heading("at"),
    Heading("kind"),
    Heading("release"),
    Heading("title"),
    Heading("mu2", "mu^2"),
    Heading("epsilon"),
    Heading("held_mu2", "held: mu^2"),
    Heading("held_epsilon", "held: epsilon"),
    Heading("left_mu2", "left: mu^2"),
    *(Heading(key, detail=True) for key in ("roster", "detail", "previous", "hash")),
    Heading("rounds", "of it"),
)


def account(roster: str, balance: Balance, lines: Sequence[Line], delta: float) -> Document:
    """Spent and left, and every entry; as data, every mu^2 is an exact rational, ``"p/q"``.

    Args:
        roster: whose account it is.
        balance: now.
        lines: of its history.
        delta: at which epsilon is shown.

    Raises:
        InvalidInput: delta is not in (0, 1).
    """
    amounts = {
        "charged": balance.charged,
        "reserved": balance.reserved,
        "spent": balance.held,
        "left": balance.remaining,
        "cap": balance.cap,
        "exposure_of_own_columns": balance.exposed,
    }
    latest = next((line for line in reversed(lines) if line.entry.kind == "reserve" and line.mu2), None)
    like = f"release {latest.entry.release[:12]}, the latest that costs anything" if latest else ""
    return Document(
        f"roster {roster}",
        {name: price(mu2, delta) for name, mu2 in amounts.items()},
        (Table.of("entries", _ENTRY, [_row(line, delta) for line in lines]),),
        (f"What is left is {room_text(balance.remaining, latest.mu2, like)}.",) if latest else (),
        data={"roster": roster, "delta": delta},
    )


def _row(line: Line, delta: float) -> list[Cell]:
    cells: dict[str, Cell] = asdict(line.entry)
    cells |= {"release": Said(line.entry.release, line.entry.release[:12]), "title": line.title}
    cells |= {name: _exact(mu2) for name, mu2 in (("mu2", line.mu2), ("held_mu2", line.held), ("left_mu2", line.left))}
    for name, mu2 in (("epsilon", line.mu2), ("held_epsilon", line.held)):
        cells[name] = Said(epsilon_at(mu2, delta), epsilon_text(mu2, delta))
    rounds = {name: {"mu2": str(mu2), "epsilon": epsilon_at(mu2, delta)} for name, mu2 in line.rounds.items()}
    said = tuple(f"{name}: {mu2_text(mu2)}, {epsilon_text(mu2, delta)}" for name, mu2 in line.rounds.items())
    cells["rounds"] = Said(rounds, said or "")
    return [cells[heading.key] for heading in _ENTRY]


def _exact(mu2: Fraction) -> Said:
    return Said(str(mu2), mu2_text(mu2))
