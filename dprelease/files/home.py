"""Folder in which a learner keeps pinned roots and fetched releases; the office looks there for releases it builds on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

RELEASES = "releases"
"""Folder of fetched releases, each in one named by its digest."""


def default_home(environment: Mapping[str, str]) -> Path:
    """The learner's folder: ``$LEARNER_HOME``, else ``$XDG_DATA_HOME/dprelease``, else ``~/.local/share/dprelease``."""
    chosen, data = environment.get("LEARNER_HOME"), environment.get("XDG_DATA_HOME")
    if chosen:
        return Path(chosen)
    return (Path(data) if data else Path.home() / ".local" / "share") / "dprelease"
