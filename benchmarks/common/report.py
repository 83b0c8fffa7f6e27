"""What every benchmark has in common: its command line, its figures, and the description of the machine."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
QUICK_LIMIT = 600
"""Seconds after which a quick run counts as hung: ten times what it should take."""


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        figure: what was measured, with its unit.
        value: what came out.
        reach: what we mean to reach; None where the figure is for information.
        sense: on which side of `reach` the value should lie.
    """

    figure: str
    value: float
    reach: float | None = None
    sense: Literal[">=", "<="] = "<="

    @property
    def holds(self) -> bool | None:
        """Whether the reach is reached; None where there is none."""
        if self.reach is None:
            return None
        return bool(self.value <= self.reach if self.sense == "<=" else self.value >= self.reach)

    def plain(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "holds": self.holds}


@dataclass
class Results:
    """Figures of one run, and whatever else is worth keeping, such as the points of its plots."""

    figures: list[Figure] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def progress(self, done: str) -> None:
        """Print what is done, and how long after the beginning."""
        print(f"  [{time.monotonic() - self.began:5.0f} s] {done}", flush=True)

    def add(self, figure: str, value: float, reach: float | None = None, sense: Literal[">=", "<="] = "<=") -> None:
        """Note a figure and print it at once, so that a long run shows its progress."""
        found = Figure(figure, float(value), reach, sense)
        self.figures.append(found)
        verdict = {None: "", True: "  holds", False: "  FALLS SHORT"}[found.holds]
        aim = f"  (reach {sense} {reach:g})" if reach is not None else ""
        print(f"{figure}: {found.value:.4g}{aim}{verdict}", flush=True)

    def add_between(self, figure: str, value: float, reach: tuple[float, float] | None) -> None:
        """Note a figure that should lie between two values, as a figure for each."""
        least, most = reach or (None, None)
        self.add(figure, value, least, ">=")
        if most is not None:
            self.add(figure, value, most, "<=")


def machine() -> dict[str, Any]:
    """The machine and the versions that matter for a time."""
    packages = ("numpy", "scipy", "grpcio", "cryptography", "opendp", "pyarrow")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "blas": np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"],
        **{name: version(name) for name in packages},
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main(name: str, run: Callable[[bool], Results]) -> None:
    """Run a benchmark from the command line.

    A quick run that hangs prints where every thread is and ends with status 1, so that nobody waits for it.

    Args:
        name: of its module; a full run writes results/NAME.json.
        run: quick or not, to its results; it writes its own plots to `RESULTS` on a full run.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=run.__doc__)
    parser.add_argument("--quick", action="store_true", help="end within a minute, on smaller problems")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    given = parser.parse_args()
    if given.quick:
        faulthandler.dump_traceback_later(QUICK_LIMIT, exit=True)
    results = run(given.quick)
    faulthandler.cancel_dump_traceback_later()
    figures = [figure.plain() for figure in results.figures]
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    if not given.quick:
        RESULTS.mkdir(exist_ok=True)
        whole = {
            "measured": date.today().isoformat(),
            "machine": machine(),
            "figures": figures,
            "details": results.details,
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=2) + "\n")
