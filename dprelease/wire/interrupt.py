"""A stream that a third thread may end with an error of its choice, also while nothing comes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Interruptible(Generic[T]):
    """Iterates over a stream in a thread of its own, one item ahead. Use as a context manager.

    gRPC lets nobody but the peer wake a handler that waits for the next message, other than by a bare CANCELLED. This
    does, so that the peer is told why.

    Args:
        items: the stream. It must end by itself once the call is over, as gRPC's do.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = items
        self._ahead: list[T] = []
        self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True, name="interruptible")

    def interrupt(self, error: BaseException) -> None:
        """End the stream: whoever iterates gets the error now. The first one counts."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.interrupt(StopIteration())

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """The next item.

        Raises:
            StopIteration: the stream is over.
            BaseException: what `interrupt` was given, or what the stream itself raised.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._ahead or self._ended)
            if self._error is not None:
                raise self._error
            if not self._ahead:
                raise StopIteration
            item = self._ahead.pop()
            self._changed.notify_all()
            return item

    def _read(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: self._error or not self._ahead)
                    if self._error is not None:
                        return
                    self._ahead.append(item)
                    self._changed.notify_all()
        except Exception as error:  # it belongs to whoever iterates
            self.interrupt(error)
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
