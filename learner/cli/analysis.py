"""`learner describe`, `fit` and `export`: what a verified release is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import click

from dprelease.cli.printing import explain_option, json_option
from dprelease.description.described import described
from dprelease.document.document import json_text
from dprelease.errors import InvalidInput
from dprelease.estimators import METHODS, ConvexSet, fit
from dprelease.estimators.design import design
from dprelease.estimators.result import PREDICTOR
from dprelease.files.durable import can, write_file
from dprelease.files.extras import require
from dprelease.one_line import listed
from dprelease.progress import shown_on_stderr
from dprelease.release.release import Release
from learner.cli.releases import from_option, print_about
from learner.client.cluster import on_cluster
from learner.client.library import Opened, open_release
from learner.export.matrix import matrix, rows
from learner.export.table import MEANING, WRITERS, ExportTable, table


def _set(_context: click.Context, _parameter: click.Parameter, text: str | None) -> ConvexSet | None:
    return None if text is None else ConvexSet.parse(text)


method_option = click.option(
    "--method",
    type=click.Choice(list(METHODS)),
    metavar="NAME",
    help="One of the methods below; by the kind of release if left out.",
)


class WithMethods(click.Command):
    """A command whose help lists the methods that it takes, baselines under a heading of their own."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists behind the options."""
        for heading, baseline in (("Methods", False), ("Baselines, to compare with", True)):
            with formatter.section(heading):
                formatter.write_dl([(name, row.words) for name, row in METHODS.items() if row.baseline is baseline])
        super().format_epilog(ctx, formatter)


