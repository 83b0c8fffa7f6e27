"""Commands of a learner, and the exit codes of their errors."""

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from dprelease.wire.boundary import TABLE
from learner.cli.main import main

Run = Callable[..., Result]

EXIT = {row.error.__name__: row.exit_code for row in TABLE}


def runner(home: Path) -> Run:
    """Runs commands of somebody whose folder this is."""
    return lambda *arguments, **more: CliRunner().invoke(main, ["--home", str(home), *map(str, arguments)], **more)
