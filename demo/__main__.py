"""`make demo`: three institutions publish one release of the Redbook survey; a stranger verifies it and fits models."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from demo.consortium import HOST, Consortium, wait_for
from demo.redbook import BOUNDS, INSTITUTIONS, least_squares, r_squared, survey, write_files
from dprelease.errors import DpReleaseError

EPSILON, DELTA = 1.0, 1e-5
TARGETS = ("yrs_married", "children", "rate_marriage", "affairs")
REQUEST = f"""\
title = "Redbook 1974, nine columns"
mechanism = "mixed"
epsilon = {EPSILON}
delta = {DELTA}
scope = "joint"

[parties]
""" + "".join(f'{name} = ["*"]\n' for name in INSTITUTIONS)


def main(folder: Path) -> None:
    """Run the demo in a folder, which is emptied first."""
    console = Console(width=118)

    def narrate(line: str) -> None:
        console.print(f"[dim]$ {line}[/dim]", highlight=False, soft_wrap=True)

    shutil.rmtree(folder, ignore_errors=True)
    table = survey()
    with Consortium(folder, narrate) as consortium:
        console.rule("The office founds a consortium")
        printed = consortium.found(epsilon=2.0, delta=DELTA)
        console.print(printed.strip(), highlight=False)
        console.rule("Three institutions join; each holds other columns of the same 6,366 women")
        write_files(folder, table)
        consortium.enrol(list(INSTITUTIONS))
        console.print(consortium.run("party-node", "check", "--offline", home=consortium.hospital("clinic")).strip())
        consortium.open_hospitals(list(INSTITUTIONS))
        release = _release(consortium, console)
        console.rule("A stranger downloads, verifies and fits: no login, no credentials")
        reports = _learn(consortium, console, release)
    _compare(console, table, reports)
    console.print(f"Everything is in {folder}/: logs, ledgers, the published release and the learner's copy.")


def _release(consortium: Consortium, console: Console) -> str:
    console.rule("The office proposes a release; two institutions approve by policy, at the clinic a person looks")
    (consortium.office / "request.toml").write_text(REQUEST)

    def catalogued() -> bool:
        parties = consortium.run("coordinator", "party", "list", "--json", home=consortium.office, narrated=False)
        return all(party["rows"] for party in json.loads(parties))

    wait_for(catalogued, 60, "every party to report its columns")
    console.print(consortium.run("coordinator", "release", "create", "request.toml", home=consortium.office).strip())
    listed = json.loads(
        consortium.run("coordinator", "release", "list", "--json", home=consortium.office, narrated=False)
    )
    release: str = listed[0]["digest"]
    clinic = consortium.hospital("clinic")

    def offered() -> bool:
        return release in consortium.run("party-node", "review", "list", "--json", home=clinic, narrated=False)

    wait_for(offered, 60, "the clinic to see the proposal")
    console.print(consortium.run("party-node", "review", "approve", release[:12], "--yes", home=clinic).strip())
    watch = ("release", "watch", release[:12], "--until-final", "--timeout", "120")
    console.print(consortium.run("coordinator", *watch, home=consortium.office).strip(), highlight=False)
    console.print(consortium.run("party-node", "ledger", "show", "--delta", f"{DELTA:g}", home=clinic).rstrip())
    return release


def _learn(consortium: Consortium, console: Console, release: str) -> list[dict[str, Any]]:
    learner = consortium.folder / "stranger"
    learner.mkdir()
    shutil.copy(consortium.hub / "root.pem", learner / "root.pem")  # from the consortium's web page, say
    home = ("--home", "library")
    address = f"{HOST}:{consortium.ports['public']}"
    trust = ("trust", "add", "demo", "--root", "root.pem", "--hub", address, "--yes")
    console.print(consortium.run("learner", *home, *trust, home=learner).strip())
    for command in (("list",), ("fetch", release[:12]), ("verify", release[:12])):
        console.print(consortium.run("learner", *home, *command, home=learner).rstrip(), highlight=False)
    reports = []
    for target in TARGETS:
        output = f"{target}.json"
        fit = ("fit", release[:12], "--target", target, "--output", output)
        printed = consortium.run("learner", *home, *fit, home=learner)
        if target == TARGETS[0]:
            console.print(printed.rstrip(), highlight=False)
        reports.append(json.loads((learner / output).read_text()))
    return reports


def _compare(console: Console, table: pd.DataFrame, reports: list[dict[str, Any]]) -> None:
    """The demo owns all three files, so it may compare with the truth; nobody else could."""
    console.rule("What the fits are worth on the true rows, which only this demo can see")
    grid = Table("target", "R² without privacy", "R² from the release", "R² of the constant from the release")
    for target, report in zip(TARGETS, reports, strict=True):
        outcome = table[target].to_numpy()
        predicted = report["intercept"][0] + table[report["features"]].to_numpy() @ np.array(report["coef"][0])
        constant = np.full(len(outcome), report["constant"]["value"][0])
        cells = (least_squares(table, target), r_squared(outcome, predicted), r_squared(outcome, constant))
        grid.add_row(target, *(f"{cell:,.3f}" for cell in cells))
    console.print(grid)
    console.print(
        f"With {len(table):,} patients and (epsilon, delta) = ({EPSILON:g}, {DELTA:g}) for the whole row, a mixed block is "
        "hardly better than the mean: its noise is larger than what the columns tell about one another. R² below 0 is worse "
        f"than the mean. Mixed blocks become useful from some 1e5 to 1e6 patients; {len(BOUNDS)} columns share this budget."
    )


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-run").resolve())
    except DpReleaseError as failure:
        sys.exit(f"the demo failed: {failure.message}")
