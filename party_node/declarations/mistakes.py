"""Mistakes of declarations, those of all columns at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from dprelease.data.columns import KINDS, NumericColumn
from dprelease.files.settings import Mistakes, mistakes
from dprelease.one_line import one_line
from party_node.declarations.reading import KEYS

OURS = ("from", "mostly_replaced", "source_only", "derived", *KEYS)
"""Keys of a declaration that are not of the column itself."""

_HINTS = {
    "lower": 'give the bound of a codebook, never of the data; or bounds = "unknown" in place of lower and upper',
    "upper": 'give the bound of a codebook, never of the data; or bounds = "unknown" in place of lower and upper',
    "levels": "list the levels of a codebook",
}
_FOLLOWS = "fill: is missing"  # it follows from the bounds that are missing, too


class ColumnMistakes:
    """Collects what is wrong with columns.

    Attributes:
        of: column to what is wrong with it, in words.
    """

    def __init__(self) -> None:
        self.of: dict[str, list[str]] = {}

    @contextmanager
    def noting(self, name: str, keys: Mapping[str, Any]) -> Iterator[None]:
        """Note what the block finds wrong with a column, and go on behind it."""
        try:
            yield
        except ValidationError as error:
            model = KINDS.get(str(keys.get("kind")), NumericColumn)
            found = mistakes(error, model, {"name": name, **keys}, OURS)
            of_kind = error.errors()[0]["type"].startswith("union_tag")
            self.of[name] = [_kind(keys)] if of_kind else [_hinted(each) for each in found if each != _FOLLOWS]
        except Mistakes as error:
            self.of[name] = list(error.each)
        except ValueError as error:
            self.of[name] = [str(error)]

    def check(self) -> None:
        """Raise `Mistakes` if anything was noted; each names the column and the key."""
        found = [_named(name, each) for name, words in self.of.items() for each in words]
        if found:
            raise Mistakes(found)


def _named(name: str, words: str) -> str:
    """The sentence with the column's name in front, unless that is there."""
    words = words.replace(f"column {name!r}: ", "", 1)
    return words if words.startswith(f"column {name}: ") else f"column {one_line(name)}: {words}"


def _kind(keys: Mapping[str, Any]) -> str:
    kinds = f"{', '.join(KINDS)} or date"
    return f"kind: must be {kinds}, not {keys['kind']!r}" if "kind" in keys else f"kind: is missing; it is {kinds}"


def _hinted(words: str) -> str:
    key, _, said = words.partition(": ")
    blank = said.startswith(("is missing", "is left blank"))
    return f"{key}: {said.partition(';')[0]}; {_HINTS[key]}" if blank and key in _HINTS else words
