"""How commands print: documents as text that fits the terminal, or as JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection
from typing import Any

import click

from dprelease.document.document import Document, json_text
from dprelease.document.text import text

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
explain_option = click.option(
    "--explain", is_flag=True, help="Print all notes, the whole guarantee and whom it trusts."
)


def print_document(
    document: Document, *, as_json: bool = False, explain: bool = False, shown: Collection[str] = ()
) -> None:
    """A document on standard output; headings are bold on a terminal only."""
    if as_json:
        print_json(document.to_json())
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo(text(document, width, explain=explain, shown=shown, strong=_bold))


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json_text(data))


def _bold(line: str) -> str:
    return click.style(line, bold=True)
