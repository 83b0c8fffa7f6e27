"""The table of measures: name, how it is counted, and what `reached.toml` says of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.measures import kinds, rooms, sentences, source
from tests.measures.walk import walk
from tests.test_mechanism_boundary import questions

Count = Callable[[], float | Sequence[str]]
"""A number, or the places that are counted."""

COUNTS: Mapping[str, Count] = {
    "lines of the product": source.lines,
    "lines of code of the product": source.code,
    "files of the product": source.files,
    "lines of tests": source.test_lines,
    "methods of the contract of a mechanism": source.contract,
    "conditions on view, clipping, stream or session outside mechanisms": questions,
    "files that lay out a table": source.printers,
    "functions called to_json": source.to_json,
    "names of classes with two meanings": source.shared_names,
    "files that ask a column's kind": kinds.asks,
    "files and rooms in a circle of imports": rooms.circles,
    "walk through moments in ranges: stays": lambda: walk("moments", ranges="first").stays,
    "walk through moments in ranges: returns": lambda: walk("moments", ranges="first").returns,
    "walk through mixed: stays": lambda: walk("mixed", k=12).stays,
    "walk through mixed: returns": lambda: walk("mixed", k=12).returns,
    "words a sentence of README and docs, mean": sentences.mean,
    "words a sentence of README and docs, 95 %": sentences.long,
    "sentences of README and docs with a banned opening": sentences.openings,
    "sentences of docstrings with a banned opening": sentences.docstrings,
    "printed sentences with a banned opening or too long": sentences.printed,
}
"""Less is better in every line."""


@dataclass(frozen=True)
class Reached:
    """A line of `reached.toml`.

    Attributes:
        reach: what the measure is to come down to.
        at_most: what it is held to today.
    """

    reach: float
    at_most: float


def reached() -> dict[str, Reached]:
    """Every line of `reached.toml`, by the name of its measure."""
    text = (Path(__file__).parent / "reached.toml").read_text()
    return {name: Reached(**line) for name, line in tomllib.loads(text).items()}


def value(found: float | Sequence[str]) -> float:
    """The number, or how many places there are."""
    return found if isinstance(found, int | float) else len(found)
