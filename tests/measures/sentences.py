"""Measures of plain words: how long sentences are, and how they begin.

A sentence is subject first: none begins with a clause that stands as a noun ("What noise hides ..."), nor with an object that
waits for its verb ("Of these, ..."). Code counts as one word and begins no sentence; headings, tables and blocks of code are
no sentences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path

from tests.measures.source import PRODUCT, nodes
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

LONGEST = 36
"""More words are more than one idea; a page may have them in one sentence of twenty."""

TEXT = 8
"""Words from which on a string of a program is a sentence that somebody reads."""

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[*#|-]|\d+\.) )")
_MARK = re.compile(r"^\s*(?:[*-]|\d+\.) +")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"(])")
_SQL = re.compile(r"\s*(?:CREATE|SELECT|INSERT|UPDATE|DELETE) ")
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


def openings(pages: Iterable[Path] = PAGES) -> list[str]:
    """Sentences that begin as none may."""
    return [f"{page.name}: {each[:80]}" for page in pages for each in sentences_of(page) if begins_badly(each)]


def begins_badly(sentence: str) -> bool:
    """Whether a sentence begins as none may; a question may."""
    return _OPENING.match(sentence) is not None and not sentence.endswith("?")


def docstrings() -> list[str]:
    """Sentences of docstrings, of constants also, that begin as none may."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {each[:80]}"
        for path in PRODUCT
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for each in sentences(cleandoc(node.value.value))
        if begins_badly(each)
    ]


def printed() -> list[str]:
    """Sentences of other strings that begin as none may, or are too long."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {each[:80]}"
        for path in PRODUCT
        for line, text in _texts(path)
        for each in sentences(text)
        if begins_badly(each) or len(each.split()) > LONGEST
    ]


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the strings that are no docstrings; of an f-string its fixed parts, with x for the others."""
    alone = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    alone |= {id(part) for node in nodes(path) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes(path):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            text = node.value
        if len(text.split()) >= TEXT and not _SQL.match(text):
            yield node.lineno, text  # type: ignore[attr-defined]
