"""A first look at identifiers: rows without one, rows that repeat one, and the batches that rows came with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from dprelease.errors import DataRefused
from party_node.settings import PartySettings
from party_node.source.alignment import align, new_key
from party_node.source.batches import NONE, Numbers, numbers_in, numbers_of
from party_node.source.cells import texts
from party_node.source.table import pseudonyms_in

Where = Callable[[int], str]
"""Says where the row of a place in a batch is."""


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
        self._batches: list[tuple[int, list[int], Where]] = []
        self._nameless: list[tuple[int, Where]] = []
        self._numbers: list[Numbers] = []
        self._refused: dict[str, None] = {}

    def note(self, batch: pa.RecordBatch, where: Where) -> None:
        """Note a batch's rows, which has the columns of identifiers and batches."""
        try:
            parts = [texts(batch.column(name), name, self._source.missing) for name in self._columns]
            named = np.array([all(row) for row in zip(*parts, strict=True)], bool)
            self._nameless += [(place, where) for place in np.nonzero(~named)[0].tolist()]
            start = len(self._names)
            self._names += pseudonyms_in(batch.filter(pa.array(named)), self._source, self._key)
            self._batches.append((start, np.nonzero(named)[0].tolist(), where))
        except DataRefused as error:
            self._refused[error.message] = None
        try:
            self._numbers.append(numbers_in(batch, self._source))
        except DataRefused as error:
            self._refused[error.message] = None

    def problems(self) -> list[str]:
        """What is wrong with identifiers and batches, in words: counts, and where the first such row is."""
        found = list(self._refused)
        if self._nameless:
            place, where = self._nameless[0]
            names = " and ".join(self._columns)
            words = f"{len(self._nameless)} rows have no identifier in {names}, {where(place)} is the first"
            found.append(f"{words}; every row needs one")
        if self._names:
            try:
                align(self._key, self._names, self._settings.roster, self._settings.rows_per_subject)
            except DataRefused as error:
                found.append(error.message + self._repeated())
        return found

    def _repeated(self) -> str:
        """The first row that has the identifier of another one, and which one that is."""
        first: dict[bytes, int] = {}
        for number, name in enumerate(self._names):
            before = first.setdefault(name, number)
            if before != number:
                return f"; {self._where(number)} has the identifier of {self._where(before)}"
        return ""

    def _where(self, number: int) -> str:
        start, places, where = self._batches[bisect_right(self._batches, number, key=lambda each: each[0]) - 1]
        return where(places[number - start])

    def batches(self) -> dict[int, int]:
        """Number of each batch to how many rows came with it; empty where the source does not say."""
        if not self._source.tells_batches or not self._numbers:
            return {}
        numbers, counts = np.unique(numbers_of(self._numbers, self._source), return_counts=True)
        pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
        return {number: count for number, count in pairs if number != NONE}
