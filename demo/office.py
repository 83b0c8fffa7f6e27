"""The office in the demo: it proposes, people approve, and everybody waits until it is published.

At the end the same women come once more, as if the survey had been collected in four waves, one checkpoint each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from demo.consortium import Consortium, wait_for
from demo.redbook import ABOUT, INSTITUTIONS, WAVES


def propose(consortium: Consortium, console: Console, request: str, people: Sequence[str] = ("clinic",)) -> str:
    """A published release of a request; its digest."""
    (consortium.office / "request.toml").write_text(request)

    def catalogued() -> bool:
        return all(party["rows"] for party in _listed(consortium, "party"))

    wait_for(catalogued, 60, "every party to report its columns")
    release, printed = _made(consortium, "create", "request.toml")
    console.print(printed.strip())
    for name in people:
        console.print(consortium.approve(release, name))
    watch(consortium, console, release)
    return release


def propose_next(consortium: Consortium, console: Console, stream: str) -> str:
    """The next checkpoint of a stream, published; its digest. Nobody is asked."""
    release, printed = _made(consortium, "next", stream[:12])
    console.print("\n".join(printed.splitlines()[:2]), highlight=False)
    watch(consortium, console, release)
    return release


def watch(consortium: Consortium, console: Console, release: str) -> None:
    """Wait for a release to be published or to fail."""
    command = ("release", "watch", release[:12], "--until-final", "--timeout", "120")
    console.print(consortium.run("coordinator", *command, home=consortium.office).strip(), highlight=False)


def _made(consortium: Consortium, *command: str) -> tuple[str, str]:
    """A new release, by a command of the office: its digest, and what was printed."""
    before = {each["digest"] for each in _listed(consortium, "release")}
    printed = consortium.run("coordinator", "release", *command, home=consortium.office)
    (release,) = {each["digest"] for each in _listed(consortium, "release")} - before
    return release, printed


def _listed(consortium: Consortium, of: str) -> list[dict[str, Any]]:
    printed = consortium.run("coordinator", of, "list", "--json", home=consortium.office, narrated=False)
    found: list[dict[str, Any]] = json.loads(printed)
    return found


TARGET, FEATURES = "yrs_married", "age,children"
APART = "affairs"
"""Left out: it fills little of its bounds, and among the features it would hide the coefficients of all others."""


def request(epsilon: float, delta: float) -> str:
    """The office's request: joint moments of everybody so far, at each checkpoint, under one (epsilon, delta)."""
    held = {name: [column for column in columns if column != APART] for name, columns in INSTITUTIONS.items()}
    parties = "".join(f"{name} = {columns}\n" for name, columns in held.items())
    return (
        f'title = "Redbook 1974, in {WAVES} waves"\nmechanism = "stream"\nof = "moments"\ncheckpoints = {WAVES}\n'
        f'epsilon = {epsilon}\ndelta = {delta}\nscope = "joint"\n\n[parties]\n{parties}\n{ABOUT}'
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
