"""Parts that the coordinator's commands share: the settings option, the JSON flag, and how things are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from coordinator.service.server import open_store
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.errors import InvalidInput
from dprelease.files.settings import read_settings

Command = TypeVar("Command", bound=Callable[..., Any])


def _read(_context: click.Context, _parameter: click.Parameter, path: Path) -> CoordinatorSettings:
    if not path.exists():
        raise InvalidInput(
            f"there is no {path}; give --config FILE or set COORDINATOR_CONFIG (coordinator init writes it)"
        )
    return read_settings(path, CoordinatorSettings)


def with_settings(command: Command) -> Command:
    """Give a command `--config`; it receives the settings as `settings`."""
    option = click.option(
        "--config",
        "settings",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="COORDINATOR_CONFIG",
        default="coordinator.toml",
        show_default=True,
        show_envvar=True,
        callback=_read,
        help="Settings file that `coordinator init` wrote.",
    )
    return option(command)


def with_json(command: Command) -> Command:
    """Give a command `--json`; it receives it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


@contextmanager
def opened(settings: CoordinatorSettings, *, copy: bool = False) -> Iterator[Store]:
    """The store of these settings, a copy too if wanted, closed at the end. The server need not run."""
    store = open_store(settings, copy=copy)
    try:
        yield store
    finally:
        store.close()


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns of text, each as wide as its longest cell; the last one as it comes."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header) - 1)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=True)]
        click.echo("  ".join([*cells, line[-1]]).rstrip())
