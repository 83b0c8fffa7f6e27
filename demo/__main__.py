"""`make demo`: three institutions publish the Redbook survey in both ways; a stranger verifies the releases and fits models.

First joint moments, which the institutions compute together on masked columns, coded in ranges that they publish in a first round;
then mixed blocks, for which nobody has to trust anybody, and what the fits of both are worth. The demo ends with a stream: the same
women in four waves, a checkpoint for each, under one guarantee.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from demo.consortium import HOST, Consortium
from demo.office import propose, stream
from demo.redbook import ABOUT, BOUNDS, INSTITUTIONS, least_squares, r_squared, survey, write_files
from dprelease.errors import DpReleaseError

EPSILON, DELTA = 1.0, 1e-5
TARGETS = ("yrs_married", "children", "rate_marriage", "affairs")
MECHANISMS = ("moments", "mixed")
STRANGER = "stranger"
Reports = dict[str, list[dict[str, Any]]]
"""Mechanism to the fits of all targets."""


def request(mechanism: str) -> str:
    """The office's request: every column of everybody, (epsilon, delta) for the whole row of a woman."""
    parties = "".join(f'{name} = ["*"]\n' for name in INSTITUTIONS)
    ranges = 'ranges = "first"\n' if mechanism == "moments" else ""
    return (
        f'title = "Redbook 1974, nine columns, {mechanism}"\nmechanism = "{mechanism}"\n{ranges}'
        f'epsilon = {EPSILON}\ndelta = {DELTA}\nscope = "joint"\n\n[parties]\n{parties}\n{ABOUT}'
    )


@click.command()
@click.argument("folder", default="demo-run", type=click.Path(file_okay=False, resolve_path=True, path_type=Path))
def main(folder: Path) -> None:
    """Run the demo in FOLDER (demo-run); what an earlier demo left there goes first."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "office").is_dir():
        raise click.ClickException(f"{folder} has files of others; give a folder that is new, empty or of a demo")
    try:
        _run_all(folder)
    except DpReleaseError as failure:
        raise click.ClickException(f"the demo failed: {failure.message}") from failure


def _run_all(folder: Path) -> None:
    console = Console(width=118, highlight=False, soft_wrap=True)  # tables of commands stay whole, however wide

    def narrate(line: str) -> None:
        console.print(f"[dim]$ {line}[/dim]", highlight=False, soft_wrap=True)

    shutil.rmtree(folder, ignore_errors=True)
    table = survey()
    with Consortium(folder, narrate) as consortium:
        console.rule("The office founds a consortium")
        printed = consortium.found(epsilon=3.0, delta=DELTA)
        console.print(printed.strip(), highlight=False)
        console.rule("Three institutions join; each holds other columns of the same 6,366 women")
        write_files(folder, table)
        consortium.enrol(list(INSTITUTIONS))
        console.print(consortium.run("party-node", "check", "--offline", home=consortium.hospital("clinic")).strip())
        consortium.open_hospitals(list(INSTITUTIONS))
        releases = {}
        for mechanism in MECHANISMS:
            console.rule(
                f"The office proposes '{mechanism}'; two institutions approve by policy, at the clinic a person looks"
            )
            releases[mechanism] = propose(consortium, console, request(mechanism))
        clinic = consortium.hospital("clinic")
        console.print(consortium.run("party-node", "ledger", "show", "--delta", f"{DELTA:g}", home=clinic).rstrip())
        console.rule("A stranger downloads, verifies and fits: no login, no credentials")
        reports = _learn(consortium, console, releases)
        _compare(console, table, reports)
        stream(consortium, console, partial(_show, consortium, console), EPSILON, DELTA)
    console.print(f"Everything is in {folder}/: logs, ledgers, the published release and the learner's copy.")
    home, digest = folder / STRANGER, releases["moments"]
    console.print(f'release = dprelease.load("{home}/library/releases/{digest}", root="{home}/root.pem")')


def _run(consortium: Consortium, *arguments: str) -> str:
    """A command of the stranger."""
    return consortium.run("learner", "--home", "library", *arguments, home=consortium.folder / STRANGER)


def _show(consortium: Consortium, console: Console, *arguments: str) -> None:
    console.print(_run(consortium, *arguments).rstrip(), highlight=False)


def _learn(consortium: Consortium, console: Console, releases: dict[str, str]) -> Reports:
    learner = consortium.folder / STRANGER
    learner.mkdir()
    shutil.copy(consortium.hub / "root.pem", learner / "root.pem")  # from the consortium's web page, say
    show = partial(_show, consortium, console)
    address = f"{HOST}:{consortium.ports['public']}"
    show("trust", "add", "demo", "--root", "root.pem", "--hub", address, "--yes")
    show("list")
    reports: Reports = {}
    for mechanism, release in releases.items():
        show("fetch", release[:12])
        show("verify", release[:12])
        reports[mechanism] = []
        for target in TARGETS:
            output = f"{mechanism}-{target}.json"
            fit = ("fit", release[:12], "--target", target, "--output", output)
            printed = _run(consortium, *fit)
            if target == TARGETS[0]:
                console.print(printed.rstrip(), highlight=False)
            reports[mechanism].append(json.loads((learner / output).read_text()))
    show("describe", releases["moments"][:12], "--columns", "age,yrs_married,children,rate_marriage,affairs")
    return reports


def _ends(fit: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Ends of the ranges that the features were released in, for predictions: none where those are the public bounds."""
    lower, upper = fit["feature_ends"]
    return [-np.inf if end is None else end for end in lower], [np.inf if end is None else end for end in upper]


def _compare(console: Console, table: pd.DataFrame, reports: Reports) -> None:
    """The demo owns all three files, so it may compare with the truth; nobody else could."""
    console.rule("R² of the fits on the true rows, which only this demo can see")
    grid = Table("target", "without privacy", *MECHANISMS, *(f"constant from {each}" for each in MECHANISMS))
    for place, target in enumerate(TARGETS):
        outcome = table[target].to_numpy()
        cells = [least_squares(table, target)]
        fits = [reports[mechanism][place] for mechanism in MECHANISMS]
        for fit in fits:
            rows = table[fit["features"]].clip(*_ends(fit), axis=1).to_numpy()
            start, *slopes = (row["value"] for row in fit["predictor"])
            predicted = start + rows @ np.array(slopes)
            cells.append(r_squared(outcome, predicted))
        cells += [r_squared(outcome, np.full(len(outcome), fit["fit"][0]["constant"]["estimate"])) for fit in fits]
        grid.add_row(target, *(f"{cell:,.3f}" for cell in cells))
    console.print(grid)
    console.print(
        f"{len(table):,} patients, {len(BOUNDS)} columns, (epsilon, delta) = ({EPSILON:g}, {DELTA:g}) for the whole row, each "
        "release. A value below 0 is worse than the mean. At this size a mixed block is hardly better than the mean: it becomes "
        "useful from some 1e5 to 1e6 patients. Joint moments are useful here, and ask for trust that mixed blocks do not: "
        "no two institutions may pool their protocol messages. Range proofs, which nobody outside has reviewed yet, cover altered "
        "software of one institution."
    )


if __name__ == "__main__":
    main()
