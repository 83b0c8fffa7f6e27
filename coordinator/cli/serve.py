"""`coordinator serve`: the daemon."""

from __future__ import annotations

import logging

import click

from coordinator.cli.options import with_settings
from coordinator.service.server import Server
from coordinator.settings import CoordinatorSettings
from dprelease.cli.console import StopSignal, log_json_option, log_to_stderr

log = logging.getLogger(__name__)


@click.command()
@click.option("--reflection/--no-reflection", default=None, help="Offer gRPC reflection; else as in the settings.")
@click.option("--verbose", is_flag=True, help="Log more.")
@log_json_option
@with_settings
def serve(settings: CoordinatorSettings, reflection: bool | None, verbose: bool, log_json: bool) -> None:
    """Serve parties and the hub until SIGTERM or Ctrl-C. May be killed and started again at any time.

    \b
    Example:
      coordinator serve --config office/coordinator.toml
    """
    log_to_stderr(verbose=verbose, as_json=log_json)
    stop = StopSignal()
    if reflection is not None:
        settings = settings.model_copy(update={"reflection": reflection})
    server = Server(settings)
    log.info("ready: coordination on port %d, enrolment on port %d", server.port, server.enrolment_port)
    stop.wait()
    log.info("stopping")
    server.stop()
    log.info("stopped")
