"""A stream may take as long as it needs, as long as it moves. Time is handed in; nothing here waits and hopes."""

from __future__ import annotations

import threading

import pytest

from dprelease.wire import retry
from dprelease.wire.retry import ProgressDeadline

LONG = 3600.0
SHORT = 0.01
PATIENCE = 30.0
"""How long a test waits for what must happen before it gives up."""


def test_standing_still_cancels_once() -> None:
    calls: list[int] = []
    cancelled = threading.Event()

    def cancel() -> None:
        calls.append(1)
        cancelled.set()

    with ProgressDeadline(cancel, SHORT) as deadline:
        assert cancelled.wait(PATIENCE)
    assert deadline.stalled
    assert calls == [1]


def test_a_stream_that_ends_in_time_is_not_cancelled() -> None:
    calls: list[int] = []
    with ProgressDeadline(lambda: calls.append(1), LONG) as deadline:
        deadline.moved()
    assert not deadline.stalled
    assert calls == []


def test_an_error_within_is_passed_on_and_ends_the_watch() -> None:
    calls: list[int] = []
    with pytest.raises(KeyError), ProgressDeadline(lambda: calls.append(1), LONG):
        raise KeyError
    assert calls == []


class Clock:
    """Time that only moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Steps(threading.Event):
    """Stands in for the event that the watch waits on: hands each wait to the test and takes its time from there."""

    def __init__(self, clock: Clock, script: list[float]) -> None:
        super().__init__()
        self.clock, self.script, self.waited = clock, script, []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        if not self.script:
            return True
        self.clock.now += self.script.pop(0)
        return False


def watch(
    monkeypatch: pytest.MonkeyPatch, script: list[float], moves: int
) -> tuple[ProgressDeadline, list[int], Steps]:
    """Run the watch in this thread: `script` is how long each of its waits takes; the stream moves after the first `moves`."""
    clock = Clock()
    monkeypatch.setattr(retry, "time", clock)
    calls: list[int] = []
    deadline = ProgressDeadline(lambda: calls.append(1), 10.0)
    steps = Steps(clock, script)
    original = steps.wait

    def wait(timeout: float | None = None) -> bool:
        done = original(timeout)
        if len(steps.waited) <= moves:
            deadline.moved()
        return done

    monkeypatch.setattr(steps, "wait", wait)
    monkeypatch.setattr(deadline, "_done", steps)
    deadline._watch()
    return deadline, calls, steps


def test_each_move_starts_the_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline, calls, steps = watch(monkeypatch, [9.0, 9.0, 9.0], moves=3)
    assert not deadline.stalled
    assert calls == []
    assert steps.waited == [10.0, 10.0, 10.0, 10.0]


def test_the_time_counts_from_the_last_move(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline, calls, steps = watch(monkeypatch, [9.0, 4.0, 6.0, 1.0], moves=1)
    assert deadline.stalled
    assert calls == [1]
    assert steps.waited == [10.0, 10.0, 6.0]
