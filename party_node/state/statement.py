"""A roster's account: what is spent and what is left, and how it came to that, entry by entry.

Exact sums of what the ledger holds, and what each round of a release adds to its price; nothing here changes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from dprelease.mechanisms.registry import mechanism_of
from party_node.state.entries import HOLDING, STAGES, Entry
from party_node.state.journal import Record

Rounds = Mapping[str, Mapping[str, Fraction]]
"""Release to the mechanisms of its rounds, each with its part of our charge; only of releases of several rounds."""

ONE_ROUND: Rounds = MappingProxyType({})
"""No release has several."""


@dataclass(frozen=True)
class Line:
    """An entry, and where the account stood after it.

    Attributes:
        entry: of the ledger.
        title: of its release, or of what was declared public; empty for ``open``.
        held: mu^2 charged or reserved after the entry.
        left: mu^2 left after it.
        rounds: mechanism of each round of its release to that round's part of the entry's mu^2; empty where there is one.
    """

    entry: Entry
    title: str
    held: Fraction
    left: Fraction
    rounds: Mapping[str, Fraction]

    @property
    def mu2(self) -> Fraction:
        """mu^2 of the entry: the cap for ``open``."""
        return Fraction(self.entry.mu2)


def rounds_of(records: Iterable[Record], entries: Iterable[Entry], party: str) -> Rounds:
    """Each round's part of what releases of several rounds are charged, from the specs that we approved.

    A release that the ledger never held budget for is left out.
    """
    priced = {entry.release for entry in entries if entry.kind in HOLDING}
    rounds = {each.digest: mechanism_of(each.spec).cost(each.spec).rounds for each in records if each.digest in priced}
    return {
        release: {mechanism: charges[party] for mechanism, charges in found.items()}
        for release, found in rounds.items()
        if found
    }


def history(entries: Iterable[Entry], rounds: Rounds = ONE_ROUND) -> tuple[Line, ...]:
    """The account after every entry of one roster, which come oldest first; rounds as of `rounds_of`."""
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
        lines.append(Line(entry, title, held, cap - held, rounds_at(entry, rounds)))
    return tuple(lines)


def rounds_at(entry: Entry, rounds: Rounds) -> Mapping[str, Fraction]:
    """Each round's part of an entry's mu^2; empty where its release has one round, or the entry names no price."""
    return rounds.get(entry.release, {}) if entry.kind in STAGES else {}
