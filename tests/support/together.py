"""Work that begins at once in several threads."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def together(work: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Work on each item in a thread of its own, all from the same moment on; raises what the first one that failed raised."""
    gate = threading.Barrier(len(items))

    def one(item: Item) -> Answer:
        gate.wait(30)
        return work(item)

    with ThreadPoolExecutor(len(items)) as threads:
        return list(threads.map(one, items))
