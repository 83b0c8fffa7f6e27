"""Runs a role's command and notes the longest step of its event loop, in processor seconds: nobody else is served meanwhile.

    python -m tests.support.loop_steps FOLDER -- MODULE ARGUMENTS

The file of the folder that is named by the process's number has the seconds of the longest step so far.
"""

import os
import runpy
import sys
import time
from asyncio import events
from pathlib import Path


def longest_step(folder: Path, process: int) -> float:
    """Processor seconds of the longest step that a process has noted."""
    return float((folder / str(process)).read_text())


def note_steps(path: Path) -> None:
    """Note steps of all event loops of this process from now on."""
    step, longest = events.Handle._run, [0.0]
    path.write_text("0")

    def timed(handle: events.Handle) -> None:
        begun = time.thread_time()
        step(handle)
        spent = time.thread_time() - begun
        if spent > longest[0]:
            longest[0] = spent
            path.write_text(repr(spent))

    events.Handle._run = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    note_steps(Path(sys.argv[1]) / str(os.getpid()))
    split = sys.argv.index("--")
    sys.argv = sys.argv[split + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
