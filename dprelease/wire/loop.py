"""The one event loop of this process: every listener's calls run on it, in a thread of its own.

One loop and not one for each listener, because gRPC wakes all loops of a process through one file descriptor.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that runs on the loop, for any other thread."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """The loop; its thread starts with the first call and lasts as long as the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="calls").start()
    return loop
