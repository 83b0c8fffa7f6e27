"""A first look at identifiers: rows without one, rows that repeat one, and the batches that rows came with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from dprelease.errors import DataRefused
from party_node.settings import PartySettings
from party_node.source.alignment import align, new_key
from party_node.source.batches import NONE, Numbers, numbers_in, numbers_of
from party_node.source.cells import texts
from party_node.source.table import named_in, pseudonyms_in, subjects_in


class IdentifiersLook:
    """Notes the identifiers of rows, batch by batch, as pseudonyms under a key that is forgotten.

    Args:
        settings: name the columns of identifiers.
    """

    def __init__(self, settings: PartySettings) -> None:
        self._settings = settings
        self._source = settings.source
        self._columns = [name for name in (self._source.subject, self._source.record) if name]
        self._key = new_key()
        self._names: list[bytes] = []
        self._rows: list[np.ndarray[tuple[int], np.dtype[np.intp]]] = []
        self._nameless: list[int] = []
        self._numbers: list[Numbers] = []
        self._refused: Counter[str] = Counter()

    def note(self, batch: pa.RecordBatch, before: int) -> list[str] | None:
        """Note a batch's rows.

        Args:
            batch: has the columns of identifiers and batches.
            before: rows of earlier batches.

        Returns:
            The patient's identifier of every row, in its normal form; None where a row has none.
        """
        found = None
        try:
            columns = [subjects_in(batch, self._source), *(batch.column(name) for name in self._columns[1:])]
            named_columns = zip(columns, self._columns, strict=True)
            parts = [texts(column, name, self._source.missing) for column, name in named_columns]
            named = np.array([all(row) for row in zip(*parts, strict=True)], bool)
            self._nameless += (before + 1 + np.flatnonzero(~named)).tolist()
            kept = batch.filter(pa.array(named))
            self._names += pseudonyms_in(kept, self._source, self._key)
            self._rows.append(before + 1 + np.flatnonzero(named))
            found = named_in(kept, self._source) if named.all() else None
        except DataRefused as error:
            self._refuse(error)
        try:
            self._numbers.append(numbers_in(batch, self._source))
        except DataRefused as error:
            self._refuse(error)
        return found

    def _refuse(self, error: DataRefused) -> None:
        count = re.match(r"\d+(?= )", error.message)
        self._refused[error.message[count.end() :] if count else error.message] += int(count[0]) if count else 0

    def problems(self, where: Callable[[int], str]) -> list[str]:
        """Mistakes of identifiers and batches, in words: counts, and where the first such row is.

        Args:
            where: says where the row of a number, from 1, is.
        """
        found = [f"{count or ''}{words}" for words, count in self._refused.items()]
        if self._nameless:
            names, first = " and ".join(self._columns), where(self._nameless[0])
            words = f"{len(self._nameless)} rows have no identifier in {names}, {first} is the first"
            found.append(f"{words}; every row needs one")
        if self._names and self._source.rows == "one":
            try:
                align(self._key, self._names, self._settings.roster, self._settings.rows_per_subject)
            except DataRefused as error:
                found.append(error.message + self._repeated(where))
        return found

    def _repeated(self, where: Callable[[int], str]) -> str:
        """The first row that has the identifier of another one, and which one that is."""
        first: dict[bytes, int] = {}
        for name, row in zip(self._names, np.concatenate(self._rows).tolist(), strict=True):
            before = first.setdefault(name, row)
            if before != row:
                return f"; {where(row)} has the identifier of {where(before)}"
        return ""

    def batches(self) -> dict[int, int]:
        """Number of each batch to how many rows came with it; empty where the source does not say."""
        if not self._source.tells_batches or not self._numbers:
            return {}
        numbers, counts = np.unique(numbers_of(self._numbers, self._source), return_counts=True)
        pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
        return {number: count for number, count in pairs if number != NONE}
