"""One reading of the source: catalogue, findings, batches and the rows of every release come from it, until the source changes.

Rows are sorted beyond memory. Codes and pseudonyms lie in files without a name in the node's own folder: they take no memory, no
other program can open them, and the system frees them when the process ends, in whatever way.

Source: docs/party.md, "Approved rows".
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, PieceMap, one_by_one, pieces
from dprelease.catalogue import Batch, Catalogue
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, released_names
from dprelease.errors import DataRefused, InvalidInput
from dprelease.files.unnamed import UnnamedArray
from dprelease.progress import watched
from party_node.settings import PartySettings, SourceSettings
from party_node.source.alignment import SUBJECT_BYTES, Alignment, Names, Roster, ShownDigests, align, subjects_in
from party_node.source.findings import Findings
from party_node.source.reader import Stamp, stamp
from party_node.source.sorting import SortedRows
from party_node.source.table import NONE, Numbers, all_complete, last_complete, names_read, placed, read_rows, whole
from party_node.state.streams import CheckpointRows

log = logging.getLogger(__name__)

Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BoundedTable:
    """Rows of a release, bounded and in canonical order.

    Attributes:
        bounded: codes on the grid.
        alignment: canonical order and its digest.
        findings: column name to what its cells were like, sources of derived columns included.
        implausible: columns that must not be released; see `Findings.implausible`.
        batches: rows that came together, in the order of their numbers; none where the source does not say.
        complete: whether no row of the source is of a batch that is still filling.
    """

    bounded: BoundedRows
    alignment: Alignment
    findings: dict[str, Findings] = field(repr=False)
    implausible: frozenset[str] = field(repr=False)
    batches: tuple[Batch, ...] = ()
    complete: bool = True


@dataclass(frozen=True, repr=False)
class Scan:
    """A source as one reading found it. Rows are those that count, in canonical order.

    Attributes:
        settings: by which it was read.
        key: alignment key.
        roster: the patients whose rows count; None for all.
        columns: declarations by which cells were read.
        grid_bits: b of the grid.
        stamp: the state of the source's files; None where nothing tells that it is the same, or it changed meanwhile.
        codes: (n, d) on the grid.
        names: (n,) pseudonyms.
        numbers: (n,) the batch of each row.
        findings: column name to what its cells were like.
        subjects: patients of the whole source, those included whose rows do not count.
        gone: patients of the roster who are not in the source.
        last: number of the last batch that no more rows come to.
        complete: whether no row of the source is of a batch that is still filling.
    """

    settings: PartySettings
    key: bytes
    roster: Roster | None
    columns: tuple[Column, ...]
    grid_bits: int
    stamp: Stamp | None
    codes: Codes
    names: Names
    numbers: Numbers
    findings: dict[str, Findings]
    subjects: int
    gone: int
    last: int
    complete: bool

    def serves(
        self,
        settings: PartySettings,
        key: bytes,
        columns: tuple[Column, ...],
        grid_bits: int | None,
        roster: Roster | None,
    ) -> bool:
        """Tells whether a reading by these declarations would find the same rows now; any grid does where none is given."""
        return (
            self.stamp is not None
            and self.stamp == _state(settings.source)
            and _described(settings, key, roster) == _described(self.settings, self.key, self.roster)
            and grid_bits in (None, self.grid_bits)
            and all(column in self.columns for column in columns)
        )

    @property
    def implausible(self) -> frozenset[str]:
        """Columns that must not be released; see `Findings.implausible`."""
        declared, rows = self.settings.declared, len(self.names)
        return frozenset(name for name, each in self.findings.items() if each.implausible(declared[name], rows))

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """Rows that came together, each as if it were alone, in the order of their numbers. Raises as `align`."""
        numbers = np.unique(self.numbers[self.numbers != NONE])
        return tuple(self._batch(int(number), self._aligned(self.numbers == number)) for number in numbers)

    def catalogue(self, comparison: ShownDigests, columns: tuple[Column, ...] | None = None) -> Catalogue:
        """The catalogue that the office gets, with the batches that are complete and large enough to be compared.

        Raises:
            DataRefused: an identifier repeats, or the catalogue is too long.
        """
        settings, whole = self.settings, self._aligned()
        if self.roster is not None and self.gone:
            log.warning(
                "%d of the %d patients of alignment run %s are in the table no more: put them back, or ask the office to align "
                "anew; until then no release fits the tables of the other hospitals",
                self.gone,
                self.roster.patients,
                self.roster.run[:12],
            )
        told = (each for each in self.batches if each.number <= self.last and comparison.is_enough(each.rows))
        made = Catalogue(
            party=settings.name,
            roster=settings.roster,
            rows=whole.rows,
            rows_per_subject=settings.rows_per_subject,
            alignment=comparison.shown(whole.digest, whole.rows, complete=self.complete),
            comparable=comparison.comparable,
            columns=self.columns if columns is None else columns,
            batches=tuple(
                each.model_copy(update={"alignment": comparison.shown(each.alignment, each.rows)}) for each in told
            ),
            identifiers=settings.source.identifiers.canonical,
            aligned=None if self.roster is None else self.roster.run,
            subjects=self.subjects if self.subjects != whole.rows else 0,
        )
        try:
            made.check_length(made.to_bytes())
        except InvalidInput as error:
            raise DataRefused(f"not declared: {error.message}; declare fewer columns or levels") from error
        return made

    def table(self, columns: tuple[Column, ...] | None = None, at: CheckpointRows | None = None) -> BoundedTable:
        """The rows of a release.

        Args:
            columns: of the release, in its order; all unless given.
            at: the checkpoint, where only the rows of its batch are released.

        Raises:
            DataRefused: an identifier repeats, or a patient has more than q rows in all batches that count. For a
                checkpoint also: its batch is not there, or rows of an earlier one are not the ones that were approved then.
        """
        columns = self.columns if columns is None else columns
        names = names_read(self.settings, columns)
        findings = {name: found for name, found in self.findings.items() if name in names}
        if at is None:
            alignment = self._aligned()
            return BoundedTable(
                self._bounded(columns), alignment, findings, self.implausible & names, self.batches, self.complete
            )
        new = self.numbers == at.number
        if not new.any():
            raise DataRefused(f"the source has no rows of batch {at.number}")
        self._aligned((self.numbers != NONE) & (self.numbers <= at.number))
        for number, digest in at.released:
            then = self.numbers == number
            if not then.any() or self._bounded(columns, then).digest() != digest:
                raise DataRefused(
                    f"rows of batch {number} changed, were removed or added after checkpoint {number} was sealed with them. "
                    "Put them back as they were: what has left cannot be taken back, and a patient is in one batch only"
                )
        alignment = self._aligned(new)
        batches = (self._batch(at.number, alignment),)
        return BoundedTable(self._bounded(columns, new), alignment, findings, self.implausible & names, batches)

    def _bounded(self, columns: tuple[Column, ...], rows: Chosen | None = None) -> BoundedRows:
        """Some columns of some rows, or of all."""
        own, wanted = released_names(self.columns), released_names(columns)
        if rows is None and wanted == own:
            return BoundedRows(self.codes, columns, self.grid_bits)
        places = [own.index(name) for name in wanted]
        with closing(UnnamedArray(self.settings.state, np.int32)) as found:
            for piece in pieces(self.codes, rows):
                found.write(piece[:, places])
            return BoundedRows(found.mapped().reshape(-1, len(wanted)), columns, self.grid_bits)

    def _aligned(self, rows: Chosen | None = None) -> Alignment:
        """Some rows, or all, as a table that has no others."""
        return align(self.key, self.names, self.settings.roster, self.settings.rows_per_subject, rows)

    @staticmethod
    def _batch(number: int, alone: Alignment) -> Batch:
        return Batch(number=number, rows=alone.rows, alignment=alone.digest)


def scan(
    settings: PartySettings,
    key: bytes,
    columns: tuple[Column, ...],
    grid_bits: int,
    roster: Roster | None = None,
    run: PieceMap = one_by_one,
) -> Scan:
    """Read the source once, from its beginning to its end.

    Args:
        settings: name the source and its columns.
        key: alignment key.
        columns: declarations to bound by, in released order.
        grid_bits: b of the grid.
        roster: the patients whose rows count; None for all.
        run: reads the cells of each piece.

    Raises:
        DataRefused: the source cannot be read, a column or an identifier is missing, or no row counts.
        PeerUnavailable: the folder has no room for the rows, twice while they are sorted; or the database or the cluster is away.
    """
    source, before_reading = settings.source, _state(settings.source)
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    findings: dict[str, Findings] = {}
    seen, read, subjects, common = np.zeros(0, np.int64), 0, 0, 0
    name = np.dtype(f"S{SUBJECT_BYTES * (1 if source.record is None else 2)}")
    released = len(released_names(columns))
    row = np.dtype([("name", name), ("number", "<i8"), ("counted", "?"), ("codes", "<i4", (released,))])
    with (
        closing(SortedRows(settings.state, row)) as sorter,
        closing(UnnamedArray(settings.state, np.int32)) as codes,
        closing(UnnamedArray(settings.state, name)) as names,
        closing(UnnamedArray(settings.state, np.int64)) as numbers,
    ):
        for each in read_rows(settings, key, columns, grid_bits, findings, roster, run):
            found = np.zeros(len(each.counted), row)
            found["name"], found["counted"] = each.names, each.counted
            found["number"] = placed(each.numbers, read, source)
            found["codes"][each.counted] = each.codes
            seen = np.union1d(seen, found["number"])
            read += len(found)
            sorter.add(found)
        if not read:
            raise DataRefused(f"{source.place} has no rows")
        last = np.zeros(1, f"S{SUBJECT_BYTES}")
        for some in watched(sorter.merged(), lambda rows: rows / read, verb="sorted"):
            patients, counted = subjects_in(some["name"]), some["counted"]
            new = patients != np.concatenate([last, patients[:-1]])
            subjects, common, last = subjects + int(new.sum()), common + int((new & counted).sum()), patients[-1:]
            codes.write(some["codes"][counted])
            names.write(some["name"][counted])
            numbers.write(whole(some["number"][counted], read, source))
        if not common:
            assert roster is not None, source.place  # noqa: S101 - without one every row counts
            raise DataRefused(f"the table has no patient of alignment run {roster.run[:12]}, by which it is read")
        in_order = codes.mapped().reshape(-1, released), names.mapped(), numbers.mapped()
    seen = whole(seen, read, source)
    return Scan(
        settings=settings,
        key=key,
        roster=roster,
        columns=columns,
        grid_bits=grid_bits,
        stamp=before_reading if before_reading == _state(source) else None,
        codes=in_order[0],
        names=in_order[1],
        numbers=in_order[2],
        findings=findings,
        subjects=subjects,
        gone=0 if roster is None else roster.patients - common,
        last=last_complete(seen, source),
        complete=all_complete(seen, source),
    )


def _state(source: SourceSettings) -> Stamp | None:
    """The mark of a source that changes with its rows; None where nothing does, or no file is there."""
    try:
        return stamp(source) or None
    except OSError:
        return None


def _described(settings: PartySettings, key: bytes, roster: Roster | None) -> tuple[object, ...]:
    """The settings that rows follow from beside the source's bytes."""
    run = None if roster is None else roster.run
    return settings.roster, settings.rows_per_subject, settings.source, settings.columns, key, run
