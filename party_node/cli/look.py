"""What a first look at the source shows on the local screen: counts, examples and a small plot of every column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table as Grid

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


def print_look(console: Console, look: SourceLook) -> None:
    """The table of columns, one line or more for each."""
    grid = Grid("column", "missing", "unreadable", "outside", "distribution within what is declared", pad_edge=False)
    for number in (1, 2, 3):
        grid.columns[number].justify = "right"
    grid.columns[-1].overflow = "fold"
    ascii_only = console.options.ascii_only
    for name, each in look.columns.items():
        found = each.findings
        counts = [f"{count:,}" for count in (found.missing, found.unreadable, found.outside)]
        lines = _described(each, look.where, ascii_only=ascii_only)
        grid.add_row(one_line(name), *(["-"] * 3 if each.unread or not look.rows else counts), "\n".join(lines))
    console.print(f"{one_line(look.place)}: {look.size}", soft_wrap=True)
    console.print(grid)
    if look.undeclared:
        console.print(f"not declared, so never read: {listed([one_line(name) for name in look.undeclared])}")
    console.print(STAYS)


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


def look_json(look: SourceLook) -> dict[str, object]:
    """JSON-ready; as local as the table."""
    return {
        "source": look.place,
        "rows": look.rows,
        "in_order": look.in_order,
        "problems": look.problems,
        "batches": look.batches,
        "columns": [_column_json(name, each, look.where) for name, each in look.columns.items()],
        "not_declared": list(look.undeclared),
        "stays_here": STAYS,
    }


def _column_json(name: str, look: ColumnLook, where: Callable[[int], str]) -> dict[str, object]:
    found = look.findings
    counts = {"missing": found.missing, "unreadable": found.unreadable, "outside": found.outside}
    examples = [{"kind": each.kind, "text": each.text, "where": where(each.row)} for each in found.examples]
    return {
        "name": name,
        "kind": look.declared.column.kind,
        **counts,
        "problem": look.problem,
        "examples": examples,
        "distribution": look.distribution.to_json(),
    }
