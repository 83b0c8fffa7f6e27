"""HTML and SVG as values. Whatever is not markup already is escaped, because names and titles come from strangers.

The result is both HTML and well-formed XML, refers to nothing outside itself, and has no control characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from dprelease.one_line import one_line

_WITHOUT_CONTENT = frozenset({"meta", "br", "line", "rect", "circle", "path", "polyline"})

Cell = str | float
"""Cell of a table: text, or a number."""


def text(value: str) -> Markup:
    """Text as markup: escaped, on one line, with nothing in it that a browser or an XML parser would obey."""
    return value if isinstance(value, Markup) else escape(one_line(value))


def element(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """An element.

    Args:
        name: of the element.
        children: markup as it is, other text escaped.
        attributes: values are escaped; ``class_`` stands for ``class`` and ``stroke_width`` for ``stroke-width``.
    """
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(each)}"' for key, each in attributes.items())
    if name in _WITHOUT_CONTENT:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{''.join(map(text, children))}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """Parts one after the other."""
    return Markup("".join(map(text, parts)))


def short(value: float) -> str:
    """A number for people, with four digits."""
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}") if math.isfinite(value) else "n/a"


def number(value: float) -> Markup:
    """A number for people, with all its digits for machines."""
    return element("data", short(value), value=repr(float(value))) if math.isfinite(value) else text("n/a")


def listing(sentences: Iterable[str], **attributes: str | float) -> Markup:
    """A bulleted list."""
    return element("ul", *(element("li", sentence) for sentence in sentences), **attributes)


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Markup:
    """A table with a caption; the first cell of a row is its head. Wide ones can be scrolled, by keyboard too."""
    numeric = [isinstance(cell, float) for cell in rows[0]] if rows else [False] * len(heads)
    classes = ["number" if each else "text" for each in numeric]
    top = [element("th", head, scope="col", class_=kind) for head, kind in zip(heads, classes, strict=True)]
    body = [
        element("tr", element("th", _shown(head), scope="row", class_="text"), *map(_cell, cells))
        for head, *cells in rows
    ]
    whole = element(
        "table", element("caption", caption), element("thead", element("tr", *top)), element("tbody", *body)
    )
    return element("div", whole, class_="scroll", role="region", aria_label=caption, tabindex=0)


def figure(picture: Markup, caption: str, count: int, shown: int, things: str) -> Markup:
    """A plot with its caption, which says so if not all of the things are shown."""
    rest = [f" {shown} of {count} {things} are shown."] if shown < count else []
    return element("figure", picture, element("figcaption", caption, *rest))


def cut_off(count: int, most: int, things: str) -> list[Markup]:
    """A sentence below a table that does not have all of the things; nothing if it has."""
    return (
        [element("p", f"The first {most} of {count} {things}; the model card has all of them.")] if count > most else []
    )


def section(name: str, title: str, *parts: str) -> Markup:
    """A part of the page with its heading; `name` is what links point to."""
    heading = element("h2", title, id=f"{name}-heading")
    return element("section", heading, *parts, id=name, aria_labelledby=f"{name}-heading")


def _cell(cell: Cell) -> Markup:
    return element("td", _shown(cell), class_="number" if isinstance(cell, float) else "text")


def _shown(cell: Cell) -> str:
    return number(cell) if isinstance(cell, float) else cell


def _value(value: str | float) -> str:
    return text(value) if isinstance(value, str) else f"{round(value, 2):g}"
