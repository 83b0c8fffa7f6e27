"""Kinds of columns and of variables in tests, which say what each of them must give."""

from dprelease.data.column import DeclaredColumn, Variable


def kind_of(variable: Variable) -> str:
    """``numeric``, ``binary`` or ``level``."""
    return "numeric" if variable.measured else "level" if variable.level else "binary"


def is_binary(column: DeclaredColumn) -> bool:
    """Whether it is a category of two values, ``other`` counted."""
    return len(column.values) == 2
