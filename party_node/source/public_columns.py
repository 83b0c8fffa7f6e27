"""Declarations of public columns: acts in the ledger, for good, and what they make of our declared columns.

An act covers one column of the source under one declaration (docs/guarantees.md 15). Pointing the name at another column of the
source, or changing its bounds, would publish what nobody declared public; reading the same column under a second name would
claim a privacy that is not there. Both are refused until the owner acts again, and a source's column stays public for good.
An act on a derived column covers its formula and its sources' declarations, and all of these sources count as public by it: of how
much of a column a function of it tells, nothing is known here. A column is private as long as one of its sources is.
If a patient has several rows, an act also covers which of them the cells come from, and the order that says so has to be public.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable
from dataclasses import dataclass

import numpy as np
from pydantic import TypeAdapter

from dprelease.canonical import canonical_bytes
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column
from dprelease.errors import DataRefused, InvalidInput
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.public_side import public_outcomes
from dprelease.one_line import listed
from party_node.declarations.declarations import Declaration, names_in
from party_node.settings import PartySettings
from party_node.state.ledger import Ledger

_COLUMN: TypeAdapter[Column] = TypeAdapter(Column)


@dataclass(frozen=True)
class PublicDeclaration:
    """One declaration of a public column.

    Attributes:
        column: as it was declared, public.
        source: where its cells come from; see `Declaration.origin`.
        at: when.
        number: of its entry in the ledger.
    """

    column: Column
    source: str
    at: str
    number: int

    def covers(self, settings: PartySettings, column: Column) -> bool:
        """Tells whether it makes this column public, under just this declaration, as party.toml names its source."""
        declared = settings.declared.get(column.name)
        return declared is not None and (self.column, self.source) == (_as_public(column), declared.origin)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The source's names for what is public by it."""
        return names_in(self.source, self.column)


def public_declarations(ledger: Ledger, roster: str) -> tuple[PublicDeclaration, ...]:
    """All declarations of public columns, oldest first."""
    found = []
    for entry in ledger.entries(roster):
        if entry.kind == "public":
            detail = json.loads(entry.detail)
            found.append(
                PublicDeclaration(_COLUMN.validate_json(detail["column"]), detail["source"], entry.at, entry.number)
            )
    return tuple(found)


def latest(known: Iterable[PublicDeclaration]) -> dict[str, PublicDeclaration]:
    """Column to the last act that names it."""
    return {act.column.name: act for act in known}


def declare(ledger: Ledger, settings: PartySettings, names: tuple[str, ...]) -> tuple[str, ...]:
    """Declare columns public, all of them or none; what is public as it stands is left alone.

    Returns:
        The columns that were not public before, as they stand.

    Raises:
        InvalidInput: as `covered`.
    """
    acts = public_declarations(ledger, settings.roster)
    found, known = covered(settings, acts, names), latest(acts)
    new = tuple(name for name, column in found.items() if name not in known or not known[name].covers(settings, column))
    ledger.declare_public(settings.roster, [_detail(settings, found[name]) for name in new])
    return new


def _detail(settings: PartySettings, column: Column) -> dict[str, str | float]:
    return {
        "title": f"column {column.name} is public",
        "column": canonical_bytes(column.model_dump(mode="json")).decode(),
        "source": settings.declared[column.name].origin,
    }


def covered(settings: PartySettings, known: Iterable[PublicDeclaration], names: tuple[str, ...]) -> dict[str, Column]:
    """Name to the declaration that an act would cover.

    Raises:
        InvalidInput: a column is not declared in party.toml, tells patients or their rows apart, has unknown bounds, or comes
            from a row that is chosen by what is not public.
    """
    found = {name: _coverable(settings, name) for name in names}
    public = {source for act in known for source in act.source_names}
    public.update(source for name in names for source in settings.declared[name].source_names)
    for name in names:
        _check_order(name, settings.declared[name], public)
    return found


