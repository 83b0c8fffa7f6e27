"""`learner serve`: the hub as a process."""

from __future__ import annotations

from pathlib import Path

import click

from dprelease.cli.console import StopSignal, log_json_option, log_to_stderr
from dprelease.files.settings import read_settings
from dprelease.threads import share_arena
from learner.hub.settings import HubSettings


@click.command()
@click.option(
    "--config",
    envvar="LEARNER_CONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The hub's settings, hub.toml. [env: LEARNER_CONFIG]",
)
@click.option("--verbose", is_flag=True, help="Log more.")
@log_json_option
def serve(config: Path, verbose: bool, log_json: bool) -> None:
    """Run the hub until SIGTERM or SIGINT.

    Takes blocks in from parties (mutual TLS), publishes complete releases, serves them to everybody.

    \b
    Example:
      learner serve --config hub.toml
    """
    from learner.hub.server import Hub  # a client does not need the hub

    log_to_stderr(verbose=verbose, as_json=log_json)
    settings = read_settings(config, HubSettings)
    stop = StopSignal()
    share_arena()  # else each worker keeps what it has freed
    with Hub(settings):
        stop.wait()
