"""Circles of imports: between files, and between the rooms of a package, which are its files and folders."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping
from functools import cache

from tests.measures.source import PRODUCT, nodes
from tests.test_architecture import name_of

Graph = Mapping[str, set[str]]


def circles() -> list[str]:
    """Every file, and every room, from which imports lead back to it."""
    imported = _imported()
    found = [f"{file} in {' '.join(circle)}" for circle in tangles(imported) for file in circle]
    for package in sorted(name_of(path) for path in PRODUCT if path.name == "__init__.py"):
        for circle in tangles(between_rooms(package, imported)):
            found += [f"{package}.{room} in {' '.join(circle)}" for room in circle]
    return found


@cache
def _imported() -> Graph:
    """Module to the modules that it imports, in functions and for types too."""
    paths = {name_of(path): path for path in PRODUCT}
    return {module: _resolved(nodes(path), paths) - {module} for module, path in paths.items()}


def _resolved(syntax: Iterable[ast.AST], known: Container[str]) -> set[str]:
    found = set()
    for node in syntax:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in known:
                name = name.rpartition(".")[0]
            found.add(name)
    return found - {""}


def between_rooms(package: str, imported: Graph) -> Graph:
    """Room of a package to the rooms of it that its files import; what the package itself says is a room too."""
    found: dict[str, set[str]] = {}
    for module, others in imported.items():
        if (room := _room(module, package)) is not None:
            beside = {_room(other, package) for other in others}
            found.setdefault(room, set()).update(each for each in beside if each not in (None, room))
    return found


def _room(module: str, package: str) -> str | None:
    if module == package:
        return "__init__"
    return module.removeprefix(f"{package}.").split(".")[0] if module.startswith(f"{package}.") else None


def tangles(graph: Graph) -> list[list[str]]:
    """Sets of two nodes or more that reach one another."""
    reached = {node: _reached(node, graph) for node in graph}
    found = {frozenset(each for each in reached[node] if node in reached.get(each, ())) for node in graph}
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def _reached(start: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for each in graph.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found
