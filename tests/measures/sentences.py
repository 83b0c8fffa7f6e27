"""Measures of plain words: how long sentences are, and how they begin.

A sentence is subject first: none begins with a clause that stands as a noun ("What noise hides ..."), nor with an object that
waits for its verb ("Of these, ..."). Code counts as one word and begins no sentence; headings, tables and blocks of code are
no sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.test_architecture import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BANNED = (
    "Of",
    "Where",
    "What",
    "Whether",
    "Below",
    "Above",
    "Whose",
    "Those",
    "Who",
    "Whoever",
    "Beside",
    "Were",
    "Had",
)
SHORTEST = 4
"""Fewer words are a label."""

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[*#|-]|\d+\.) )")
_MARK = re.compile(r"^\s*(?:[*-]|\d+\.) +")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"(])")
_OPENING = re.compile(rf"(?:{'|'.join(BANNED)})\b")


def sentences(text: str) -> Iterator[str]:
    """Sentences of a page in Markdown."""
    for part in _BREAK.split(_FENCE.sub("\n\n", text)):
        if not part.lstrip().startswith(("|", "#", "<")):
            plain = _LINK.sub(r"\1", _CODE.sub("x", _MARK.sub("", part))).replace("*", "")
            whole = (each.strip() for each in _END.split(" ".join(plain.split())))
            yield from (each for each in whole if len(each.split()) >= SHORTEST)


@cache
def sentences_of(page: Path) -> tuple[str, ...]:
    """Sentences of a page."""
    return tuple(sentences(page.read_text(encoding="utf-8")))


def lengths(pages: tuple[Path, ...] = PAGES) -> list[int]:
    """Words of every sentence, the shortest first."""
    return sorted(len(each.split()) for page in pages for each in sentences_of(page))


def mean(pages: tuple[Path, ...] = PAGES) -> float:
    """Words a sentence."""
    found = lengths(pages)
    return sum(found) / max(len(found), 1)


def long(pages: tuple[Path, ...] = PAGES) -> int:
    """Words of the sentence that is longer than 95 % of all."""
    return (lengths(pages) or [0])[int(0.95 * (len(lengths(pages)) - 1))]


def openings() -> list[str]:
    """Sentences that begin as none may; a question may."""
    return [
        f"{page.name}: {each[:80]}"
        for page in PAGES
        for each in sentences_of(page)
        if _OPENING.match(each) and not each.endswith("?")
    ]
