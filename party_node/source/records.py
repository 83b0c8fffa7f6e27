"""One row of each patient, made of several by declared rules: the first or the last one, and aggregates of single columns.

A patient's row depends on that patient's rows alone, and not on how the source is cut into batches. Numbers are aggregated before
they are bounded. Held at a time are a double and a byte for each cell that is read, eight bytes for each row, and the
identifiers of the patients. Source: docs/party.md, "Several rows a patient".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from party_node.declarations.declarations import Declaration
from party_node.settings import SourceSettings
from party_node.source.cells import Cells, of_numbers

Places = npt.NDArray[np.intp]
States = npt.NDArray[np.uint8]

_READ, _MISSING, _UNREADABLE = range(3)

_AT_A_TIME = 1 << 16
"""Patients whose rows are handed on together."""

_UNDECLARED = ""
"""A text that is no level."""


class Records:
    """Rows of a source, several a patient.

    Args:
        source: by which of a patient's rows the others are.
        read: name to declaration of every column that is read.
        public: names of those that are public; no other cell decides which row their cells come from.
    """

    def __init__(
        self, source: SourceSettings, read: Mapping[str, Declaration], public: frozenset[str] = frozenset()
    ) -> None:
        self._source = source
        self._read = read
        self._public = public
        self._patients: dict[str, int] = {}
        self._of_rows: list[Places] = []
        self._cells: dict[str, list[tuple[Floats, States]]] = {name: [] for name in read}

    def add(self, identifiers: Iterable[str], raw: Mapping[str, Cells]) -> None:
        """Take the rows of a batch."""
        known = self._patients
        normal = (unicodedata.normalize("NFC", text.strip()) for text in identifiers)
        self._of_rows.append(np.array([known.setdefault(text, len(known)) for text in normal], np.intp))
        for name, cells in raw.items():
            states = np.where(cells.missing, _MISSING, np.where(cells.unreadable, _UNREADABLE, _READ)).astype(np.uint8)
            self._cells[name].append((_as_numbers(cells, self._read[name]), states))

    def merged(self) -> Iterator[tuple[list[str], dict[str, Cells]]]:
        """Identifiers of patients and the cells of one row of each, in pieces, in the order in which they first appear."""
        if not self._of_rows:
            return
        patients, of_rows = list(self._patients), np.concatenate(self._of_rows)
        cells = {name: _joined(self._cells.pop(name)) for name in self._read}
        order = _order(cells[self._source.by] if self._source.by is not None else None, len(of_rows))
        deciding = [cells[name] for name in self._deciding]
        if deciding:
            places = _settled(of_rows, order, deciding)
            of_rows, order = of_rows[places], order[places]
            cells = {name: (numbers[places], states[places]) for name, (numbers, states) in cells.items()}
        rows = _Rows(of_rows, len(patients), order, last=self._source.rows == "last")
        merged = {name: rows.merged(*cells.pop(name), each) for name, each in self._read.items()}
        for start in range(0, len(patients), _AT_A_TIME):
            piece = slice(start, start + _AT_A_TIME)
            yield patients[piece], {name: _as_cells(*merged[name], self._read[name], piece) for name in merged}

    @property
    def _deciding(self) -> list[str]:
        """Columns that order equal rows of a patient, the first one last: public ones, and of a database all others before."""
        others = [] if self._source.url is None else [name for name in self._read if name not in self._public]
        return [*others, *(name for name in self._read if name in self._public)]


class _Rows:
    """Which rows are whose, and in which order.

    Args:
        of_rows: (n,) number of each row's patient.
        count: how many patients there are.
        order: (n,) what a patient's rows are ordered by, NaN where nothing says so.
        last: whether the last row of a patient is the one that others are not aggregated to.
    """

    def __init__(self, of_rows: Places, count: int, order: Floats, *, last: bool) -> None:
        self._of_rows, self._count, self._order = of_rows, count, order
        self._chosen = self._ends(np.arange(len(of_rows)), order, last=last)

    def merged(self, numbers: Floats, states: States, declared: Declaration) -> tuple[Floats, States]:
        """(patients,) numbers and states of a column, from (n,) of them."""
        how = declared.reading.aggregate
        if how is None:
            return numbers[self._chosen], states[self._chosen]
        there = np.flatnonzero(states == _READ)
        known = np.zeros(self._count, bool)
        known[self._of_rows[there]] = True
        unreadable = np.zeros(self._count, bool)
        unreadable[self._of_rows[states == _UNREADABLE]] = True
        found = np.where(known, _READ, np.where(unreadable, _UNREADABLE, _MISSING)).astype(np.uint8)
        if how in ("first", "last", "min", "max"):
            by = self._order if how in ("first", "last") else numbers
            places = self._ends(there, by[there], last=how in ("last", "max"))
            return np.where(known, numbers[places], np.nan), found
        totals, counts = self._totals(there, numbers)
        if how == "count":
            return counts, np.full(self._count, _READ, np.uint8)
        return (totals if how == "sum" else totals / np.maximum(counts, 1)), found

    def _ends(self, places: Places, by: Floats, *, last: bool) -> Places:
        """(patients,) the place of each patient's first or last row among some, 0 where there is none; NaN counts as the other end.

        Between equal ones the order of the file decides.
        """
        by = np.where(np.isnan(by), -np.inf if last else np.inf, by)
        ordered = places[np.lexsort((by, self._of_rows[places]))]
        if not last:
            ordered = ordered[::-1]
        found = np.zeros(self._count, np.intp)
        found[self._of_rows[ordered]] = ordered  # of several the one that comes last stays
        return found

    def _totals(self, places: Places, numbers: Floats) -> tuple[Floats, Floats]:
        """(patients,) sums of numbers, added from the smallest one on so that the order of the file changes none, and counts."""
        ordered = places[np.lexsort((numbers[places], self._of_rows[places]))]
        whose = self._of_rows[ordered]
        totals = np.bincount(whose, weights=numbers[ordered], minlength=self._count)
        counts: Floats = np.bincount(whose, minlength=self._count).astype(np.float64)
        return np.asarray(totals, np.float64), counts


def _order(by: tuple[Floats, States] | None, rows: int) -> Floats:
    return np.zeros(rows) if by is None else np.where(by[1] == _READ, by[0], np.nan)


def _settled(of_rows: Places, order: Floats, cells: Iterable[tuple[Floats, States]]) -> Places:
    """(n,) places of rows with equal ones of a patient in the order of some cells, the last of which count most.

    Rows that are alike in all of these keep the order in which they came. A database gives rows in any order, but there all cells
    are among these, and nothing tells such rows apart.
    """
    by = np.nan_to_num(order, nan=np.inf)
    ranked = np.lexsort((by, of_rows))
    alike = (of_rows[ranked][1:] == of_rows[ranked][:-1]) & (by[ranked][1:] == by[ranked][:-1])
    tied = np.zeros(len(ranked), bool)
    tied[ranked[1:][alike]] = tied[ranked[:-1][alike]] = True
    places, those = np.arange(len(of_rows)), np.flatnonzero(tied)
    keys = [key[those] for numbers, states in cells for key in (np.where(states == _READ, numbers, 0.0), states)]
    places[those] = those[np.lexsort(keys)]
    return places


def _joined(parts: Sequence[tuple[Floats, States]]) -> tuple[Floats, States]:
    return np.concatenate([numbers for numbers, _ in parts]), np.concatenate([states for _, states in parts])


def _as_numbers(cells: Cells, declared: Declaration) -> Floats:
    """Cells as numbers: of categories, which level it is; NaN of an undeclared text."""
    if not declared.column.values:
        return np.asarray(cells.values, np.float64)
    levels = {level: float(place) for place, level in enumerate(declared.column.vocabulary)}
    return np.array([levels.get(str(text), np.nan) for text in cells.values], np.float64)


def _as_cells(numbers: Floats, states: States, declared: Declaration, piece: slice) -> Cells:
    numbers, states, column = numbers[piece], states[piece], declared.column
    absent = states == _MISSING
    if not column.values:
        return of_numbers(np.where(states == _READ, numbers, np.nan), absent, column)
    words, outside = np.array([*column.vocabulary, _UNDECLARED, None], object), ~absent & np.isnan(numbers)
    places = np.where(absent, len(words) - 1, np.where(outside, len(words) - 2, numbers)).astype(np.intp)
    return Cells(words[places].tolist(), absent, np.zeros_like(absent), outside)
