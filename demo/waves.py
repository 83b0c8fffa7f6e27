"""The end of the demo: the same women once more, as if the survey had been collected in four waves, one checkpoint each."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from demo.consortium import Consortium
from demo.office import propose, propose_next
from demo.redbook import INSTITUTIONS, WAVES

TARGET, FEATURES = "yrs_married", "age,children"
APART = "affairs"
"""Left out: it fills little of its bounds, and among the features it would hide the coefficients of all others."""


def request(epsilon: float, delta: float) -> str:
    """The office's request: joint moments of everybody so far, at each checkpoint, under one (epsilon, delta)."""
    held = {name: [column for column in columns if column != APART] for name, columns in INSTITUTIONS.items()}
    parties = "".join(f"{name} = {columns}\n" for name, columns in held.items())
    return (
        f'title = "Redbook 1974, in {WAVES} waves"\nmechanism = "stream"\nof = "moments"\ncheckpoints = {WAVES}\n'
        f'epsilon = {epsilon}\ndelta = {delta}\nscope = "joint"\n\n[parties]\n{parties}'
    )


def stream(consortium: Consortium, console: Console, learn: Callable[..., None], epsilon: float, delta: float) -> None:
    """Publish every wave, and follow the stream as the stranger."""
    console.rule(f"A stream: the office asks for a checkpoint at each of {WAVES} waves, charged once, approved once")
    console.print("Columns of these women were released before: a person at each institution says that it pays again.")
    first = propose(consortium, console, request(epsilon, delta), tuple(INSTITUTIONS))
    for _ in range(WAVES - 1):
        propose_next(consortium, console, first)
    console.rule("The stranger follows it: one download has every checkpoint")
    learn("follow", first[:12], "--target", TARGET, "--features", FEATURES, "--once")
