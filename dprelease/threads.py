"""Threads: one of the linear algebra in every command, all cores for a product that is worth them, one that works ahead.

The threads of OpenBLAS wait for one another in busy loops. A small product on two threads takes tens of times as long as on
one, if as many processes are busy as there are cores. A command therefore starts with one thread. A large product takes all
cores for as long as it runs. A variable that a person has set, such as OPENBLAS_NUM_THREADS, is obeyed. A program that
imports the library keeps the threads it has.

Memory that threads free goes back to the operating system: a daemon is small again between releases. The C library keeps what
it has freed for the next use, each thread's in an arena of its own, eight for each core. It trims the end of the first arena
only, so that every other keeps the largest buffers that a thread once had in it. Arrow keeps a pool.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Variables that people set. A library reads its own once, when numpy is imported."""
WORTH_ALL_CORES = 10**9
"""Multiplications of a product that takes a tenth of a second on one core: far longer than waiting threads delay it."""

Made = TypeVar("Made")
_M_ARENA_MAX = -8  # malloc.h

_decided_here = False
_one_at_a_time = Lock()


def start_with_one() -> None:
    """Start the linear algebra of this process with one thread, unless a variable says how many it has.

    A command calls this before numpy is imported.
    """
    global _decided_here
    if not any(name in os.environ for name in VARIABLES):
        os.environ.update(dict.fromkeys(VARIABLES, "1"))
        _decided_here = True


@contextmanager
def for_product(multiplications: int) -> Iterator[None]:
    """Lend all cores to a product of at least `WORTH_ALL_CORES` multiplications, in a process of `start_with_one`.

    Args:
        multiplications: rows times columns times inner length.
    """
    if not _decided_here or multiplications < WORTH_ALL_CORES:
        yield
        return
    # The number of threads belongs to the process: two products at once would each restore what the other one set.
    with _one_at_a_time, _controller().limit(limits=os.cpu_count() or 1, user_api="blas"):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep the linear algebra to one thread: sums are then taken in one order, whatever threads the process has."""
    with _one_at_a_time, _controller().limit(limits=1, user_api="blas"):
        yield


def ahead(items: Iterator[Made]) -> Iterator[Made]:
    """All items, none of them None: one is made on a thread while who asks works on the one before."""
    from concurrent.futures import ThreadPoolExecutor  # commands that read nothing do without

    with ThreadPoolExecutor(1, "ahead") as maker:
        found = maker.submit(next, items, None)
        while (item := found.result()) is not None:
            found = maker.submit(next, items, None)
            yield item


@cache
def _controller() -> ThreadpoolController:
    """The loaded libraries: to look for them takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def share_arena() -> None:
    """Let all threads that begin from now on share the arenas that there are (Linux with glibc): before any work, one or two."""
    limit = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if limit is not None:
        limit(_M_ARENA_MAX, 1)


def without_pandas() -> None:
    """Let Arrow find no pandas, which it loads at its first array where it is installed: 30 MiB that nobody here reads.

    The program itself can import pandas as before, and so can Arrow where a table is asked to become one of pandas.
    """
    import pyarrow as pa

    nowhere = _NoPandas()
    sys.meta_path.insert(0, nowhere)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(nowhere)


class _NoPandas(MetaPathFinder):
    """Refuses one import."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ImportError(fullname)


def give_back() -> None:
    """Free pages of the C library's arenas (Linux with glibc) and of Arrow's pool, if Arrow was loaded."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
