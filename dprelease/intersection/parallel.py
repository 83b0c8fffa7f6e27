"""One function on many pieces, over processes: X25519 of the cryptography package holds Python's lock, so threads do not help."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from dprelease.errors import PeerUnavailable

_AHEAD = 2  # pieces that wait for each process
_FEWEST = 8  # pieces; with fewer, processes would take longer to start than to work


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def mapped(function: Callable[[bytes], bytes], pieces: Iterable[bytes], count: int, workers: int) -> Iterator[bytes]:
    """The function of every piece, in order, which are read as they are needed; few of them, or one worker, stay in this process.

    Raises:
        PeerUnavailable: a process was ended from outside; try again.
    """
    if workers < 2 or count < _FEWEST:
        yield from map(function, pieces)
        return
    # Fresh processes: one that is forked would hold the locks that other threads of ours hold just now.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=_end_with_parent) as pool:
        waiting: deque[Future[bytes]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(function, piece))
                if len(waiting) > _AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise PeerUnavailable("a process that multiplies points was ended; is there enough memory?") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Let this process end with the one that started it, also where that one is killed: it holds secrets."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - it was started by `mapped`

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
