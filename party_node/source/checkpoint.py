"""The new rows of a checkpoint of a stream, once the rows of earlier ones are sure to be what they were.

Source: docs/protocol.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from dprelease.catalogue import Batch
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column
from dprelease.errors import DataRefused
from party_node.settings import PartySettings
from party_node.source.alignment import Alignment, Roster, align
from party_node.source.batches import NONE, numbers_of
from party_node.source.prefix import begins_with, is_whole, prefix_of, returning, state_of
from party_node.source.table import Table, read_rows
from party_node.state.streams import Prefix


@dataclass(frozen=True)
class Checkpoint:
    """What a stream reads of the table.

    Attributes:
        number: t; the batch that is released now.
        released: earlier checkpoints of which a block was made to the digests of the codes that were approved for them.
        known: what was read for the checkpoint before, if that is remembered.
        whole: the file when all of its rows that count were last aligned together, if that is remembered.
        roster: the patients whose rows count; None for all.
    """

    number: int
    released: Mapping[int, str] = field(default_factory=dict)
    known: Prefix | None = None
    whole: Prefix | None = None
    roster: Roster | None = None


def read_checkpoint(
    settings: PartySettings, key: bytes, columns: tuple[Column, ...], grid_bits: int, at: Checkpoint
) -> tuple[Table, Prefix | None]:
    """Read, bound and align the rows of one batch.

    Args:
        settings: names the source and its columns.
        key: alignment key.
        columns: declarations to bound by, in released order.
        grid_bits: b of the grid.
        at: the checkpoint.

    Returns:
        The table that has these rows alone, and what to remember for the next checkpoint, if the file allows that.

    Raises:
        DataRefused: as `read_table`; or the batch is not there, a patient has more than q rows in all batches up to it, or
            rows of an earlier checkpoint are not those that were approved then.
    """
    before, known = state_of(settings), at.known
    if before is None or known is None or not begins_with(known, settings, at.number, at.released.items()):
        known = None
    rows = read_rows(settings, key, columns, grid_bits, known.size if known is not None else 0, roster=at.roster)
    numbers = numbers_of(rows.numbers, settings.source, known.rows if known is not None else 0)
    if known is not None and not set(at.released).isdisjoint(numbers.tolist()):
        return read_checkpoint(settings, key, columns, grid_bits, replace(at, known=None))  # which says what is wrong
    read = numbers
    if at.roster is not None:
        kept = at.roster.among(rows.pseudonyms)
        rows = replace(rows, codes=rows.codes[kept], pseudonyms=[*compress(rows.pseudonyms, kept)])
        numbers = numbers[kept]
    new = numbers == at.number
    if not new.any():
        raise DataRefused(f"the source has no rows of batch {at.number}")
    come = (numbers != NONE) & (numbers <= at.number)
    aligned_before = known is None or (at.whole is not None and is_whole(at.whole, settings))
    old = [] if known is None or aligned_before else returning(settings, key, known)
    if at.roster is not None:
        old = [*compress(old, at.roster.among(old))]
    align(key, [*old, *compress(rows.pseudonyms, come)], settings.roster, settings.rows_per_subject)

    def aligned(chosen: npt.NDArray[np.bool_]) -> tuple[BoundedRows, Alignment]:
        """Some rows as a table that has no others."""
        alone = align(key, [*compress(rows.pseudonyms, chosen)], settings.roster, settings.rows_per_subject)
        return BoundedRows(rows.codes[chosen][alone.order], columns, grid_bits), alone

    if known is None:
        for number, digest in sorted(at.released.items()):
            then = numbers == number
            if not then.any() or aligned(then)[0].digest() != digest:
                raise DataRefused(
                    f"rows of batch {number} changed, were removed or added after checkpoint {number} was sealed with them; "
                    "put them back as they were: what has left cannot be taken back, and a patient is in one batch only"
                )
    bounded, alignment = aligned(new)
    batch = Batch(number=at.number, rows=alignment.rows, alignment=alignment.digest)
    released = (*at.released.items(), (at.number, bounded.digest()))
    same = before is not None and state_of(settings) == before
    prefix = prefix_of(settings, read, known, released) if same else None
    return Table(bounded, alignment, rows.findings, rows.implausible, (batch,)), prefix
