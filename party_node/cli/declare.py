"""`party-node declare`: a first party.toml from a file's header, for a person to confirm and fill in."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from dprelease.errors import InvalidInput
from dprelease.files.durable import write_durably
from dprelease.one_line import one_line
from party_node.source.first_lines import MISSING, FirstLines, ProposedColumn, first_lines

_SUBJECT = re.compile(r"(^|[_\W])(id|pid|mrn|nhs|patient|subject|person|patid|subjid)([_\W]|$)", re.IGNORECASE)
"""Names that a column of identifiers is likely to have."""

_MOST_LEVELS = 50
"""Texts of a column that are listed; of more, none is a level that anybody would confirm."""

_CODES = (
    '# ICD or ATC? Say kind = "code" without levels, and derive from it: category with prefix or map, or indicator with codes '
    "(docs/party.md, Derived columns)"
)

_LONGEST_NAME = 64

_KEYS = {
    "batch": "the number of the batch that a row came with, for streams (docs/party.md, Streams)",
    "record": "what tells the rows of a patient apart (docs/party.md, Several rows a patient)",
}
"""Use of the columns that a key of ``[source]`` names."""

_LETTERS = str.maketrans(
    {
        **{"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "\u1e9e": "SS"},
        **{"æ": "ae", "œ": "oe", "ø": "oe", "Æ": "Ae", "Œ": "Oe", "Ø": "Oe", "þ": "th", "Þ": "Th"},
        **{"ð": "d", "đ": "d", "ł": "l", "Ð": "D", "Đ": "D", "Ł": "L", "\u00b5": "u", "\u03bc": "u"},
    }
)
"""Letters that are no ASCII letter with an accent, as people spell them without; the last two are both signs of micro."""

HEAD = """\
# A first party.toml, made by `party-node declare` from the header and the first lines of a file.
# It is a proposal: confirm every line, and fill in all that is blank ("" or []) before the file is used.
# Bounds and levels come from a codebook, never from the data: the largest value is a patient (docs/party.md, Declaring columns).
# Policy: without [policy.auto_approve] a person looks at every release (docs/party.md, Deciding; a sample is deploy/party.toml).
"""
LEVELS = """\
# Levels in comments are texts of the first lines, asked for by --levels. They are data: who has a rare one may be known by it.
# Move those of the codebook into `levels`, and delete the comments before the file goes anywhere.
"""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="party.toml",
    show_default=True,
    help="File to write; never one that is there.",
)
@click.option(
    "--unknown-bounds", is_flag=True, help="Leave no bounds blank: releases find bounds of their own, at a price."
)
@click.option("--levels", is_flag=True, help="List texts of the first lines as comments: they are patients' data.")
def declare(file: Path, output: Path, unknown_bounds: bool, levels: bool) -> None:
    """Write a first party.toml from a table's header: names, kinds by type, how the file is written. No value of it.

    FILE may be several: a pattern in quotation marks, or a folder of Parquet files. The first of them is read.

    Things that only people know are left blank: who you are, bounds, levels. The file cannot be used before that is
    filled in.

    Example: party-node declare patients.csv --output party.toml
    """
    if output.exists():
        raise InvalidInput(f"{output} is there already; name another file with --output")
    found = first_lines(file)
    subject = next((column.name for column in found.columns if _SUBJECT.search(column.name)), "")
    names = _names(found, subject)
    text = "\n".join(_lines(file, found, subject, names, unknown_bounds=unknown_bounds, levels=levels)) + "\n"
    write_durably(output, text.encode(), mode=0o600 if levels else 0o644)
    click.echo(f"wrote {output}: a proposal for {len(found.columns)} columns of {file}")
    for called, name in names.items():
        if not called.isascii():
            click.echo(f"{one_line(called)} is called {name} here; what stands at `from` is what the file calls it")
    click.echo("next: fill in what is blank, from the codebook; compare kinds; then party-node check --source")


def _lines(
    file: Path, found: FirstLines, subject: str, names: dict[str, str], *, unknown_bounds: bool, levels: bool
) -> Iterator[str]:
    yield HEAD + (LEVELS if levels else "")
    yield 'name = ""            # as in the invite'
    yield 'roster = ""          # the set of patients, under the same name at all hospitals'
    yield 'state = "state"      # folder of keys, ledger, journal and sealed blocks'
    yield ""
    yield "[source]"
    yield f"path = {_quoted(str(file.resolve()))}"
    yield f"subject = {_quoted(subject)}    # the patient's identifier; it never leaves"
    for key, value in found.written.items():
        yield f"{key} = {_quoted(value)}    # by the first lines"
    yield f"missing = [{', '.join(map(_quoted, MISSING))}]"
    times = Counter(column.name for column in found.columns)
    for column in found.columns:
        yield ""
        if times[column.name] > 1 or not column.name:
            what = f"more than one column {one_line(column.name)}" if column.name else "a column without a name"
            yield f"# the file has {what}, which cannot be read; name it there"
        elif column.key and column.name != subject:
            yield f"# {_quoted(column.name)} is left out, for it looks like {_KEYS[column.key]}."
            yield f"# If it is, say so under [source]: {column.key} = {_quoted(column.name)}"
            yield "# If it is data like the others, declare it like them."
        elif column.name != subject:
            yield from _column(names[column.name], column, unknown_bounds=unknown_bounds, levels=levels)


def _column(name: str, column: ProposedColumn, *, unknown_bounds: bool, levels: bool) -> Iterator[str]:
    yield f"[columns.{name}]"
    if name != column.name:
        yield f"from = {_quoted(column.name)}"
    if column.kind == "date":
        yield 'kind = "date"             # never released itself: derive days or ages from it (docs/party.md, Derived columns)'
        yield f"format = {_quoted(column.format)}    # are day and month the right way round?"
    elif column.kind == "numeric":
        yield 'kind = "numeric"          # or "categorical", if its numbers are codes, or only two'
        yield from ['bounds = "unknown"'] if unknown_bounds and not column.bands else ['lower = ""', 'upper = ""']
        yield 'unit = ""'
        yield from ["bands = true             # such as [70-80)"] if column.bands else []
    else:
        yield 'kind = "categorical"      # or "ordered", if its levels have an order: lowest first, and a fill'
        yield "levels = []"
        yield from (_CODES,) if column.coded else ()
        if levels and len(column.texts) > _MOST_LEVELS:
            yield f"# more than {_MOST_LEVELS} different texts: is it a category?"
        elif levels:
            yield from (f"# {_quoted(one_line(text))}," for text in column.texts)


def _names(found: FirstLines, subject: str) -> dict[str, str]:
    """The file's name of a column to ours, of all that can be read and are not the subject."""
    names, taken = dict[str, str](), set[str]()
    for each, times in Counter(column.name for column in found.columns).items():
        if each and each != subject and times == 1:
            names[each] = _name(each, taken)
            taken.add(names[each])
    return names


def _name(called: str, taken: set[str]) -> str:
    """A valid name that is like the file's, and that no other column has."""
    letters = unicodedata.normalize("NFC", called).translate(_LETTERS)
    plain = unicodedata.normalize("NFKD", letters).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_") or "column"
    plain = plain if plain[0].isalpha() else f"c_{plain}"
    found, number = plain[:_LONGEST_NAME], 1
    while found in taken:
        number += 1
        found = f"{plain[: _LONGEST_NAME - 5]}_{number}"
    return found


def _quoted(text: str) -> str:
    """Text as a basic string of TOML, in which an editor shows all that is there."""
    whole = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in whole)
