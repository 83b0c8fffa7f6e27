"""The beginning of a plain CSV file that was read before: where its bytes are the same, so are its rows.

The rows after it are then read alone: a table that grows at its end is read in the time that its new rows take. Whatever is not
just that, such as another order, a compressed file or another declaration, is read as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.canonical import canonical_bytes, sha256
from party_node.settings import PartySettings, SourceSettings
from party_node.source.batches import NONE, Numbers
from party_node.source.cells import WHITE
from party_node.source.files import pieces
from party_node.source.limits import opened
from party_node.source.reader import is_plain_csv, record_batches
from party_node.source.table import identifiers_in, pseudonyms_in
from party_node.state.streams import Prefix


def begins_with(known: Prefix, settings: PartySettings, number: int, released: Iterable[tuple[int, str]]) -> bool:
    """Whether the file goes on from a prefix, in which the rows of all earlier checkpoints are those that were approved.

    Args:
        known: the prefix.
        settings: as they are now.
        number: of a batch, whose rows have to come after.
        released: checkpoint and digest of the codes that were approved for it.
    """
    return known.latest < number and set(released) <= set(known.released) and is_known(known, settings)


def is_known(prefix: Prefix, settings: PartySettings) -> bool:
    """Whether the file goes on from a prefix that was read by the same declarations."""
    return (
        prefix.settings == _described(settings)
        and (path := _plain_csv(settings)) is not None
        and path.stat().st_size > prefix.size
        and _digest(path, prefix.size) == prefix.sha256
    )


def is_whole(prefix: Prefix, settings: PartySettings) -> bool:
    """Whether the file is a prefix that was read by the same declarations, and nothing more."""
    return (
        prefix.settings == _described(settings)
        and (path := _plain_csv(settings)) is not None
        and path.stat().st_size == prefix.size
        and _digest(path, prefix.size) == prefix.sha256
    )


def prefix_of(
    settings: PartySettings, numbers: Numbers, before: Prefix | None, released: tuple[tuple[int, str], ...]
) -> Prefix | None:
    """The whole file as a prefix of what it will become; None where it cannot be one.

    Args:
        settings: as they are now.
        numbers: (n,) batches of the rows after an earlier prefix.
        before: that prefix; None where all rows were read.
        released: checkpoint and digest of its rows' codes, of those that were compared.
    """
    path = _plain_csv(settings)
    if path is None or NONE in numbers:
        return None
    size = path.stat().st_size
    with opened(path) as file:
        file.seek(size - 1)
        ends = file.read(1) == b"\n"
    if not ends:
        return None
    rows, latest = (0, 0) if before is None else (before.rows, before.latest)
    return Prefix(
        size=size,
        sha256=_digest(path, size),
        settings=_described(settings),
        rows=rows + len(numbers),
        latest=max(latest, int(numbers.max())),
        released=released,
    )


def returning(settings: PartySettings, key: bytes, known: Prefix) -> list[bytes]:
    """Pseudonyms of the rows of a prefix whose patients have rows after it, too.

    Args:
        settings: name the source.
        key: alignment key.
        known: the prefix.
    """
    source, left, found = settings.source, known.rows, []
    wanted = pa.concat_arrays([_names(batch, source) for batch in record_batches(source, [], known.size)])
    for batch in record_batches(source, []):
        part = batch.slice(0, left)
        left -= part.num_rows
        found += pseudonyms_in(part.filter(pc.is_in(_names(part, source), value_set=wanted)), source, key)
        if not left:
            break
    return found


def _names(batch: pa.RecordBatch, source: SourceSettings) -> pa.Array:
    """Identifiers of patients as pseudonyms are made of them."""
    cells = batch.column(source.subject)
    if source.identifiers.canonical:
        cells = pa.array(identifiers_in(batch, source), pa.string())
    return pc.utf8_normalize(pc.utf8_trim(cells, characters=WHITE), form="NFC")


def state_of(settings: PartySettings) -> tuple[int, ...] | None:
    """What changes with the file; None without one that can be a prefix."""
    path = _plain_csv(settings)
    return None if path is None else _state(path)


def _state(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _plain_csv(settings: PartySettings) -> Path | None:
    return settings.source.path if is_plain_csv(settings.source) else None


def _described(settings: PartySettings) -> str:
    known = settings.model_dump(mode="json", include={"roster", "rows_per_subject", "source", "columns"})
    return sha256(canonical_bytes(known))


@dataclass
class _Digests:
    """SHA-256 of the first bytes of a file in one state, by their number, as far as anybody asked for them."""

    known: dict[int, str] = field(default_factory=dict)
    running: hashlib._Hash = field(default_factory=hashlib.sha256)
    done: int = 0


@lru_cache(maxsize=2)
def _digests(path: Path, state: tuple[int, ...]) -> _Digests:
    return _Digests()


def _digest(path: Path, size: int) -> str:
    """SHA-256 of the first bytes of a plain CSV file. For rising sizes it is read once in each of its states."""
    digests = _digests(path, _state(path))
    if size not in digests.known:
        if size < digests.done:
            digests.running, digests.done = hashlib.sha256(), 0
        with opened(path) as file:
            file.seek(digests.done)
            for data in pieces(file, size - digests.done):
                digests.running.update(data)
        digests.known[size], digests.done = digests.running.hexdigest(), size
    return digests.known[size]
