"""The `learner` command: the hub, and the public client that needs no login."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dprelease.version import __version__
from dprelease.wire.console import Commands
from learner.cli_analysis import describe_release, export_release, fit_release
from learner.cli_catalogue import catalogue
from learner.cli_hub import serve
from learner.cli_plan import plan
from learner.cli_releases import fetch_release, list_releases, verify_release
from learner.cli_report import release_card, report_release
from learner.cli_trust import trust
from learner.trust import default_home


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
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


for command in (
    serve,
    plan,
    trust,
    list_releases,
    catalogue,
    fetch_release,
    verify_release,
    describe_release,
    fit_release,
    report_release,
    release_card,
    export_release,
):
    main.add_command(command)
