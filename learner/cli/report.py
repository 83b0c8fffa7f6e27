"""`learner report` and `learner card`: a fit for people who were not there, as a page and as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dprelease.errors import InvalidInput
from dprelease.files.durable import write_durably
from learner.cli.analysis import names_of, of_a_fit
from learner.cli.releases import json_option
from learner.client.library import Library, open_verified
from learner.client.pinned_roots import TrustStore
from learner.report.content import Report, report
from learner.report.model_card import model_card
from learner.report.page import page


@click.command("report")
@of_a_fit
@click.option(
    "--out", "output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="HTML file to write."
)
@json_option
@click.pass_obj
def report_release(home: Path, /, output: Path, as_json: bool, **asked: Any) -> None:
    """Write a fit as one HTML page, after verifying the release.

    The page needs nothing but itself: no network, no script. It has the guarantee in words, coefficients with
    intervals, the fit against the constant predictor, eigenvalues against the noise, means and correlations, and how to
    cite and make it again. With --json the model card is printed too.

    \b
    Example:
      learner report 3f9a12c4 --target glucose --features age,sex --out report.html
    """
    made = _report(home, **asked)
    try:
        write_durably(output, page(made).encode())
    except OSError as error:
        raise InvalidInput(f"cannot write {output}: {error.strerror}") from error
    if as_json:
        click.echo(json.dumps(model_card(made), indent=2))
        return
    click.echo(f"{output}: {made.fit.method} of {len(made.fit.targets)} targets on {len(made.fit.features)} features")


@click.command("card")
@of_a_fit
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead.")
@click.pass_obj
def release_card(home: Path, /, output: Path | None, **asked: Any) -> None:
    """Print a fit as a model card, after verifying the release: JSON with stable field names.

    \b
    Example:
      learner card 3f9a12c4 --target glucose --features age,sex --output card.json
    """
    data = json.dumps(model_card(_report(home, **asked)), indent=2)
    if output is None:
        click.echo(data)
        return
    try:
        write_durably(output, f"{data}\n".encode())
    except OSError as error:
        raise InvalidInput(f"cannot write {output}: {error.strerror}") from error
    click.echo(f"{output}: a model card")


def _report(
    home: Path,
    release: str,
    targets: tuple[str, ...],
    features: tuple[str, ...],
    method: str | None,
    intercept: bool | None,
    name: str | None,
) -> Report:
    opened = open_verified(Library(home).find(release), TrustStore(home), name)
    return report(opened, targets, names_of(features, opened.release), method, intercept)
