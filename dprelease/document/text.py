"""A document as text, for terminals, pipes and notebooks: everything that is printed as a table is laid out here.

Text for a pipe has whole lines. Text for a terminal fits its width: sentences are wrapped, long texts of a table are folded, and a
table that is still too wide comes in parts, each with the first column.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from dprelease.document.cells import lines_of
from dprelease.document.document import Document, Grid, Table
from dprelease.one_line import one_line

MOST_NOTES = 6
"""Notes that are printed unless all are asked for."""
MORE = "{count} more notes: --explain, or explain=True"
"""Line in place of the other notes."""
Lines = tuple[tuple[str, ...], ...]
"""Lines of cells."""
_GAP = "  "
_NARROWEST = 16


def text(
    document: Document,
    width: int | None = None,
    *,
    explain: bool = False,
    shown: Collection[str] = (),
    strong: Callable[[str], str] = str,
) -> str:
    """A document as text, without a line feed at its end.

    Args:
        document: what to print.
        width: of a terminal, in characters; None for whole lines.
        explain: print all facts, notes and tables, and the whole guarantee.
        shown: keys of tables to print that are details.
        strong: makes a heading stand out.
    """
    told_first = facts({**document.facts, **(document.details if explain else {})}, width)
    head = [*([strong(one_line(document.title))] if document.title else []), *told_first]
    parts = [head] if head else []
    parts += [table(each, width, strong) for each in document.tables if explain or not each.detail or each.key in shown]
    parts.append(_notes(document, width, strong, explain=explain))
    return "\n\n".join("\n".join(part) for part in parts if part)


def facts(values: Mapping[str, Any], width: int | None = None) -> list[str]:
    """Names and values below one another."""
    pairs = [(name.replace("_", " "), value) for name, value in values.items()]
    margin = max((len(name) for name, _ in pairs), default=0) + len(_GAP)
    lines = []
    for name, value in pairs:
        said = [line for each in lines_of(value) for line in folded(each, None if width is None else width - margin)]
        lines += [
            f"{label:<{margin}}{line}".rstrip() for label, line in zip([name, *[""] * len(said)], said, strict=False)
        ]
    return lines


def table(found: Table, width: int | None = None, strong: Callable[[str], str] = str) -> list[str]:
    """A table with its title and what is said below it."""
    title = [strong(one_line(found.title))] if found.title else []
    lines: list[str] = []
    for heads, cells, right in _parts(found.grid, width):
        rows = aligned([*heads, *cells], right)
        rule = "-" * max(map(_wide, rows))
        # A cell of several lines has been folded: its rows stay together.
        lines += [rule, *rows[: len(heads)], rule, *rows[len(heads) :], *([rule] if cells else [])]
    return [*title, *lines, *(line for each in found.below for line in folded(each, width))]


def aligned(lines: Sequence[Sequence[str]], right: Sequence[bool] | None = None) -> list[str]:
    """Lines whose cells are as wide as the widest of their column."""
    widths = [max(map(_wide, column)) for column in zip(*lines, strict=True)]
    ends = right or [False] * len(widths)
    return [
        _GAP.join(
            " " * (width - _wide(cell)) + cell if end else cell + " " * (width - _wide(cell))
            for cell, width, end in zip(line, widths, ends, strict=True)
        ).rstrip()
        for line in lines
    ]


def folded(sentence: str, width: int | None) -> list[str]:
    """A sentence in lines of some width; whole where there is none."""
    whole = one_line(sentence)
    return [whole] if width is None else wrap(whole, max(width, _NARROWEST), break_on_hyphens=False) or [""]


def _notes(document: Document, width: int | None, strong: Callable[[str], str], *, explain: bool) -> list[str]:
    notes, promise = list(document.notes), document.promise
    if not explain and len(notes) > MOST_NOTES:
        notes = [*notes[: MOST_NOTES - 1], MORE.format(count=len(notes) - MOST_NOTES + 1)]
    lines = [strong(one_line(document.heading))] if document.heading and notes else []
    lines += [line for note in notes for line in folded(note, width)]
    if promise is None:
        return lines
    if not explain:
        return [*lines, *([""] if lines else []), *folded(promise.line, width)]
    for title, sentences in (("Guarantee", promise.guarantee), ("Trust", promise.trust)):
        lines += [
            "",
            strong(title),
            *(f"{_GAP}{line}" for each in sentences for line in folded(each, width and width - 2)),
        ]
    return lines


def _fitting(grid: Grid, width: int | None) -> tuple[Lines, Lines]:
    """Heads and cells. Until they fit, heads are folded first and then the longest texts, one after the other."""
    if width is None:
        return (grid.heads,), grid.lines
    cells = [max(map(_wide, column)) for column in zip(*grid.lines, strict=True)] or [0] * len(grid.heads)
    widths = [max(_wide(head), cell) for head, cell in zip(grid.heads, cells, strict=True)]
    room = width - len(_GAP) * (len(widths) - 1)
    if sum(widths) > room:
        widths = [max(cell, *map(_wide, head.split() or [""])) for head, cell in zip(grid.heads, cells, strict=True)]
    while sum(widths) > room:
        texts = [place for place, end in enumerate(grid.right) if not end and widths[place] > _NARROWEST]
        if not texts:
            break
        longest = max(texts, key=lambda place: widths[place])
        widths[longest] = max(_NARROWEST, widths[longest] - (sum(widths) - room))
    return _folded((grid.heads,), widths), _folded(grid.lines, widths)


def _folded(lines: Lines, widths: Sequence[int]) -> Lines:
    """Lines of which each cell takes as many as its width asks for."""
    split = [
        [
            [cell] if _wide(cell) <= width else wrap(cell, width) or [""]
            for cell, width in zip(line, widths, strict=True)
        ]
        for line in lines
    ]
    return tuple(part for cells in split for part in zip_longest(*cells, fillvalue=""))


def _parts(grid: Grid, width: int | None) -> list[tuple[Lines, Lines, tuple[bool, ...]]]:
    """Heads, cells and columns of numbers, in parts that fit, each with the first column."""
    heads, lines = _fitting(grid, width)
    widths = [max(map(_wide, column)) + len(_GAP) for column in zip(*heads, *lines, strict=True)]
    groups: list[list[int]] = [[0]]
    for place in range(1, len(widths)):
        if width is not None and len(groups[-1]) > 1 and sum(widths[at] for at in [*groups[-1], place]) - 2 > width:
            groups.append([0])
        groups[-1].append(place)
    return [
        (_taken(heads, group), _taken(lines, group), tuple(grid.right[place] for place in group)) for group in groups
    ]


def _taken(lines: Lines, group: Sequence[int]) -> Lines:
    """These columns of lines; a line that has nothing there was the rest of a folded cell."""
    return tuple(part for line in lines if any(part := tuple(line[place] for place in group)))


def _wide(line: str) -> int:
    """Places that a line takes on a terminal: wide letters take two, accents none."""
    if line.isascii():
        return len(line)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in line
    )
