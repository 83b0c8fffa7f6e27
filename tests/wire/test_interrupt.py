"""A stream that a third thread ends: at once, with its own error, and without leaving a thread behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import repeat

import pytest

from dprelease.errors import AccessDenied, PeerUnavailable
from dprelease.wire.interrupt import Interruptible

PATIENCE_SECONDS = 30.0


def test_without_interruption_it_is_the_stream_itself() -> None:
    with Interruptible(iter(range(1000))) as stream:
        assert list(stream) == list(range(1000))
        assert next(stream, None) is None


def test_an_interruption_is_heard_while_nothing_comes() -> None:
    over, waiting = threading.Event(), threading.Event()

    def slow() -> Iterator[int]:
        yield 1
        waiting.set()
        over.wait(PATIENCE_SECONDS)

    with Interruptible(slow()) as stream:
        assert next(stream) == 1

        def revoke() -> None:
            waiting.wait(PATIENCE_SECONDS)
            stream.interrupt(AccessDenied("revoked"))
            stream.interrupt(PeerUnavailable("later"))

        threading.Thread(target=revoke).start()
        with pytest.raises(AccessDenied):  # the first reason counts
            next(stream)
        with pytest.raises(AccessDenied):
            next(stream)
    over.set()


def test_an_interruption_outruns_what_was_read_ahead() -> None:
    read = threading.Event()

    def quick() -> Iterator[int]:
        yield 1
        yield 2
        read.set()
        yield 3

    with Interruptible(quick()) as stream:
        assert next(stream) == 1
        read.wait(PATIENCE_SECONDS)  # the second one is ahead
        stream.interrupt(AccessDenied("revoked"))
        with pytest.raises(AccessDenied):
            next(stream)


def test_an_error_of_the_stream_is_the_iterators() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ConnectionError("the peer went away")

    with Interruptible(broken()) as stream, pytest.raises(ConnectionError):
        list(stream)


def test_who_leaves_early_leaves_no_thread_behind() -> None:
    with Interruptible(repeat(1)) as stream:
        assert next(stream) == 1
    stream._thread.join(PATIENCE_SECONDS)
    assert not stream._thread.is_alive()


def test_it_reads_no_further_ahead_than_two_items() -> None:
    taken: list[int] = []

    def counted() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    with Interruptible(counted()) as stream:
        for expected in range(100):
            assert next(stream) == expected
            assert len(taken) <= expected + 3  # the one in hand, the one ahead, the one that waits for its place
