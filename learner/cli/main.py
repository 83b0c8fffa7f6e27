"""The `learner` command: the hub, and the public client that needs no login."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dprelease.cli.console import Command, Commands
from dprelease.files.home import default_home
from dprelease.version import __version__

COMMANDS = {
    "analyze": Command("learner.cli.analyze:analyze", "Tables, tests and models beside linear fits."),
    "card": Command("learner.cli.report:release_card", "Print a fit as a model card, in JSON."),
    "counterfactual": Command(
        "learner.cli.report:counterfactual_release", "Show a target's path without an intervention."
    ),
    "deposit": Command("learner.cli.deposit:deposit_release", "Write a release as files for a repository."),
    "describe": Command(
        "learner.cli.analysis:describe_release", "Means, standard deviations and correlations of a release."
    ),
    "export": Command("learner.cli.analysis:export_release", "Write a release as a table for other tools."),
    "fetch": Command("learner.cli.releases:fetch_release", "Download a release and verify it."),
    "fit": Command("learner.cli.analysis:fit_release", "Fit linear models on a release."),
    "follow": Command("learner.cli.follow:follow_stream", "Fit every checkpoint of a stream, as they come."),
    "list": Command("learner.cli.releases:list_releases", "List what a consortium has published."),
    "plan": Command("learner.cli.plan:plan", "State the worth of a release, and which mechanism to ask for."),
    "report": Command("learner.cli.report:report_release", "Write a fit as one HTML page."),
    "serve": Command("learner.hub.cli:serve", "Run the hub."),
    "spending": Command("learner.cli.releases:spending", "Add up what every release spent, and what is left."),
    "synthesize": Command("learner.cli.synthesize:synthesize_rows", "Write made-up rows that look like the patients."),
    "trust": Command("learner.cli.trust:trust", "Consortium roots that are believed."),
    "verify": Command("learner.cli.releases:verify_release", "Check a release without any network."),
}


@click.group(cls=Commands, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--home",
    envvar="LEARNER_HOME",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: default_home(os.environ),
    show_default="~/.local/share/dprelease",
    help="Folder of pinned roots and fetched releases. [env: LEARNER_HOME]",
)
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context, home: Path) -> None:
    """Publish releases as a hub, or list, fetch, verify, describe and fit them as anybody.

    \b
    Example:
      learner trust add trial --root root.pem --hub hub.example.org:7444
      learner list
      learner fetch 3f9a12c4
      learner fit 3f9a12c4 --target glucose --features age,sex
    """
    context.obj = home
