"""Documents: a title, facts, tables, notes and a guarantee. Nobody else lays out a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Protocol

from dprelease.document.cells import LEVEL, PARTS, UNKNOWN, Cell, Estimate, Said, lines_of, plain, told
from dprelease.one_line import one_line

VERSION = 2
"""Version of the JSON of every document."""


@dataclass(frozen=True)
class Heading:
    """A column of a table.

    Attributes:
        key: its name in JSON.
        text: its head for people; the key unless given.
        unit: of its numbers, printed in the head.
        digits: significant digits of numbers without an error.
        parts: names of `PARTS` to show in columns of their own; empty to show an estimate and its error in one cell.
        ratio: what the ratio of an estimate to its error is called, z or t; empty where none is shown.
        level: confidence of the intervals.
        detail: only for programs.
    """

    key: str
    text: str = ""
    unit: str = ""
    digits: int = 4
    parts: tuple[str, ...] = ()
    ratio: str = "z"
    level: float = LEVEL
    detail: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of what is shown of it."""
        if not self.parts:
            head = one_line(self.text or self.key.replace("_", " "))
            return (f"{head} ({one_line(self.unit)})" if self.unit else head,)
        heads = {"lower": f"[{(1 - self.level) / 2:.3g}", "upper": f"{(1 + self.level) / 2:.3g}]"}
        if not self.ratio:
            heads["p_value"] = "P"
        if self.text:
            heads["estimate"] = one_line(self.text)
        return tuple(heads.get(part, PARTS[part].replace("z", self.ratio)) for part in self.parts)

    def shown(self, cell: Cell) -> tuple[tuple[str, ...], ...]:
        """Lines of a cell, for each head."""
        if not self.parts:
            return (lines_of(cell, self.digits),)
        if isinstance(cell, Estimate):
            return tuple((cell.part(part),) for part in self.parts)
        return ((told(cell, self.digits),), *((UNKNOWN,) for _ in self.parts[1:]))


@dataclass(frozen=True)
class Grid:
    """A table as texts.

    Attributes:
        heads: of the columns.
        lines: of as many texts each.
        right: whether a column has numbers, which end at the right.
    """

    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Attributes:
        key: its name in JSON, where it is a list of objects; empty for a table that only people get.
        headings: of the columns.
        rows: of as many cells each.
        title: above it.
        below: sentences about it.
        detail: whether people see it only when they ask for it; programs always do.
    """

    key: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    below: tuple[str, ...] = ()
    detail: bool = False

    @classmethod
    def of(cls, key: str, headings: Sequence[Any], rows: Sequence[Sequence[Any]], **more: Any) -> Table:
        """A table of rows of `Cell`; a `Heading` that is only a key may be given as text."""
        heads = tuple(Heading(each) if isinstance(each, str) else each for each in headings)
        return cls(key, heads, tuple(map(tuple, rows)), **more)

    @cached_property
    def grid(self) -> Grid:
        """The table as people see it."""
        shown = [(place, heading) for place, heading in enumerate(self.headings) if not heading.detail]
        heads = tuple(head for _, heading in shown for head in heading.heads)
        right = tuple(
            part != "unit" and any(_is_number(row[place]) for row in self.rows)
            for place, heading in shown
            for part in heading.parts or ("",)
        )
        cells = [[each for at, heading in shown for each in heading.shown(row[at])] for row in self.rows]
        lines = tuple(line for row in cells for line in zip_longest(*row, fillvalue=""))
        return Grid(heads, lines, right)

    def to_json(self) -> list[dict[str, Any]]:
        """The rows as objects."""
        keys = [heading.key for heading in self.headings]
        return [dict(zip(keys, map(plain, row), strict=True)) for row in self.rows]


def _is_number(cell: Cell) -> bool:
    value = cell.value if isinstance(cell, Said) else cell
    return isinstance(value, int | float | Estimate) and not isinstance(value, bool)


class Promised(Protocol):
    """The guarantee of a release, and who has to be trusted for it; sentences may be made when they are asked for."""

    @property
    def line(self) -> str:
        """Both in one line."""

    @property
    def guarantee(self) -> tuple[str, ...]:
        """The guarantee in sentences."""

    @property
    def trust(self) -> tuple[str, ...]:
        """The people who have to be trusted, in sentences."""


@dataclass(frozen=True)
class Promise:
    """A promise that is known already; see `Promised`."""

    line: str
    guarantee: tuple[str, ...]
    trust: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """All that is told about one thing.

    Attributes:
        title: what it is.
        facts: name to a `Cell`, or to several lines in a tuple; people read names with spaces for underscores.
        tables: in order.
        notes: sentences, the most important ones first.
        promise: what the release behind it guarantees; None where there is none.
        data: what only programs get.
        details: further facts, which people see only when they ask for them; programs always do.
        heading: above the notes; empty for none.
    """

    title: str
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    promise: Promised | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    heading: str = ""

    def table(self, key: str) -> Table:
        """The table of that name."""
        return next(each for each in self.tables if each.key == key)

    def to_json(self) -> dict[str, Any]:
        """All of it as data: facts, tables and further data by their names; tables of one name stand together."""
        tables: dict[str, list[dict[str, Any]]] = {}
        for table in filter(lambda each: each.key, self.tables):
            tables.setdefault(table.key, []).extend(table.to_json())
        promise = self.promise
        words = {} if promise is None else {"guarantee": list(promise.guarantee), "trust": list(promise.trust)}
        found: dict[str, Any] = {
            "version": VERSION,
            "title": self.title,
            **plain(self.facts),
            **plain(self.details),
            **tables,
            **plain(self.data),
        }
        return found | {"notes": list(self.notes)} | words


def json_text(data: Any) -> str:
    """One JSON document as text, as commands print it and files hold it."""
    return json.dumps(data, indent=2)
