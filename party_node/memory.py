"""Memory that was freed, given back to the operating system: a daemon is small again between releases.

The C library keeps what it has freed for the next use, each thread's in arenas of its own, and Arrow keeps a pool. A table that is
read and freed once a release, in pieces between others that stay, leaves more behind each time.
"""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Free pages of the C library's arenas (Linux with glibc) and of Arrow's pool, if Arrow was loaded."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
