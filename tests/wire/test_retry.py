"""Waits between attempts: growing, jittered, never longer than the longest."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.wire.retry import Backoff


def highest(low: float, high: float) -> float:
    return high


def test_waits_double_up_to_the_longest() -> None:
    waits = islice(Backoff(1.0, 60.0, 2.0).waits(highest), 9)
    assert list(waits) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_longest_below_the_first_wait_counts_from_the_start() -> None:
    assert list(islice(Backoff(1.0, 0.25).waits(highest), 2)) == [0.25, 0.25]


@given(first=st.floats(0.001, 10), longest=st.floats(0.001, 100), factor=st.floats(1, 10), fraction=st.floats(0, 1))
def test_jitter_takes_at_most_half(first: float, longest: float, factor: float, fraction: float) -> None:
    backoff = Backoff(first, longest, factor)
    upper = list(islice(backoff.waits(highest), 12))
    waits = list(islice(backoff.waits(lambda low, high: low + fraction * (high - low)), 12))
    for wait, high in zip(waits, upper, strict=True):
        assert high / 2 * (1 - 1e-12) <= wait <= high * (1 + 1e-12)
        assert wait <= longest * (1 + 1e-12)
    assert upper == sorted(upper)


def test_the_default_spreads_reconnects() -> None:
    first = {next(Backoff().waits()) for _ in range(20)}
    assert len(first) > 1
    assert all(0.5 <= wait <= 1.0 for wait in first)


def test_every_series_starts_anew() -> None:
    backoff = Backoff()
    list(islice(backoff.waits(highest), 5))
    assert next(backoff.waits(highest)) == 1.0


def test_a_backoff_is_a_value() -> None:
    with pytest.raises(AttributeError):
        Backoff().factor = 3.0  # type: ignore[misc]
