"""The time, in whole seconds of UTC: what specs, certificates and the database all keep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Tells the time; tests hand in their own."""


def utc_now() -> datetime:
    """Now, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
