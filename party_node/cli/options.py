"""What the hospital's commands share: the settings option, and the state that it opens."""

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


def with_desk(command: Callable[..., None], needs: str | None = None) -> Callable[..., None]:
    """Give a command `--config`; it receives the hospital's state as `desk`, opened when it runs.

    Args:
        command: of the hospital.
        needs: an optional package without which it does not begin.
    """

    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="PARTY_NODE_CONFIG",
        default="party.toml",
        show_default=True,
        show_envvar=True,
        help="Settings file.",
    )
    @wraps(command)
    def opened(config: Path, **options: Any) -> None:
        if needs is not None:
            require(needs, "party")
        command(desk=_open(config), **options)

    return opened


def _open(config: Path) -> HospitalState:
    if not config.exists():
        raise InvalidInput(
            f"there is no {config}; give --config FILE after the command (party-node check --config FILE) or set "
            "PARTY_NODE_CONFIG; a sample is deploy/party.toml"
        )
    return HospitalState(read_settings(config, PartySettings))
