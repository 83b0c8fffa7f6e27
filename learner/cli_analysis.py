"""`learner fit` and `export`: what a verified release is for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from dprelease.durable import write_durably
from dprelease.errors import InvalidInput
from dprelease.estimators import METHODS, fit
from dprelease.release import Release
from learner import show
from learner.cli_releases import from_option, json_option
from learner.export import WRITERS, table
from learner.library import Library, open_verified
from learner.trust import TrustStore


@click.command("fit")
@click.argument("release", metavar="ID|DIR")
@click.option("--target", "targets", multiple=True, required=True, metavar="COLUMN", help="Outcome; may be repeated.")
@click.option("--features", multiple=True, metavar="A,B,...", help="Columns to fit on; every other column if left out.")
@click.option("--method", type=click.Choice(list(METHODS)), default="ols", show_default=True, help="Estimator.")
@click.option("--intercept/--no-intercept", default=None, help="Fit an intercept; by the method if left out.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the fit as JSON to this file.")
@from_option
@json_option
@click.pass_obj
def fit_release(
    home: Path,
    release: str,
    targets: tuple[str, ...],
    features: tuple[str, ...],
    method: str,
    intercept: bool | None,
    output: Path | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Fit linear models on a release, after verifying it.

    Coefficients are in original units. Beside the model stands the constant predictor, and how far both are off.
    Fitting costs no privacy.

    \b
    Example:
      learner fit 3f9a12c4 --target glucose --features age,sex --method rmgm --output fit.json
    """
    opened = open_verified(Library(home).find(release), TrustStore(home), name)
    chosen = _split(features, opened.release) or None
    result = fit(opened.release, targets, chosen, method, intercept)
    data = json.dumps(result.to_json(), indent=2)
    if output is not None:
        write_durably(output, f"{data}\n".encode())
    if as_json:
        click.echo(data)
    else:
        click.echo(f"verified: release {opened.release.digest} of {opened.consortium.name}\n")
        show.fitted(result, opened.release)


@click.command("export")
@click.argument("release", metavar="ID|DIR")
@click.option("--format", "kind", type=click.Choice(sorted(WRITERS)), required=True, help="File format.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@from_option
@click.pass_obj
def export_release(home: Path, release: str, kind: str, output: Path, name: str | None) -> None:
    """Write a release's rows as a table for other tools, after verifying it.

    Values are in scaled units; the metadata say what rows mean (they are not patients), every column's unit, scale and
    noise, and the guarantee.

    \b
    Example:
      learner export 3f9a12c4 --format parquet --output release.parquet
    """
    opened = open_verified(Library(home).find(release), TrustStore(home), name)
    exported = table(opened)
    try:
        WRITERS[kind](exported, output)
    except OSError as error:
        raise InvalidInput(f"cannot write {output}: {error.strerror}") from error
    rows, columns = exported.values.shape
    click.echo(f"{output}: {rows} released rows, {columns} columns. {exported.metadata['meaning_of_rows']}")


def _split(texts: Sequence[str], release: Release) -> tuple[str, ...]:
    # A level may contain a comma: a text that is a released name as it stands is not taken apart.
    names: list[str] = []
    for text in texts:
        names += [text] if text in release.spec.released else [part.strip() for part in text.split(",") if part.strip()]
    return tuple(names)
