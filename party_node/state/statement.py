"""A roster's account: what is spent and what is left, and how it came to that, entry by entry.

Exact sums of what the ledger holds; nothing here changes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from dprelease.one_line import one_line
from dprelease.privacy.price import epsilon_at, epsilon_figure, epsilon_text, mu2_text, price_text, room_text
from party_node.state.entries import HOLDING, STAGES, Balance, Entry


@dataclass(frozen=True)
class Line:
    """An entry, and where the account stood after it.

    Attributes:
        entry: of the ledger.
        title: of its release, or of what was declared public; empty for ``open``.
        held: mu^2 charged or reserved after the entry.
        left: mu^2 left after it.
    """

    entry: Entry
    title: str
    held: Fraction
    left: Fraction

    @property
    def mu2(self) -> Fraction:
        """mu^2 of the entry: the cap for ``open``."""
        return Fraction(self.entry.mu2)


def history(entries: Iterable[Entry]) -> tuple[Line, ...]:
    """The account after every entry.

    Args:
        entries: of one roster, oldest first.
    """
    cap, held = Fraction(0), Fraction(0)
    holding: dict[str, Fraction] = {}
    titles: dict[str, str] = {}
    lines = []
    for entry in entries:
        if entry.kind == "open":
            cap = Fraction(entry.mu2)
        elif entry.kind in STAGES:
            titles.setdefault(entry.release, str(json.loads(entry.detail).get("title", "")))
            now = Fraction(entry.mu2) if entry.kind in HOLDING else Fraction(0)
            held += now - holding.get(entry.release, Fraction(0))
            holding[entry.release] = now
        title = titles.get(entry.release, "") if entry.release else str(json.loads(entry.detail).get("title", ""))
        lines.append(Line(entry, title, held, cap - held))
    return tuple(lines)


def to_json(roster: str, balance: Balance, lines: Iterable[Line], delta: float) -> dict[str, Any]:
    """The account as plain data; every mu^2 is an exact rational, ``"p/q"``."""
    return {
        "roster": roster,
        "cap_mu2": str(balance.cap),
        "charged_mu2": str(balance.charged),
        "reserved_mu2": str(balance.reserved),
        "remaining_mu2": str(balance.remaining),
        "exposed_mu2": str(balance.exposed),
        "delta": delta,
        "spent_epsilon": balance.epsilon(delta),
        "entries": [_entry_json(line, delta) for line in lines],
    }


def _entry_json(line: Line, delta: float) -> dict[str, Any]:
    return asdict(line.entry) | {
        "title": line.title,
        "epsilon": epsilon_at(line.mu2, delta),
        "held_mu2": str(line.held),
        "held_epsilon": epsilon_at(line.held, delta),
        "left_mu2": str(line.left),
    }


def print_account(console: Console, roster: str, balance: Balance, lines: Iterable[Line], delta: float) -> None:
    """The account for people: one row for each entry, then what is spent and left."""
    grid = Grid("no", "at", "kind", "release", "title", "mu^2", "epsilon", "held: mu^2", "epsilon", "left: mu^2")
    for line in lines:
        entry = line.entry
        grid.add_row(
            str(entry.number),
            entry.at,
            entry.kind,
            entry.release[:12],
            one_line(line.title),
            mu2_text(line.mu2),
            epsilon_text(line.mu2, delta),
            mu2_text(line.held),
            epsilon_text(line.held, delta),
            mu2_text(line.left),
        )
    for column in grid.columns:
        column.overflow = "fold"
    console.print(grid)
    for what, mu2 in (
        ("charged", balance.charged),
        ("reserved", balance.reserved),
        ("left", balance.remaining),
        ("cap", balance.cap),
        ("our own columns' exposure", balance.exposed),
    ):
        console.print(f"roster {roster}, {what}: {price_text(mu2, delta)}", soft_wrap=True)
    latest = next((line for line in reversed(tuple(lines)) if line.entry.kind == "reserve" and line.mu2), None)
    if latest is not None:
        room = room_text(
            balance.remaining, latest.mu2, f"release {latest.entry.release[:12]}, the latest that costs anything"
        )
        console.print(f"roster {roster}: what is left is {room}", soft_wrap=True)
    console.print(f"spent epsilon = {epsilon_figure(balance.epsilon(delta))} at delta = {delta:g}")
