"""`learner synthesize`: made-up rows of a release of joint moments, what to know about them, and a page that compares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from dprelease.analyses.synthetic import MOST_ROWS, synthesize
from dprelease.cli.printing import explain_option, json_option
from dprelease.errors import InvalidInput
from dprelease.files.durable import can, write_file, write_pieces_durably
from dprelease.files.extras import require
from dprelease.one_line import listed
from dprelease.report.synthetic_page import synthetic_page
from learner.cli.releases import from_option, print_about
from learner.client.library import open_release
from learner.export.synthetic import ROW_WRITERS, metadata_bytes, sidecar


@click.command("synthesize")
@click.argument("release", metavar="ID|DIR")
@click.option("--rows", type=click.IntRange(1, MOST_ROWS), required=True, help="Rows to write, in each set.")
@click.option(
    "--sets",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="With 2 or more: so many sets of refits behind one of the model, for intervals.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write, .csv or .parquet; FILE.json has cautions, FILE.html a comparison.",
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
@from_option
@json_option
@explain_option
@click.pass_obj
def synthesize_rows(
    home: Path,
    release: str,
    rows: int,
    sets: int,
    output: Path,
    force: bool,
    name: str | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Write made-up rows that look like the patients, after verifying a release of joint moments.

    They are nobody's, and carry the guarantee of the release and no more. Tables of two columns come out as nearly as noise
    lets them be known. The page compares them with the released ones. Rows of one set are for looking, trying out programs and
    training; intervals need --sets 20 and the rule in the file of cautions. The same release gives the same rows.

    \b
    Example:
      learner synthesize 3f9a12c4 --rows 10000 --output rows.csv
    """
    ending = output.suffix.lower()
    if ending not in ROW_WRITERS:
        raise InvalidInput(f"--output ends in {' or '.join(ROW_WRITERS)}, not {output.name!r}")
    if ending == ".parquet":
        require("pyarrow", "learner")
    beside = {kind: output.with_name(f"{output.name}.{kind}") for kind in ("json", "html")}
    there = [str(path) for path in (output, *beside.values()) if path.exists()]
    if there and not force:
        raise InvalidInput(f"{listed(there)} exists already; name another file, or replace with --force")
    opened = open_release(home, release, name)
    made = synthesize(opened.release, rows, sets)
    metadata = sidecar(opened, made)
    again = f"learner synthesize {opened.release.digest} --rows {rows} --sets {sets} --output {output.name}"
    page = synthetic_page(opened.release, made, again)
    with can("write", output):
        write_pieces_durably(output, ROW_WRITERS[ending](made, metadata))
    write_file(beside["json"], metadata_bytes(metadata).decode())
    write_file(beside["html"], page)
    document = made.document()
    written = tuple(str(path) for path in (output, *beside.values()))
    print_about(
        [opened], replace(document, facts={**document.facts, "written": written}), as_json=as_json, explain=explain
    )
