"""The overview of a table that its catalogue is made from, found again after the file grew: of known bytes no row is read twice.

Source: docs/party.md, "Streams".
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import compress

import numpy as np

from dprelease.catalogue import Batch, Catalogue
from dprelease.data.columns import Column
from dprelease.errors import DataRefused, InvalidInput
from party_node.settings import PartySettings
from party_node.source.alignment import Roster, align, subjects_of
from party_node.source.batches import NONE, Numbers, all_complete, last_complete, numbers_of
from party_node.source.comparison import Comparison
from party_node.source.findings import Findings
from party_node.source.prefix import is_known, is_whole, prefix_of, state_of
from party_node.source.table import batch_of, implausible, read_rows
from party_node.state.streams import Prefix

log = logging.getLogger(__name__)

_GRID_BITS = 8  # cells are counted, and their codes forgotten; any grid will do


@dataclass(frozen=True, repr=False)
class Overview:
    """What a table is like, cell by cell forgotten.

    Attributes:
        rows: n.
        subjects: patients of the whole table, those included whose rows do not count.
        alignment: digest of the canonical order, under the alignment key.
        findings: column name to what its cells were like.
        implausible: columns that must not be released.
        batches: rows that came together, in the order of their numbers.
        names: pseudonyms of all rows of the file, end to end: those that count in canonical order, then those that do not.
        numbers: the batch of each.
        key: alignment key.
        columns: declarations that cells were read by.
        prefix: the file; None where a longer one has to be read from its beginning.
        run: the alignment run whose patients' rows count; None where all rows do.
    """

    rows: int = 0
    subjects: int = 0
    alignment: str = ""
    findings: dict[str, Findings] = field(default_factory=dict)
    implausible: frozenset[str] = frozenset()
    batches: tuple[Batch, ...] = ()
    names: bytes = b""
    numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    key: bytes = b""
    columns: tuple[Column, ...] = ()
    prefix: Prefix | None = None
    run: str | None = None

    def catalogue(self, settings: PartySettings, comparison: Comparison) -> Catalogue:
        """What the office is told of the table: of batches those that are complete and large enough to be compared.

        Args:
            settings: that it was read by.
            comparison: how digests leave.

        Raises:
            DataRefused: it is too long to be told.
        """
        source = settings.source
        last, complete = last_complete(self.numbers, source), all_complete(self.numbers, source)
        told = (each for each in self.batches if each.number <= last and comparison.is_enough(each.rows))
        made = Catalogue(
            party=settings.name,
            roster=settings.roster,
            rows=self.rows,
            rows_per_subject=settings.rows_per_subject,
            alignment=comparison.shown(self.alignment, self.rows, complete=complete),
            comparable=comparison.comparable,
            columns=self.columns,
            batches=tuple(
                each.model_copy(update={"alignment": comparison.shown(each.alignment, each.rows)}) for each in told
            ),
            identifiers=settings.source.identifiers.canonical,
            aligned=self.run,
            subjects=self.subjects if self.subjects != self.rows else 0,
        )
        try:
            made.check_length(made.to_bytes())
        except InvalidInput as error:
            raise DataRefused(f"not declared: {error.message}; declare fewer columns or levels") from error
        return made


_NOTHING = Overview()


def overview(
    settings: PartySettings,
    key: bytes,
    columns: tuple[Column, ...],
    before: Overview | None = None,
    roster: Roster | None = None,
) -> Overview:
    """Look over the hospital's table.

    Args:
        settings: names the source and its columns.
        key: alignment key.
        columns: declarations to read by.
        before: an earlier overview; where the file only grew since, its new rows are read alone, and none where it is the same.
        roster: the patients whose rows count; None for all.

    Raises:
        DataRefused: as `read_table`.
    """
    state, known = state_of(settings), (key, columns, None if roster is None else roster.run)
    if before is not None and before.prefix is not None and (before.key, before.columns, before.run) == known:
        if is_whole(before.prefix, settings):
            return before  # it was touched, or looked at between its last bytes and the end of the last look
        if is_known(before.prefix, settings):
            try:
                return _added(settings, key, columns, before, state, roster)
            except DataRefused:
                if state != state_of(settings):
                    raise  # it is being written: the next look sees more of it
                # Otherwise the whole table says what is wrong with it.
    return _added(settings, key, columns, _NOTHING, state, roster)


def _added(
    settings: PartySettings,
    key: bytes,
    columns: tuple[Column, ...],
    before: Overview,
    state: tuple[int, ...] | None,
    roster: Roster | None,
) -> Overview:
    """The overview of the rows of another one and those that come after them in the file."""
    prefix = before.prefix
    rows = read_rows(settings, key, columns, _GRID_BITS, prefix.size if prefix is not None else 0, roster=roster)
    new = numbers_of(rows.numbers, settings.source, prefix.rows if prefix is not None else 0)
    names = [*_split(before.names, len(before.numbers)), *rows.pseudonyms]
    numbers = np.concatenate([before.numbers, new])
    subjects = subjects_of(names)
    kept = np.ones(len(names), np.bool_) if roster is None else roster.of(names)
    if roster is not None:
        _warn_of_gone(roster, subjects)
    whole = align(key, [*compress(names, kept)], settings.roster, settings.rows_per_subject)
    order = np.concatenate([np.flatnonzero(kept)[whole.order], np.flatnonzero(~kept)])
    names, numbers, kept = [names[place] for place in order], numbers[order], kept[order]
    batches = {each.number: each for each in before.batches}
    for number in map(int, np.unique(new[new != NONE])):
        if own := [*compress(names, kept & (numbers == number))]:
            batches[number] = batch_of(number, own, settings, key)
    findings = {name: before.findings.get(name, Findings()) + each for name, each in rows.findings.items()}
    return Overview(
        rows=whole.rows,
        subjects=len(subjects),
        alignment=whole.digest,
        findings=findings,
        implausible=implausible(settings, findings, whole.rows),
        batches=tuple(batches[number] for number in sorted(batches)),
        names=b"".join(names),
        numbers=numbers,
        key=key,
        columns=columns,
        prefix=prefix_of(settings, new, prefix, ()) if state is not None and state == state_of(settings) else None,
        run=roster.run if roster is not None else None,
    )


def _warn_of_gone(roster: Roster, subjects: set[bytes]) -> None:
    gone = roster.gone_from(subjects)
    if gone:
        log.warning(
            "%d of the %d patients of alignment run %s are in the table no more: put them back, or ask the office to align "
            "anew; until then no release fits the tables of the other hospitals",
            gone,
            roster.patients,
            roster.run[:12],
        )


def _split(names: bytes, count: int) -> list[bytes]:
    width = len(names) // count if count else 1
    return [names[start : start + width] for start in range(0, len(names), width)]