def _check_order(name: str, declared: Declaration, public: Container[str]) -> None:
    """Refuse a column whose cells come from a row that private cells, or the order of the file, may choose."""
    for each in declared.reads:
        if each.row is None or (each.row.by is not None and each.row.by.read_from in public):
            continue
        by = each.row.by
        if by is None:
            order, way = "the order of the file", "name a public column with by under [source] in party.toml"
        else:
            order, what = (
                by.column.name,
                f"a column derived from {by.column.name}" if by.source_only else by.column.name,
            )
            way = f"name {what} in the same party-node public declare"
        totals = (
            f", or give {each.column.name} aggregate = min or max in party.toml"
            if "max" in each.column.aggregates
            else ""
        )
        raise InvalidInput(
            f"column {name} cannot be public: {order} says which of a patient's rows its cells come from, and is not public; "
            f"{way}{totals}"
        )


def _coverable(settings: PartySettings, name: str) -> Column:
    declared = {column.name: column for column in settings.declarations()}
    if name in settings.declared and settings.declared[name].source_only:
        raise InvalidInput(f"column {name} is only read, never released; declare a column that is derived from it")
    if name not in declared:
        raise InvalidInput(f"no column {name} is declared in party.toml; declared are {listed(declared)}")
    for source in settings.declared[name].source_names:
        if source in {settings.source.subject, settings.source.record}:
            raise InvalidInput(
                f"column {name} reads {source}, which identifies patients or their rows; it cannot be public"
            )
    column = declared[name]
    if not column.bounded:
        raise InvalidInput(f"column {name} has unknown bounds; a public column has some: declare lower and upper")
    return _as_public(column)


def _as_public(column: Column) -> Column:
    return column.model_copy(update={"public": True})


def with_public(
    settings: PartySettings, known: tuple[PublicDeclaration, ...], names: frozenset[str] | None = None
) -> tuple[Column, ...]:
    """Our declarations, those that acts cover marked as public.

    Raises:
        DataRefused: a public column's declaration or source was changed, or the source is read under another name.
    """
    sources = {name for act in known for name in act.source_names}
    current, columns = latest(known), []
    for column in settings.declarations():
        if names is not None and column.name not in names:
            continue
        act, read = current.get(column.name), settings.declared[column.name].source_names
        again = f"declare it: party-node public declare {column.name}"
        if act is None and sources.issuperset(read):
            raise DataRefused(
                f"column {column.name} reads {' and '.join(read)}, which is public under another name; leave it out, or {again}"
            )
        if act is not None and not act.covers(settings, column):
            raise DataRefused(
                f"column {column.name} was declared public with other bounds, levels, formula, source or rows; "
                f"set them back, or {again}"
            )
        columns.append(column if act is None else act.column)
    return tuple(columns)


def check_declared(promised: tuple[Column, ...], now: tuple[Column, ...]) -> tuple[Column, ...]:
    """Our columns of a spec, if it calls public just what acts cover, under just these declarations.

    Raises:
        DataRefused: it does not.
    """
    declared = {column.name: column for column in now}
    gone = [column.name for column in promised if column.name not in declared]
    if gone:
        raise DataRefused(f"column {listed(gone)} of the release is no longer declared in party.toml")
    other = [column.name for column in promised if declared[column.name].derivation != column.derivation]
    if other:
        raise DataRefused(f"column {listed(other)} is derived in another way than the release says")
    turned = [column.name for column in promised if declared[column.name].public and not column.public]
    if turned:
        raise DataRefused(f"{listed(turned)} became public after the release was approved, which promised otherwise")
    uncovered = [column.name for column in promised if column.public and declared[column.name] != column]
    if uncovered:
        raise DataRefused(f"{listed(uncovered)} was not declared public as the release says; it needs a new proposal")
    return promised


def public_norm2(bounded: BoundedRows, columns: tuple[str, ...]) -> float:
    """The largest squared norm of a patient's public columns in scaled units, rounded up to a multiple of 1/1000.

    A little more than it is on this grid, as another release may have a finer one.

    Raises:
        InvalidInput: one of them is not public here.
    """
    shown = {column.name for column in bounded.columns if column.public}
    unknown = [name for name in columns if name not in shown]
    if unknown:
        raise InvalidInput(f"{listed(unknown)} is not public here; party-node public list shows what is")
    layout = Layout(bounded.columns, columns)
    codes = public_outcomes(bounded.public, layout).astype(np.float64)
    longest = float(((np.abs(codes) + 0.5) ** 2).sum(axis=1).max()) / 4.0**bounded.grid_bits
    return math.ceil(1000 * longest) / 1000
