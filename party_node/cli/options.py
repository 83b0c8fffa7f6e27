"""Things that the hospital's commands share: the settings option, and the state that it opens."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dprelease.errors import InvalidInput
from dprelease.files.extras import require
from dprelease.files.settings import read_settings
from party_node.hospital import HospitalState
from party_node.settings import PartySettings

with_config = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="PARTY_NODE_CONFIG",
    default="party.toml",
    show_default=True,
    show_envvar=True,
    help="Settings file.",
)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--config`; it receives the settings as `settings`."""

    @with_config
    @wraps(command)
    def read(config: Path, **options: Any) -> None:
        command(settings=read_party(config), **options)

    return read


def with_hospital(command: Callable[..., None], needs: str | None = None) -> Callable[..., None]:
    """Give a command `--config`; it receives the hospital's state as `hospital`, opened when it runs.

    Args:
        command: of the hospital.
        needs: an optional package without which it does not begin.
    """

    @with_config
    @wraps(command)
    def opened(config: Path, **options: Any) -> None:
        if needs is not None:
            require(needs, "party")
        command(hospital=HospitalState(read_party(config)), **options)

    return opened


def read_party(config: Path) -> PartySettings:
    """The settings.

    Raises:
        InvalidInput: there is no such file, or see `read_settings`.
    """
    if not config.exists():
        raise InvalidInput(
            f"there is no {config}; give --config FILE after the command (party-node check --config FILE) or set "
            "PARTY_NODE_CONFIG; party-node declare makes a first one from a table, and a sample is deploy/party.toml"
        )
    return read_settings(config, PartySettings)
