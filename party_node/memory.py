"""Memory that was freed, given back to the operating system: a daemon is small again between releases.

The C library keeps what it has freed for the next use, each thread's in an arena of its own, eight for each core. It trims
the end of the first of these only, so that every arena keeps the largest buffers that a thread once had in it. Arrow keeps a
pool.
"""

from __future__ import annotations

import ctypes
import sys

_M_ARENA_MAX = -8  # malloc.h


def share_arena() -> None:
    """Let all threads that begin from now on share the arenas that there are (Linux with glibc): before any work, one or two."""
    limit = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if limit is not None:
        limit(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Free pages of the C library's arenas (Linux with glibc) and of Arrow's pool, if Arrow was loaded."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
