"""`learner counterfactual`: what a target would have been without an intervention, with the effect, a band and placebos."""

from __future__ import annotations

from pathlib import Path

import click

from dprelease.cli.printing import explain_option, json_option
from dprelease.document.cells import LEVEL
from learner.cli.releases import OUT_TOO, from_option, print_about, write_file
from learner.client.describe_counterfactual import describe_counterfactual
from learner.client.library import open_release
from learner.report.counterfactual_page import counterfactual_page


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
    different = {each.release.digest: each for each in opened}
    write_file(output, counterfactual_page(tuple(different.values()), found))