def of_a_fit(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument and the options that say what to fit, and from whom the release is."""
    for option in (
        from_option,
        click.option("--intercept/--no-intercept", default=None, help="Fit an intercept; by the method if left out."),
        click.option(
            "--within",
            callback=_set,
            metavar="KIND:RADIUS",
            help="Set that method 'constrained' keeps weights within: l2, l1 or simplex, as l1:2.",
        ),
        method_option,
        click.option("--without", multiple=True, metavar="A,B,...", help="Columns or levels of these not to fit on."),
        click.option(
            "--features", multiple=True, metavar="A,B,...", help="Columns to fit on; every other column if left out."
        ),
        click.option(
            "--target",
            "targets",
            multiple=True,
            metavar="COLUMN",
            help="Outcome; may be repeated; all outcomes of a release that names them if left out.",
        ),
        click.argument("release", metavar="ID|DIR"),
    ):
        command = option(command)
    return command


@click.command("fit", cls=WithMethods)
@of_a_fit
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the fit as JSON to this file.")
@click.option("--predictor", is_flag=True, help="Show the model that predicts, too.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Scheduler of dask.distributed, tls://HOST:PORT, whose workers sum over many released rows.",
)
@json_option
@explain_option
@click.pass_obj
def fit_release(
    home: Path,
    release: str,
    targets: tuple[str, ...],
    features: tuple[str, ...],
    without: tuple[str, ...],
    method: str | None,
    within: ConvexSet | None,
    intercept: bool | None,
    output: Path | None,
    name: str | None,
    predictor: bool,
    cluster: str | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Fit linear models on a release, after verifying it.

    Coefficients are estimates of the population's in original units, with standard errors and intervals. Predictions come from
    another model, which --predictor shows and --output saves too. Fitting costs no privacy.

    \b
    Example:
      learner fit 3f9a12c4 --target glucose --features age,sex --output fit.json
    """
    opened = open_release(home, release, name)
    chosen = features_of(features, without, targets, opened.release) or None
    with shown_on_stderr(), on_cluster(opened.release, cluster) as read:
        result = fit(read, targets or opened.release.spec.outcomes, chosen, method, intercept, within)
        document = result.document()
    if output is not None:
        write_file(output, f"{json_text(document.to_json())}\n")
    print_about([opened], document, as_json=as_json, explain=explain, shown=(PREDICTOR,) if predictor else ())


@click.command("describe")
@click.argument("release", metavar="ID|DIR")
@click.option("--columns", multiple=True, metavar="A,B,...", help="Columns to describe; every column if left out.")
@click.option("--clipping-corrected", is_flag=True, help="Correct for clipping, assuming normally distributed data.")
@from_option
@json_option
@explain_option
@click.pass_obj
def describe_release(
    home: Path,
    release: str,
    columns: tuple[str, ...],
    clipping_corrected: bool,
    name: str | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Show means, standard deviations and correlations, after verifying a release.

    In original units, each with the standard deviation of what privacy noise leaves open. A release of rows says
    something about means only; standard deviations and correlations come from joint moments. A release of ranges has means,
    standard deviations and quantiles, each with its error, and so have joint moments with a first round. `learner
    counterfactual` is the same for a synthetic control.

    \b
    Example:
      learner describe 3f9a12c4 --columns age,glucose
    """
    opened = open_release(home, release, name)
    names = names_of(columns, opened.release)
    found = described(opened.release, names, clipping_corrected=clipping_corrected)
    print_about([opened], found.document(), as_json=as_json, explain=explain)


@click.command("export")
@click.argument("release", metavar="ID|DIR")
@click.option("--format", "kind", type=click.Choice(sorted(WRITERS)), required=True, help="File format.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["matrix", "rows"]),
    help="Joint moments: the named matrix (unless you say otherwise), or rows that have these moments.",
)
@from_option
@click.pass_obj
def export_release(
    home: Path, release: str, kind: str, output: Path, form: Literal["matrix", "rows"] | None, name: str | None
) -> None:
    """Write a release as a table for other tools, after verifying it.

    Released rows, or the matrix of joint moments, are in scaled units; the metadata say what rows or entries mean, every
    column's unit and scale, the noise, the guarantee and whom it trusts. With --as rows joint moments become a small
    table in original units on which any tool's least squares give the right coefficients (and wrong standard errors).

    \b
    Example:
      learner export 3f9a12c4 --format parquet --output release.parquet
    """
    if kind == "parquet":
        require("pyarrow", "learner")
    opened = open_release(home, release, name)
    exported = _exported(opened, form)
    with can("write", output):
        WRITERS[kind](exported, output)
    click.echo(f"{output}: {exported.sentence()}")


def _exported(opened: Opened, form: Literal["matrix", "rows"] | None) -> ExportTable:
    if opened.release.regressable.kind not in MEANING:
        return rows(opened) if form == "rows" else matrix(opened)
    if form == "matrix":
        raise InvalidInput(
            f"a release of mechanism {opened.release.spec.mechanism!r} has rows and no matrix of moments; leave out --as"
        )
    return table(opened)


def features_of(
    features: Sequence[str], without: Sequence[str], targets: Sequence[str], release: Release
) -> tuple[str, ...]:
    """Names of the features that were asked for, all that may be if empty.

    Args:
        features: comma-separated lists; every other column if empty.
        without: comma-separated lists of what is left out of them.
        targets: what is fitted; the outcomes of the release if empty.
        release: has the columns.

    Raises:
        InvalidInput: no such column, one that is no feature of this fit, or none is left.
    """
    wanted = names_of(features, release)
    if not without:
        return wanted
    every = design(release, targets or release.spec.outcomes, wanted or None).features
    out = release.expand(names_of(without, release), reference=True)
    strangers = [name for name in out if name not in every]
    if strangers:
        raise InvalidInput(f"--without: {strangers[0]} is not among the features {listed(every)}")
    left = tuple(name for name in every if name not in out)
    if not left:
        raise InvalidInput("--without leaves no feature to fit on")
    return left


def names_of(texts: Sequence[str], release: Release) -> tuple[str, ...]:
    """Names in comma-separated lists; a released name stands for itself even with a comma in it, as levels may have."""
    names: list[str] = []
    for text in texts:
        names += [text] if text in release.spec.released else [part.strip() for part in text.split(",") if part.strip()]
    return tuple(names)
