"""Measures of the product's source, each from its syntax: sizes, names and printers."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

from tests.test_architecture import PACKAGES, ROOT, parsed, sources

PRODUCT = tuple(sources(*PACKAGES))
"""Files of the product that people wrote."""

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax."""
    return tuple(ast.walk(parsed(path)))


def lines() -> int:
    """All lines."""
    return sum(len(path.read_text().splitlines()) for path in PRODUCT)


def code() -> int:
    """Lines without blank ones, comments, docstrings and imports."""
    return sum(len(_code(path)) for path in PRODUCT)


def _code(path: Path) -> list[str]:
    left_out: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            left_out.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    numbered = enumerate(path.read_text().splitlines(), start=1)
    return [text for at, text in numbered if at not in left_out and text.strip() and not text.lstrip().startswith("#")]


def files() -> int:
    """Files."""
    return len(PRODUCT)


def test_lines() -> int:
    """All lines of tests."""
    return sum(len(path.read_text().splitlines()) for path in sources("tests"))


def contract() -> list[str]:
    """Public methods of the abstract classes that say what a mechanism is."""
    room = ROOT / "dprelease" / "mechanisms"
    classes = {
        node.name: node for path in room.glob("*.py") for node in parsed(path).body if isinstance(node, ast.ClassDef)
    }
    found = {"ABC", "Protocol"}
    while more := {name for name, node in classes.items() if name not in found and found & set(_bases(node))}:
        found |= more
    methods = {
        item.name
        for name, node in classes.items()
        if name in found
        for item in node.body
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")
    }
    return sorted(methods)


def _bases(node: ast.ClassDef) -> list[str]:
    named = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return [base.id for base in named if isinstance(base, ast.Name)]


def printers() -> list[str]:
    """Files that lay out a table: with rich, in HTML, or by widths of their own."""
    return [path.relative_to(ROOT).as_posix() for path in PRODUCT if any(map(_lays_out, nodes(path)))]


def _lays_out(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "rich.table"
    if isinstance(node, ast.Attribute):
        return node.attr in {"ljust", "rjust"}
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "<table" in node.value


def to_json() -> list[str]:
    """Functions of this name."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in PRODUCT
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and node.name == "to_json"
    ]


def shared_names() -> list[str]:
    """Names of public classes that two files define or more, with how many."""
    classes = (node for path in PRODUCT for node in nodes(path) if isinstance(node, ast.ClassDef))
    counts = Counter(node.name for node in classes if not node.name.startswith("_"))
    return sorted(f"{name} ({count})" for name, count in counts.items() if count > 1)
