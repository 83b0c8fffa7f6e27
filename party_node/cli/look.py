"""A first look at the source on the local screen: counts, examples and a small plot of every column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dprelease.document.cells import UNKNOWN, Cell, Said
from dprelease.document.document import Document, Heading, Table
from dprelease.one_line import listed, one_line
from party_node.source.distribution import Distribution, Histogram, Levels, Span
from party_node.source.first_look import ColumnLook, SourceLook

STAYS = "All of this is about patients and stays on this screen: nothing of it was sent or kept. Copy it into no ticket or mail."
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*#@"
_MOST_LEVELS = 12
_BAR = 20
_LONGEST_TEXT = 40
_MOST_EXAMPLES = 3
_KINDS = ("unreadable", "outside")


def look(found: SourceLook, *, ascii_only: bool = False) -> Document:
    """The columns of a source, each with its counts, examples and a plot.

    Args:
        found: what was looked at.
        ascii_only: whether the screen knows no block elements.
    """
    examples = tuple(Heading(key, detail=True) for key in ("kind", "problem", "examples"))
    counts = tuple(Heading(key) for key in ("missing", "unreadable", "outside"))
    distribution = Heading("distribution", "distribution within what is declared")
    undeclared = [one_line(name) for name in found.undeclared]
    return Document(
        f"{found.place}: {found.size}",
        tables=(
            Table.of(
                "columns",
                (Heading("name", "column"), *counts, distribution, *examples),
                [_row(name, each, found, ascii_only=ascii_only) for name, each in found.columns.items()],
                detail=not found.rows and not any(each.problem for each in found.columns.values()),
            ),
        ),
        notes=(*((f"Not declared, so never read: {listed(undeclared)}.",) if undeclared else ()), STAYS),
        data={
            "source": found.place,
            "rows": found.rows,
            "in_order": found.in_order,
            "problems": found.problems,
            "batches": found.batches,
            "not_declared": list(found.undeclared),
            "stays_here": STAYS,
        },
    )


def _row(name: str, column: ColumnLook, source: SourceLook, *, ascii_only: bool) -> list[Cell]:
    found = column.findings
    seen = bool(source.rows) and not column.unread
    counts = {"missing": found.missing, "unreadable": found.unreadable, "outside": found.outside}
    examples = [{"kind": each.kind, "text": each.text, "where": source.where(each.row)} for each in found.examples]
    return [
        name,
        *(Said(count, f"{count:,}" if seen else UNKNOWN) for count in counts.values()),
        Said(column.distribution.to_json(), tuple(_described(column, source.where, ascii_only=ascii_only))),
        column.declared.column.kind,
        column.problem,
        Said(examples, ""),
    ]


def _described(look: ColumnLook, where: Callable[[int], str], *, ascii_only: bool) -> list[str]:
    if look.unread:
        return [one_line(look.problem)]
    lines = plot(look.distribution, look.findings.outside, ascii_only=ascii_only)
    for kind in _KINDS:
        found = [
            f"{one_line(each.text, _LONGEST_TEXT)!r} in {where(each.row)}"
            for each in look.findings.examples
            if each.kind == kind
        ]
        lines += [f"{kind}: {', '.join(found[:_MOST_EXAMPLES])}"] if found else []
    return lines


def plot(counts: Distribution, outside: int, *, ascii_only: bool = False) -> list[str]:
    """A column's distribution in a few lines of text.

    Args:
        counts: of the column.
        outside: cells beyond the bounds or beside the levels.
        ascii_only: whether the screen knows no block elements.
    """
    if isinstance(counts, Histogram):
        return [_histogram(counts, _ASCII if ascii_only else _BLOCKS)]
    if isinstance(counts, Levels):
        return _bars(counts, outside, "#" if ascii_only else "█")
    assert isinstance(counts, Span)  # noqa: S101 - there are three kinds
    return [f"{counts.first} to {counts.last}" if counts.first else "no date"]


def _histogram(counts: Histogram, blocks: str) -> str:
    first, last = counts.occupied
    bars = _heights(counts.counts[first:last].tolist(), blocks)
    below = f"{counts.below:,} below < " if counts.below else ""
    above = f" > {counts.above:,} above" if counts.above else ""
    return f"{below}{counts.edges[first]:g} |{bars}| {counts.edges[last]:g}{above}"


def _heights(counts: Sequence[int], blocks: str) -> str:
    """A block for each count, as high as it is; the lowest one for whatever is not 0."""
    most = max(counts, default=0)
    return "".join(blocks[-(-count * (len(blocks) - 1) // most)] if count else blocks[0] for count in counts)


def _bars(counts: Levels, outside: int, block: str) -> list[str]:
    shown = list(counts.counts.items())[:_MOST_LEVELS]
    shown += [("(no declared level)", counts.undeclared)] if outside else []
    most, width = max((count for _, count in shown), default=0), max(len(one_line(level)) for level, _ in shown)
    digits = len(f"{most:,}")
    lines = [
        f"{one_line(level):{width}} {count:>{digits},} {block * -(-count * _BAR // most) if count else ''}".rstrip()
        for level, count in shown
    ]
    more = len(counts.counts) - _MOST_LEVELS
    return [*lines, *([f"and {more} more levels"] if more > 0 else [])]
