"""Where a learner keeps pinned roots and fetched releases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def default_home(environment: Mapping[str, str]) -> Path:
    """The client's folder unless told otherwise: ``$XDG_DATA_HOME/dprelease``, else ``~/.local/share/dprelease``."""
    data = environment.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "dprelease"
