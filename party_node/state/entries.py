"""Entries of the ledger, and what they add up to: where a release stands, what a roster has left."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dprelease.canonical import canonical_bytes, sha256
from dprelease.errors import NotFound
from dprelease.privacy.gaussian import epsilon_of

STAGES = frozenset({"reserve", "charge", "send", "refund", "close"})
"""Kinds of entry that may be a release's last."""

CHARGED = frozenset({"charge", "send", "close"})
"""Stages in which its mu^2 is spent."""

HOLDING = CHARGED | {"reserve"}
"""Stages in which its mu^2 is spent or promised."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Attributes:
        number: 1, 2, 3, ...
        roster: whose budget.
        kind: ``open``, ``reserve``, ``charge``, ``send``, ``refund``, ``close`` or ``made``; ``public`` for a column that was
            declared so; ``align`` for an alignment run.
        release: spec digest; empty for ``open``, ``public`` and ``align``.
        mu2: exact mu^2 as a rational; the cap for ``open``, 0 for ``public``, ``align`` and ``made``.
        detail: JSON for people: title, epsilon, delta; what was declared for ``public``; the run's digest for ``align``;
            SHA-256 of the blocks for ``made``.
        at: when.
        previous: hash of the entry before.
        hash: SHA-256 over all of the above.
    """

    number: int
    roster: str
    kind: str
    release: str
    mu2: str
    detail: str
    at: str
    previous: str
    hash: str

    @property
    def exposure(self) -> Fraction:
        """mu^2 of what the release reveals of our own columns: more than what is charged where others are charged too."""
        return Fraction(json.loads(self.detail).get("exposure", self.mu2))

    @property
    def blocks(self) -> tuple[str, ...]:
        """SHA-256 of each block that a ``made`` entry names, by sequence number; none for others."""
        return tuple(json.loads(self.detail)["blocks"]) if self.kind == "made" else ()

    @property
    def kept(self) -> str:
        """SHA-256 of what a ``made`` entry says is kept for later checkpoints of a stream; empty where there is nothing."""
        return str(json.loads(self.detail).get("kept", "")) if self.kind == "made" else ""

    def expected_hash(self) -> str:
        """The hash that the fields call for."""
        fields = [self.number, self.roster, self.kind, self.release, self.mu2, self.detail, self.at, self.previous]
        return sha256(canonical_bytes(fields))


@dataclass(frozen=True)
class Balance:
    """A roster's budget.

    Attributes:
        cap: mu^2 that may ever be spent.
        charged: mu^2 charged.
        reserved: mu^2 promised to approved releases and not yet charged.
        exposed: mu^2 of what all of them reveal of our own columns.
    """

    cap: Fraction
    charged: Fraction
    reserved: Fraction
    exposed: Fraction

    @property
    def held(self) -> Fraction:
        """mu^2 charged or reserved."""
        return self.charged + self.reserved

    @property
    def remaining(self) -> Fraction:
        """mu^2 left."""
        return self.cap - self.held

    def epsilon(self, delta: float, extra: Fraction = Fraction(0)) -> float:
        """epsilon at `delta` of what is charged and reserved, and `extra` mu^2 more."""
        return epsilon_of(math.sqrt(self.held + extra), delta)

    def exposure(self, delta: float, extra: Fraction = Fraction(0)) -> float:
        """epsilon at `delta` of what is revealed of our own columns, and `extra` mu^2 more."""
        return epsilon_of(math.sqrt(self.exposed + extra), delta)


def stage_of(entries: list[Entry], roster: str, release: str) -> str:
    """The last thing that happened to a release; empty if nothing did."""
    return last_stage(entry for entry in entries if (entry.roster, entry.release) == (roster, release))


def last_stage(entries: Iterable[Entry]) -> str:
    """The same, from the entries of one release alone, oldest first."""
    return next((entry.kind for entry in reversed(list(entries)) if entry.kind in STAGES), "")


def last_made(entries: Iterable[Entry]) -> tuple[str, ...]:
    """SHA-256 of all blocks that were made for a release, from its entries, oldest first; each names those before it too."""
    return next((entry.blocks for entry in reversed(list(entries)) if entry.blocks), ())


def last_kept(entries: Iterable[Entry]) -> str:
    """SHA-256 of what is kept of a release for later checkpoints of its stream, from its entries, oldest first; or empty."""
    return next((entry.kept for entry in reversed(list(entries)) if entry.blocks), "")


def aligned(entries: Iterable[Entry], roster: str) -> tuple[str, ...]:
    """The alignment runs that are noted for a roster, oldest first."""
    return tuple(json.loads(each.detail)["run"] for each in entries if (each.roster, each.kind) == (roster, "align"))


def balance_of(entries: list[Entry], roster: str) -> Balance:
    """A roster's budget, from all entries.

    Raises:
        NotFound: the roster was never opened.
    """
    own = [entry for entry in entries if entry.roster == roster]
    cap = next((Fraction(entry.mu2) for entry in own if entry.kind == "open"), None)
    if cap is None:
        raise NotFound(f"the ledger has no roster {roster}; enrol first")
    last = {entry.release: entry for entry in own if entry.kind in STAGES}
    charged = sum((Fraction(entry.mu2) for entry in last.values() if entry.kind in CHARGED), Fraction(0))
    reserved = sum((Fraction(entry.mu2) for entry in last.values() if entry.kind == "reserve"), Fraction(0))
    holding = {release for release, entry in last.items() if entry.kind in HOLDING}
    exposures: dict[str, Fraction] = {}
    for entry in own:
        if entry.release in holding:
            exposures[entry.release] = max(entry.exposure, exposures.get(entry.release, Fraction(0)))
    return Balance(cap, charged, reserved, sum(exposures.values(), Fraction(0)))
