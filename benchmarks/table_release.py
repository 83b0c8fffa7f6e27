"""A table of Adult's 14 columns in 153 values, from the last approval to its publication and to synthetic rows.

Three hospitals hold its columns of the same 36,000 patients. All roles and commands are processes of their own, as people start
them, with defaults: range proofs are made, and one hospital may be curious. Without Adult's file cells are made up.

Seconds are those of the clock, on the cores that all processes share. Processor seconds tell who works, also on a busy machine.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.common.files import at_hand
from benchmarks.common.hospitals import PATIENCE, catalogued, processor, request
from benchmarks.common.progress import wait_until_approved, wait_until_published
from benchmarks.common.report import Results, main
from benchmarks.tables.data import ADULT, Coded, adult
from demo.consortium import HOST, Consortium, wait_for
from dprelease.arrays import Integers
from dprelease.release.folder import ReleaseFolder
from tests.support.specs import ABOUT

NAMES = ("north", "south", "west")
ROWS, QUICK_ROWS, MADE_UP = 36_000, 3000, 10_000
SIZES = (14, 10, 7, 6, 12, 9, 16, 7, 15, 6, 5, 2, 42, 2)
"""Values of Adult's columns."""
TO_PUBLISHED, TO_ROWS = 60.0, 10.0
"""Most seconds on two cores."""


def run(quick: bool) -> Results:
    """Seconds of a release of joint moments of 14 categories, and of `learner synthesize` on it."""
    results, table = Results(), _table()
    people = table.codes[: QUICK_ROWS if quick else ROWS]
    title = f"{table.name}, n = {len(people):,}, three hospitals"
    with tempfile.TemporaryDirectory(prefix="table-release-") as folder, Consortium(Path(folder)) as made:
        made.found(epsilon=10.0, delta=1e-3)
        held = {name: range(place, len(table.names), len(NAMES)) for place, name in enumerate(NAMES)}
        for name, places in held.items():
            _write(made.hospital(name), name, {table.names[each]: people[:, each] for each in places}, table)
        made.enrol(NAMES)
        made.open_hospitals(NAMES, PATIENCE)
        wait_for(lambda: catalogued(made, NAMES), PATIENCE, "every hospital to report its columns")
        release = _propose(made)
        wait_until_approved(made, release, PATIENCE)
        before, began = processor(made), time.monotonic()
        wait_until_published(made, release, PATIENCE)
        seconds, spent = time.monotonic() - began, processor(made)
        results.add(f"{title}: seconds from the last approval to publication", seconds, None if quick else TO_PUBLISHED)
        for role in spent:
            results.add(f"{title}: processor seconds of that, {role}", spent[role] - before[role])
        home = "--home", "public"
        root = "--root", str(made.hub / "root.pem"), "--hub", f"{HOST}:{made.ports['public']}"
        made.run("learner", *home, "trust", "add", "demo", *root, "--yes")
        fetched = _timed(lambda: made.run("learner", *home, "fetch", release))
        rows = "--rows", str(MADE_UP), "--output", "rows.csv"
        synthesized = _timed(lambda: made.run("learner", *home, "synthesize", release, *rows))
        results.add(f"{title}: seconds of `learner fetch`", fetched[0])
        results.add(f"{title}: seconds of `learner synthesize`", synthesized[0], None if quick else TO_ROWS)
        results.add(f"{title}: processor seconds of that, synthesize", synthesized[1], None if quick else TO_ROWS)
        published = ReleaseFolder(made.hub / "storage" / "published" / release)
        opened = published.verify((made.hub / "root.pem").read_text())
        results.details["terms"] = opened.spec.terms.model_dump(mode="json", include={"curious", "range_proofs"})
    return results


def _table() -> Coded:
    if at_hand("Adult", ADULT):
        return adult()
    random = np.random.default_rng(1)
    codes = np.column_stack([random.integers(0, size, ROWS) for size in SIZES])
    return Coded("made-up cells", tuple(f"c{place}" for place in range(len(SIZES))), SIZES, codes, len(SIZES) - 1)


def _write(home: Path, name: str, cells: Mapping[str, Integers], table: Coded) -> None:
    """A hospital's table and settings."""
    home.mkdir()
    levels = {own: [f"v{at}" for at in range(size)] for own, size in zip(table.names, table.sizes, strict=True)}
    texts = {column: np.array(levels[column])[own] for column, own in cells.items()}
    subjects = np.char.add("P", np.arange(len(next(iter(cells.values())))).astype(str))
    pa.csv.write_csv(pa.table({"subject": subjects, **texts}), home / "table.csv")
    declared = "\n".join(
        f'[columns.{column}]\nkind = "categorical"\nlevels = {json.dumps(levels[column])}\nexhaustive = true\nfill = "v0"\n'
        for column in cells
    )
    (home / "party.toml").write_text(
        f'name = "{name}"\nroster = "all"\nsame_patients = true\n\n[source]\npath = "table.csv"\nsubject = "subject"\n\n'
        f'[policy.auto_approve]\nmechanisms = ["moments"]\n\n{declared}'
    )


def _propose(made: Consortium) -> str:
    parties = "\n".join(f'{name} = ["*"]' for name in NAMES)
    return request(
        made, f'title = "a table"\nmechanism = "moments"\nepsilon = 1.0\ndelta = 1e-5\n{ABOUT}\n[parties]\n{parties}\n'
    )


def _timed(command: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and processor seconds, of a command."""
    began, spent = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime


if __name__ == "__main__":
    main("table_release", run)
