"""Tables and pages as HTML that needs nothing but itself: no script, no network, no file beside it.

A page is HTML and well-formed XML. Whatever is not markup is escaped and has no control characters, because names and titles
come from strangers.
"""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dprelease.document.document import Table
from dprelease.one_line import one_line


def page(title: str, body: Markup) -> str:
    """A page as text.

    Args:
        title: shown by a browser beside the page.
        body: the page itself.
    """
    text: str = _TEMPLATE.render(title=title, body=body)
    return f"{text}\n"


def table(found: Table) -> Markup:
    """A table that can be scrolled, by keyboard too; the first cell of a row is its head."""
    return Markup(_TEMPLATE.make_module({"title": "", "body": ""}).table(found))  # type: ignore[attr-defined] # noqa: S704


def _safe(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_TEMPLATE = Environment(
    loader=PackageLoader("dprelease.document"),
    autoescape=True,
    finalize=_safe,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).get_template("page.html")
