"""Pages of tables and texts as HTML that need nothing but themselves: no script, no network, no file beside them.

A page is HTML and well-formed XML. Whatever is not markup is escaped and has no control characters, because names and titles
come from strangers.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dprelease.document.cells import Said, lines_of
from dprelease.document.document import Document, Table
from dprelease.one_line import one_line


@dataclass(frozen=True)
class Figure:
    """A picture, which is markup, and its caption."""

    picture: Markup
    caption: str


@dataclass(frozen=True)
class Folded:
    """A table that opens on a click on its summary."""

    summary: str
    table: Table


@dataclass(frozen=True)
class Commands:
    """Lines for a shell."""

    commands: tuple[str, ...]


@dataclass(frozen=True)
class Download:
    """A file beside a page.

    Attributes:
        name: its path from the page.
        size: bytes.
        sha256: of its bytes, hexadecimal.
        kind: media type.
    """

    name: str
    size: int
    sha256: str
    kind: str


@dataclass(frozen=True)
class Downloads:
    """Files with links to them."""

    files: tuple[Download, ...]


@dataclass(frozen=True)
class Links:
    """Links with their texts and a line about each."""

    links: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading.

    Attributes:
        title: the heading.
        parts: sentences, each a paragraph; tuples of sentences, each a list; tables, pictures and further sections.
        name: links point to it; empty for a section within another.
    """

    title: str
    parts: Sequence[Any]
    name: str = ""


@cache  # a template is compiled once for a process, which takes longer than most pages
def environment(package: str) -> Environment:
    """Templates of a package, which may use those of this one."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("dprelease.document")]),
        autoescape=True,
        finalize=_safe,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["breakable"] = _breakable
    style = files("dprelease.document").joinpath("templates", "page.css").read_text(encoding="utf-8")
    made.globals["style"] = Markup(style)  # noqa: S704 - our own file
    made.globals["style_sha256"] = b64encode(sha256(style.encode()).digest()).decode()
    return made


def facts_table(document: Document) -> Table:
    """The facts of a document as a table of a page."""
    facts = [(name.replace("_", " "), Said(None, lines_of(value))) for name, value in document.facts.items()]
    return Table.of("facts", ("fact", "value"), facts, title="Facts")


def fragment(document: Document) -> str:
    """A document as a part of another page, such as a notebook: no style and no script."""
    facts = [(name.replace("_", " "), lines_of(value)) for name, value in document.facts.items()]
    return environment("dprelease.document").get_template("fragment.html").render(document=document, facts=facts)


def _breakable(name: str) -> Markup:
    """A name that may continue on another line after each underscore, and nowhere within a word."""
    return escape(one_line(name)).replace("_", Markup("_<wbr/>"))


def _safe(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value
