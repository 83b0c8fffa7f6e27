"""Parts that the coordinator's commands share: the settings option and the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


@contextmanager
def opened(settings: CoordinatorSettings, *, copy: bool = False) -> Iterator[Store]:
    """The store of these settings, a copy too if wanted, closed at the end. The server need not run."""
    store = open_store(settings, copy=copy)
    try:
        yield store
    finally:
        store.close()
