"""Runs a role's command with one fault at a named place, so that crashes are reached by name and never by sleeping.

    python -m tests.support.faulty FAULT [FAULT ...] -- MODULE ARGUMENTS

A fault is ``KIND@MODULE:NAME`` with an optional ``#N`` for the N-th call:

* ``kill-before@party_node.state.ledger:Ledger.charge``: SIGKILL to ourselves before the call,
* ``kill-after@...``: after it returned for the N-th time (a call that fails does not count),
* ``full@...``: from the N-th call on, it fails as on a full disk,
* ``garble@...``: the bytes that it returns are other bytes of the same length,
* ``outlier@...``: one cell in each piece that it yields is larger by 2^40, modulo 2^61 - 1,
* ``between@...``: likewise, but one cell of the last column, by 1: of a category it is no level then,
* ``halve@...`` and ``silence@...``: the numbers that it returns are half of what they are, or zeros,
* ``more@...``: each number that it returns is larger by 1,
* ``constant@...``: every row that it returns is the first one,
* ``flip@...``: the first bit of what it returns is the other one,
* ``shift@...``: the last of the words that it returns is another one,
* one of `tests.support.altered`: that function stands in its place,
* ``set@MODULE:NAME=VALUE``: an integer constant is another one, e.g. a smaller chunk; nobody may have taken it before.

Nothing of this exists in the roles themselves.
"""

import errno
import importlib
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import count
from typing import Any

from tests.support.altered import DEVIATIONS, moved
from tests.support.replaced import replace

FULL = "the disk is full at"
"""What a role's log says when a ``full`` fault is reached."""


def _larger(column: int, by: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def altered(pieces: Iterator[Any]) -> Iterator[Any]:
        for piece in pieces:
            made = piece.copy()
            made[0, column] = (int(made[0, column]) + by) % ((1 << 61) - 1)
            yield made

    return altered


def _flipped(bits: Any) -> Any:
    made = bits.copy()
    made[0, 0] ^= 1
    return made


_ALTERED: dict[str, Callable[[Any], Any]] = {
    "outlier": _larger(0, 1 << 40),
    "between": _larger(-1, 1),
    "garble": lambda answer: bytes(255 - byte for byte in answer),
    "halve": lambda answer: answer // 2,
    "silence": lambda answer: answer * 0,
    "more": lambda answer: answer + 1,
    "constant": lambda answer: answer[[0] * len(answer)],
    "flip": _flipped,
    "shift": lambda answer: moved(answer, -8),
}


def plant(fault: str) -> None:
    """Put one fault in its place."""
    kind, place = fault.split("@", 1)
    module_name, name = place.split(":", 1)
    module = importlib.import_module(module_name)
    if kind == "set":
        name, value = name.split("=")
        setattr(module, name, int(value))
        return
    name, _, number = name.partition("#")
    *holders, last = name.split(".")
    holder: Any = module
    for part in holders:
        holder = getattr(holder, part)
    original = getattr(holder, last)
    made = _faulty(original, kind, int(number or 1))
    setattr(holder, last, made)
    if holder is module and original.__module__ == module_name:
        replace(original, made)


def _faulty(original: Callable[..., Any], kind: str, number: int) -> Callable[..., Any]:
    calls, returns = count(1), count(1)

    @wraps(original)
    def faulty(*arguments: Any, **named: Any) -> Any:
        call = next(calls)
        if kind == "kill-before" and call == number:
            _die()
        if kind == "full" and call >= number:
            sys.stderr.write(f"{FULL} {original.__qualname__}\n")
            sys.stderr.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if kind in DEVIATIONS:
            return DEVIATIONS[kind](original, *arguments, **named)
        answer = original(*arguments, **named)
        if kind == "kill-after" and next(returns) == number:
            _die()
        return _ALTERED[kind](answer) if kind in _ALTERED else answer

    return faulty


def _die() -> None:
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    split = sys.argv.index("--")
    for wanted in sys.argv[1:split]:
        plant(wanted)
    sys.argv = sys.argv[split + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
