"""`learner report`, `card` and `counterfactual`: results for people who were not there, as a page and as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dprelease.cli.printing import explain_option, json_option, print_json
from dprelease.description.counterfactual import describe_counterfactual
from dprelease.description.described import Unfitted
from dprelease.document.cells import LEVEL
from dprelease.document.document import json_text
from dprelease.estimators import fit
from dprelease.files.durable import write_file
from dprelease.report import card, page, reported
from dprelease.report.content import Report
from learner.cli.analysis import features_of, of_a_fit
from learner.cli.kept import analysis_option, kept
from learner.cli.releases import OUT_TOO, from_option, print_about
from learner.client.library import open_release


@click.command("report", context_settings=OUT_TOO)
@of_a_fit
@analysis_option
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="HTML file to write.")
@json_option
@click.pass_obj
def report_release(home: Path, /, output: Path, as_json: bool, **asked: Any) -> None:
    """Write a fit, analyses or both as one HTML page, after verifying the release.

    With --analysis the page has what `learner analyze` shows, curves of survival among it, and no fit unless options ask for
    one. The page needs nothing but itself: no network, no script. It has the guarantee in words, coefficients with
    intervals, the fit against the constant predictor, eigenvalues against the noise, means and correlations, quantiles and
    distributions where a first round published them, and how to cite and make it again. With --json the model card is printed
    too. A release of ranges has nothing to fit: the page has every column's mean, spread, quantiles and distribution, and
    --json prints what `learner describe --json` does; of a synthetic control it has what `learner counterfactual` shows, with
    the plot.

    \b
    Example:
      learner report 3f9a12c4 --target glucose --features age,sex --output report.html
      learner analyze survival 3f9a12c4 exit --by stage --output survival.json
      learner report 3f9a12c4 --analysis survival.json --output report.html
    """
    made = _reported(home, asked)
    write_file(output, page(made))
    print_json(card(made)) if as_json else click.echo(f"{output}: {made.words}")


@click.command("card")
@of_a_fit
@analysis_option
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead.")
@click.pass_obj
def release_card(home: Path, /, output: Path | None, **asked: Any) -> None:
    """Print a fit, analyses or both as a model card, after verifying the release: JSON with stable field names.

    \b
    Example:
      learner card 3f9a12c4 --target glucose --features age,sex --output card.json
    """
    made = card(_reported(home, asked))
    if output is None:
        print_json(made)
        return
    write_file(output, f"{json_text(made)}\n")
    click.echo(f"{output}: a model card")


@click.command("counterfactual", context_settings=OUT_TOO)
@click.argument("releases", metavar="ID|DIR...", nargs=-1, required=True)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=LEVEL,
    show_default=True,
    help="Probability of the band at each time.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="HTML page with the plot.")
@from_option
@json_option
@explain_option
@click.pass_obj
def counterfactual_release(
    home: Path,
    releases: tuple[str, ...],
    level: float,
    output: Path | None,
    name: str | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Show the path without the intervention, after verifying releases of a synthetic control.

    The path of the donors from the intervention on, the target's effect with a band for privacy noise, and how its gap compares
    with those of the donors. Several releases against the same target, of hospitals with different donors, are combined. All is
    computed from released numbers and costs no privacy.

    \b
    Example:
      learner counterfactual 3f9a12c4 77b0e1aa --output effect.html
    """
    opened = [open_release(home, release, name) for release in releases]
    found = describe_counterfactual([each.release for each in opened], level)
    print_about(opened, found.document(), as_json=as_json, explain=explain)
    if output is None:
        return
    write_file(output, page(found))


def _asks_for_a_fit(asked: Mapping[str, Any]) -> bool:
    return any(
        asked[key] not in ((), None) for key in ("targets", "features", "without", "method", "within", "intercept")
    )


def _reported(home: Path, asked: Mapping[str, Any]) -> Report | Unfitted:
    release = open_release(home, asked["release"], asked["name"]).release
    told = tuple(kept(path, release) for path in asked["analyses"])
    if not _asks_for_a_fit(asked):
        return reported(release, told)
    features = features_of(asked["features"], asked["without"], asked["targets"], release)
    how = (asked["method"], asked["intercept"], asked["within"])
    return reported(release, (fit(release, asked["targets"] or release.spec.outcomes, features or None, *how), *told))
