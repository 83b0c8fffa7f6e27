"""A document as one HTML page that needs nothing but itself: no script, no network, no file beside it.

The page is HTML and well-formed XML. Whatever is not markup is escaped and has no control characters, because names and titles
come from strangers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dprelease.document.document import Document, Table
from dprelease.one_line import one_line
from dprelease.version import __version__

PROMISE = "promise"
"""Name of the section with the whole guarantee."""


@dataclass(frozen=True)
class Figure:
    """A picture, as SVG, and its caption."""

    kind: ClassVar[str] = "figure"
    picture: Markup
    caption: str


@dataclass(frozen=True)
class Listing:
    """Sentences in a list: each with a class of the style sheet, or none."""

    kind: ClassVar[str] = "listing"
    items: tuple[tuple[str, str], ...]
    look: str = ""

    @classmethod
    def of(cls, sentences: Sequence[str]) -> Listing:
        """Sentences that look alike."""
        return cls(tuple(("", each) for each in sentences))


@dataclass(frozen=True)
class Code:
    """Lines for a shell."""

    kind: ClassVar[str] = "code"
    commands: tuple[str, ...]

    @property
    def lines(self) -> tuple[Markup, ...]:
        """The commands, escaped."""
        return tuple(escape(one_line(each)) for each in self.commands)


@dataclass(frozen=True)
class Folded:
    """Parts that a reader opens."""

    kind: ClassVar[str] = "folded"
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Block:
    """Parts below a heading within a section."""

    kind: ClassVar[str] = "block"
    title: str
    parts: tuple[Part, ...]


Part = str | Table | Figure | Listing | Code | Folded | Block
"""Of a section; text is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading.

    Attributes:
        key: what links point to.
        title: its heading.
        parts: what stands in it.
        short: its name in the contents; the title unless given.
    """

    key: str
    title: str
    parts: tuple[Part, ...]
    short: str = ""


def page(document: Document, sections: Sequence[Section] = (), kind: str = "", lead: Sequence[str] = ()) -> str:
    """The page as text.

    Args:
        document: its title, promise and notes; its facts and tables too where no sections are given.
        sections: in order; the whole guarantee comes after them.
        kind: what sort of page it is.
        lead: sentences below the title.
    """
    found = list(sections) or [Section("results", "Results", (*_facts(document), *document.tables))]
    if document.notes:
        found.append(Section("notes", document.heading or "Notes", (Listing.of(document.notes),)))
    promise = document.promise
    if promise is not None:
        said = (("Guarantee", promise.guarantee), ("Trust", promise.trust))
        blocks = tuple(Block(title, (Listing.of(sentences),)) for title, sentences in said)
        found.append(Section(PROMISE, "Guarantee and trust", blocks))
    text: str = _ENVIRONMENT.get_template("page.html").render(
        document=document,
        sections=found,
        kind=kind,
        lead=lead,
        linked=PROMISE if promise else "",
        footer=f"Written by dprelease {__version__}. This page loads nothing and runs no script.",
    )
    return text


def _facts(document: Document) -> tuple[Table, ...]:
    pairs = [
        (name.replace("_", " "), "; ".join(map(str, value)) if isinstance(value, tuple) else value)
        for name, value in document.facts.items()
    ]
    return (Table.of("facts", ("fact", "value"), pairs, title="Facts"),) if pairs else ()


def _safe(value: Any) -> Any:
    return value if isinstance(value, Markup) or not isinstance(value, str) else one_line(value)


_ENVIRONMENT = Environment(
    loader=PackageLoader("dprelease.document"),
    autoescape=True,
    finalize=_safe,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
