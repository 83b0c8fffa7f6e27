"""Measures keep what is reached: none is worse than its line in `reached.toml`, which only ever goes down."""

from __future__ import annotations

import pytest

from tests.measures.rooms import between_rooms, tangles
from tests.measures.sentences import sentences
from tests.measures.table import COUNTS, reached, value
from tests.measures.walk import Walk


def test_every_measure_has_its_line() -> None:
    assert list(reached()) == list(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_what_is_reached_is_kept(name: str) -> None:
    found = COUNTS[name]()
    assert value(found) <= reached()[name].at_most, found


def test_a_circle_between_rooms_is_seen_where_files_have_none() -> None:
    imported = {"a.b.one": {"a.c.two"}, "a.c.two": set(), "a.c.three": {"a.b.four"}, "a.b.four": {"a"}, "a": set()}
    assert tangles(imported) == []
    assert tangles(between_rooms("a", imported)) == [["b", "c"]]
    assert tangles(between_rooms("a", imported | {"a": {"a.c.two"}})) == [["__init__", "b", "c"]]


def test_stays_and_returns() -> None:
    walk = Walk(("a", "a", "b", "a", "c", "c", "b"))
    assert (walk.stays, walk.returns) == (5, 2)


def test_sentences_of_a_page() -> None:
    page = """# A heading of four words

One `piece of code` is
one word [and a link](#here). **Of these** there are two!

| no | sentence | in a table |

* An item of a list
1. Another item of it: Where does it end?

```
No sentence at all here.
```
"""
    assert list(sentences(page)) == [
        "One x is one word and a link.",
        "Of these there are two!",
        "An item of a list",
        "Another item of it:",
        "Where does it end?",
    ]
