"""Files that ask which kind a column or a variable is, where they could ask it what they want to know."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.test_architecture import PACKAGES, ROOT, parsed, sources

CLASSES = {"NumericColumn", "CategoricalColumn", "OrderedColumn", "DateColumn", "Number", "Category"}
"""Classes of columns, and those that they share."""

KINDS = {"numeric", "categorical", "ordered", "date", "binary", "level"}
"""Words that a `kind` can be."""


def asks() -> list[str]:
    """Files of the product that ask."""
    return [str(path.relative_to(ROOT)) for path in sources(*PACKAGES) if asks_kind(path)]


def asks_kind(path: Path) -> int:
    """Places of a file that ask a column's class, or compare a kind with one of its words."""
    return sum(_asks(node) for node in ast.walk(parsed(path)))


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="is_binary")):
            return True
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return bool(_names(classes) & CLASSES)
        case ast.Call(func=ast.Attribute(attr="count" | "get"), args=[ast.Constant(value=word), *_]):
            return word in KINDS
        case ast.Compare():
            sides = [node.left, *node.comparators]
            words = {each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)}
            return (bool(words & KINDS) and any(_of_kind(side) for side in sides)) or _compares_classes(sides)
        case ast.Dict():
            return bool(set().union(*(_names(key) for key in node.keys if key is not None)) & CLASSES)
        case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=word)):
            return "kind" in owner and word in KINDS
        case ast.MatchClass(cls=ast.Name(id=name)):
            return name in CLASSES
        case ast.MatchValue(value=ast.Constant(value=word)):
            return word in KINDS
    return False


def _of_kind(side: ast.expr) -> bool:
    """Whether a side of a comparison is a kind: an attribute, a name or a key that is called so."""
    found = {each.attr for each in ast.walk(side) if isinstance(each, ast.Attribute)}
    found |= {each.id for each in ast.walk(side) if isinstance(each, ast.Name)}
    found |= {each.value for each in ast.walk(side) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return bool(found & {"kind", "kinds"})


def _compares_classes(sides: list[ast.expr]) -> bool:
    return any(isinstance(side, ast.Name) and side.id in CLASSES for side in sides)


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
