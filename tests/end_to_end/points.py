"""Crash points as parameters of a test: every run tries the usual ones, `make test-slow` the others."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest


def crash_points(table: Mapping[str, Any], usual: Collection[str]) -> list[Any]:
    """One parameter for each named fault; the slow suite has those that are not usual.

    Args:
        table: name to fault.
        usual: names that every run tries, one of each kind of step.
    """
    assert set(usual) <= set(table)
    return [
        pytest.param(fault, id=name, marks=() if name in usual else pytest.mark.slow) for name, fault in table.items()
    ]
