"""Checks before any hospital is asked: each names who or what is in the way, in counts and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

from coordinator.store.members import Members, Party
from dprelease import spec_base
from dprelease.catalogue import COMPARE_KEYS, FEWEST_COMPARED, Catalogue
from dprelease.data.columns import Column, private, public, released_names
from dprelease.errors import InvalidInput
from dprelease.mechanisms.base import Mechanism
from dprelease.one_line import listed, quoted
from dprelease.privacy.price import price_text
from dprelease.spec_base import Label, instant

EVERY_COLUMN = "*"

PublicSide = Literal["features", "outcomes", "mixed"]

LABELS: Mapping[PublicSide, Label] = MappingProxyType(
    {"features": "label-DP", "outcomes": "feature-DP", "mixed": "mixed"}
)
"""Role of the public columns to the name of the guarantee."""


def enrolled(members: Members, name: str, now: datetime) -> Party:
    """The party of this name, if it can take part now.

    Raises:
        InvalidInput: it is unknown, not enrolled yet or revoked, or its certificate has expired.
    """
    party = members.find(name)
    if party is None:
        if any(invitation.party == name for invitation in members.invitations(now)):
            raise InvalidInput(f"{name} was invited but has not enrolled yet")
        known = ", ".join(other.name for other in members.all()) or "nobody"
        raise InvalidInput(f"no party called {name!r} takes part; enrolled: {known}")
    if party.revoked is not None:
        raise InvalidInput(f"{name} was revoked; invite it again to let it take part")
    if party.expires <= now:
        raise InvalidInput(f"the certificate of {name} expired at {instant(party.expires)}; invite it again")
    return party


def reported(members: Members, names: tuple[str, ...], batch: int | None = None) -> dict[str, Catalogue]:
    """The catalogues of these parties; of tables that have the rows of one batch alone, where a number is given.

    Raises:
        InvalidInput: some party has reported none yet, or none with such a batch.
    """
    known = members.catalogues()
    silent = [name for name in names if name not in known]
    if silent:
        raise InvalidInput(f"no catalogue yet from {listed(silent)}; a party reports it when its daemon first calls")
    if batch is None:
        return {name: known[name] for name in names}
    lacking = [name for name in names if batch not in {each.number for each in known[name].batches}]
    if lacking:
        there = "; ".join(f"{name} has {_batches(known[name])}" for name in lacking)
        raise InvalidInput(
            f"batch {batch} is not there yet at {listed(lacking)} ({there}). A party reports a batch of {FEWEST_COMPARED} "
            "patients or more once it is complete: when a later one has begun, or at once with whole_batches = true in party.toml"
        )
    return {name: known[name].of_batch(batch) for name in names}


def _batches(catalogue: Catalogue) -> str:
    if not catalogue.batches:
        return "none: its party.toml names no source.batch, or none is complete and large enough"
    return f"{len(catalogue.batches)}, the last is {catalogue.batches[-1].number}"


def agree(catalogues: Mapping[str, Catalogue]) -> Catalogue:
    """Any of the catalogues, once roster, alignment run, normal form of identifiers, rows and alignment agree.

    Raises:
        InvalidInput: they differ; who differs is said, digests are not shown.
    """
    runs = {name: catalogue.aligned or "" for name, catalogue in catalogues.items()}
    if sides := _sides(runs, lambda run: f": run {run[:12]}" if run else ": never"):
        raise InvalidInput(
            f"the parties were not aligned by one run: {sides}; if one is under way wait for it (coordinator release list), else: "
            "coordinator align start"
        )
    for attribute, what in (
        ("roster", "rosters"),
        ("rows", "numbers of rows"),
        ("rows_per_subject", "rows_per_subject"),
    ):
        found = {name: getattr(catalogue, attribute) for name, catalogue in catalogues.items()}
        if len(set(found.values())) > 1:
            said = ", ".join(f"{name} {value}" for name, value in found.items())
            hint = "; to find the patients that all have: coordinator align start" if attribute == "rows" else ""
            raise InvalidInput(f"the parties' {what} differ: {said}{hint}")
    agree_on_identifiers(catalogues)
    silent = [name for name, catalogue in catalogues.items() if not catalogue.comparable]
    if silent and len(catalogues) > 1:
        raise InvalidInput(
            f"{listed(silent)} never aligned, and nobody can tell whether all have the same patients in the same order. Find those "
            "that all have: coordinator align start. Or, if all hospitals have just these patients, let each say "
            "same_patients = true in party.toml"
        )
    if sides := _sides({name: catalogue.alignment for name, catalogue in catalogues.items()}, lambda _: ""):
        raise InvalidInput(
            f"the parties' rows are not the same patients in the same order: {sides} (alignment digests agree only within each "
            f"group). The digest of a table with fewer than {FEWEST_COMPARED} patients, or with an incomplete batch, agrees with "
            f"none. To find the cause, {COMPARE_KEYS}; or find the patients that all have: coordinator align start"
        )
    return next(iter(catalogues.values()))


def _sides(found: Mapping[str, str], shown: Callable[[str], str]) -> str:
    """Groups of parties that have the same, each with what is shown of it; empty where all have the same."""
    groups: dict[str, list[str]] = {}
    for name, value in found.items():
        groups.setdefault(value, []).append(name)
    sides = [", ".join(names) + shown(value) for value, names in groups.items()]
    return " | ".join(sides) if len(sides) > 1 else ""


def agree_on_identifiers(catalogues: Mapping[str, Catalogue]) -> None:
    """Refuse catalogues whose identifiers are brought to different normal forms.

    Raises:
        InvalidInput: whose, and to which.
    """
    rules = {name: catalogue.identifiers for name, catalogue in catalogues.items()}
    if sides := _sides(rules, lambda each: f": {quoted(each) or 'as they stand'}"):
        raise InvalidInput(
            f"the parties bring identifiers to different normal forms: {sides}; let all of them declare the same "
            "[source.identifiers] in party.toml"
        )


def choose(wanted: str | tuple[str, ...], catalogue: Catalogue) -> tuple[Column, ...]:
    """The wanted columns' declarations, in the order asked for.

    Raises:
        InvalidInput: a column is not offered, or is named twice, or none is named.
    """
    if wanted in (EVERY_COLUMN, (EVERY_COLUMN,)):
        return catalogue.columns
    if not wanted or EVERY_COLUMN in wanted or len(set(wanted)) != len(wanted):
        raise InvalidInput(f"{catalogue.party}: list each column once, or write {EVERY_COLUMN!r} alone for all of them")
    found = {name: catalogue.column(name) for name in wanted}
    missing = [name for name, column in found.items() if column is None]
    if missing:
        offered = listed(column.name for column in catalogue.columns)
        raise InvalidInput(f"{catalogue.party} does not offer {listed(missing)}; it offers {offered}")
    return tuple(column for column in found.values() if column is not None)


def check_clashes(columns: Mapping[str, tuple[Column, ...]]) -> None:
    """Refuse two parties that would release a column of the same name.

    Raises:
        InvalidInput: with the name and both parties.
    """
    owner: dict[str, str] = {}
    for party, declared in columns.items():
        for name in released_names(declared):
            if name in owner:
                raise InvalidInput(f"both {owner[name]} and {party} would release {name!r}; choose one of them")
            owner[name] = party


def check_private(columns: Mapping[str, tuple[Column, ...]]) -> None:
    """Refuse columns of which none is private; raises `InvalidInput`."""
    if not any(private(declared) for declared in columns.values()):
        raise InvalidInput(
            "all of these columns are public: there is nothing to protect, so publish them without noise"
        )


def label_of(
    columns: Mapping[str, tuple[Column, ...]],
    mechanism: Mechanism[Any],
    side: PublicSide | None,
    outcomes: tuple[str, ...] = (),
) -> Label:
    """Name of the guarantee (docs/guarantees.md 15).

    Args:
        columns: party to declared columns.
        mechanism: of the release.
        side: what the office says that the public columns are; needless where outcomes are named.
        outcomes: columns that are outcomes only, as the request says.

    Raises:
        InvalidInput: public columns and what is said of them do not fit.
    """
    if outcomes and side is not None:
        _check_side(columns, side, outcomes)
    everything = tuple(column for declared in columns.values() for column in declared)
    names = listed(column.name for column in public(everything))
    if not names:
        if side is not None:
            raise InvalidInput("none of these columns is public; leave out --public-side")
        return "DP"
    if mechanism.row_per_patient:
        raise InvalidInput(f"{names}: public columns would link every noisy row to a patient; use mechanism 'mixed'")
    if outcomes:
        return spec_base.label_of(everything, outcomes)
    if side is None:
        raise InvalidInput(f"{names}: these are public; say what they are: --public-side features, outcomes or mixed")
    return LABELS[side]


def _check_side(columns: Mapping[str, tuple[Column, ...]], side: PublicSide, outcomes: tuple[str, ...]) -> None:
    """Refuse what the office says of public columns if a column of that side is private, or a public one of the other."""
    everything = [(column, party) for party, declared in columns.items() for column in declared]
    named = frozenset(outcomes)
    sides = {"features": {False}, "outcomes": {True}, "mixed": {False, True}}[side]
    private_ones = [
        f"{column.name} of {party}"
        for column, party in everything
        if side != "mixed" and not column.public and (column.name in named) in sides
    ]
    if private_ones:
        raise InvalidInput(
            f"--public-side {side} says that the {side} are public, but {listed(private_ones)} is private: let its owner "
            f"declare it (party-node public declare), or leave out --public-side, and everything private is protected"
        )
    found = {column.name in named for column, _ in everything if column.public}
    if found and found != sides:
        what = "some of both" if len(found) == 2 else "outcomes" if True in found else "features"
        raise InvalidInput(
            f"--public-side {side}: with these outcomes the public columns are {what}; leave out --public-side"
        )


def check_delta(delta: float, rows: int) -> None:
    """Refuse delta >= 1/n: it allows publishing some patient's row outright (docs/guarantees.md, "What is not protected").

    Raises:
        InvalidInput: with the bound.
    """
    if Fraction(delta) * rows >= 1:
        raise InvalidInput(
            f"delta = {delta:g} is not below 1/n = {1 / rows:.3g} for n = {rows:,} patients: such a delta allows publishing some "
            "patient's row outright; lower it, or say --allow-large-delta"
        )


def check_caps(caps: Mapping[str, Fraction], shares: Mapping[str, Fraction], delta: float, advice: str) -> None:
    """Refuse what some party could not pay even if it had never spent anything.

    Args:
        caps: party to the most that it may ever spend, mu^2.
        shares: party to what it is charged, mu^2.
        delta: of every epsilon that is shown.
        advice: how to mend it.

    Raises:
        InvalidInput: with each such party's share and cap.
    """
    over = [name for name, cap in caps.items() if shares[name] > cap]
    if over:
        listed = "; ".join(
            f"{name}: {price_text(shares[name], delta)}, of {price_text(caps[name], delta)}" for name in over
        )
        raise InvalidInput(f"the share exceeds the whole cap ({listed}); {advice}")
