"""Runs a role's command and notes the method of every call that its listeners answer, a line each.

python -m benchmarks.common.counted FILE MODULE ARGUMENTS
"""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dprelease.wire.dispatch import Dispatch


def launcher(file: Path) -> Sequence[str]:
    """Arguments of Python that run the module named after them in this way."""
    return "-m", __name__, str(file)


def counted(file: Path) -> Counter[str]:
    """Method, with its service, to how many calls of it there were."""
    return Counter(line.rpartition("v1.")[2] for line in file.read_text().splitlines())


def _count(file: Path) -> None:
    answer = Dispatch._answer
    with file.open("ab", buffering=0) as calls:

        async def noted(self: Dispatch, call: Any, handler: Any, context: Any) -> None:
            calls.write(f"{call.method}\n".encode())
            await answer(self, call, handler, context)

        Dispatch._answer = noted  # type: ignore[method-assign]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    kept, *sys.argv = sys.argv[1:]
    _count(Path(kept))
