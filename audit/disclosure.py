"""Does a private cell or an identifier stand anywhere but in the hospital's own table?

Every file outside the tables is cut into words, and the words are looked up among the identifiers and cells of all
tables. Values shorter than `SHORTEST` characters, such as "1" or "male", cannot be told from chance and are not looked
for; nor are public levels, formulas and settings, and columns that their owner declared public. The sentences that follow from
a spec, its guarantee and whom to trust, are left out of every file: their numbers are as short as cells may be.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow

from audit.states import Hospital
from dprelease.data.columns import CategoricalColumn
from dprelease.release.accounting import guarantee, trust
from dprelease.release.spec import ReleaseSpec
from party_node.source.public_columns import public_declarations
from party_node.source.reader import files_of, reader_of

SHORTEST = 6
_WORD = re.compile(rb"[A-Za-z0-9_.+-]{%d,}" % SHORTEST)


def private_words(hospitals: Iterable[Hospital]) -> set[bytes]:
    """Identifiers and private cells of all tables, as they are written."""
    words: set[bytes] = set()
    public: set[bytes] = set()
    for hospital in hospitals:
        source = hospital.settings.source
        reader = reader_of(source)
        table = pyarrow.Table.from_batches(reader.batches(reader.header()))
        exact = {act.source for act in public_declarations(hospital.ledger, hospital.settings.roster)}
        for column in (table[name] for name in table.column_names if name not in exact):
            words |= {str(cell).strip().encode() for cell in column.unique().to_pylist() if cell is not None}
        for declared in hospital.settings.declarations():
            public |= {*(name.encode() for name in declared.released), *_WORD.findall(declared.derivation.encode())}
            if isinstance(declared, CategoricalColumn):
                public |= {level.encode() for level in declared.levels}
    return {word for word in words - public if _WORD.fullmatch(word)}


def public_sentences(specs: Iterable[ReleaseSpec]) -> set[bytes]:
    """Public statements about releases, worked out anew from their specs, as it is written in files."""
    said = {sentence for spec in specs for sentence in (*guarantee(spec).words(), *trust(spec))}
    return {json.dumps(sentence)[1:-1].encode() for sentence in said} | {sentence.encode() for sentence in said}


def disclosures(
    folder: Path, hospitals: Iterable[Hospital], specs: Iterable[ReleaseSpec], made: Iterable[Path] = ()
) -> list[Path]:
    """Files below the folder that hold a private word, the hospitals' own tables aside.

    Args:
        folder: that of the audit.
        hospitals: whose tables count.
        specs: of the releases that are known, whose sentences do not count.
        made: files that are compared with what follows from published bytes, whose numbers may be as short as cells.
    """
    parties, sentences = list(hospitals), public_sentences(specs)
    words = private_words(parties)
    sources = [hospital.settings.source for hospital in parties]
    files_of_rows = [
        path for source in sources for path in (*files_of(source), source.database_file) if path is not None
    ]
    tables = {path.resolve() for path in (*files_of_rows, *made)}
    files = [path for path in _files(folder) if path.resolve() not in tables]
    return [path for path in files if not words.isdisjoint(_words(_content(path), sentences))]


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder; servers that run put files and folders away meanwhile."""

    def check(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for place, _, names in os.walk(folder, onerror=check):
        yield from filter(Path.is_file, (Path(place, name) for name in names))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _words(data: bytes, sentences: set[bytes]) -> list[bytes]:
    for sentence in sentences:
        data = data.replace(sentence, b" ")
    return _WORD.findall(data)


def pseudonyms_outside(folder: Path, hospitals: Iterable[Hospital]) -> list[Path]:
    """Files outside all hospitals' states that hold the pseudonym of a common patient, as bytes or in hexadecimal.

    Args:
        folder: that of the audit.
        hospitals: whose rosters count.
    """
    parties = list(hospitals)
    names = {
        data[at : at + 32]
        for hospital in parties
        for data in hospital.rosters().values()
        for at in range(0, len(data), 32)
    }
    looked_for = [*names, *(name.hex().encode() for name in names)]
    own = [hospital.settings.state.resolve() for hospital in parties]
    return [
        path
        for path in _files(folder)
        if names
        and not any(path.resolve().is_relative_to(state) for state in own)
        and any(name in data for data in [_content(path)] for name in looked_for)
    ]
