"""Changes of party.toml while the node runs: taken over where they can be used; else nothing changes, and the log says why."""

from __future__ import annotations

import logging
from pathlib import Path

from dprelease.errors import DpReleaseError, InvalidInput
from dprelease.files.settings import read_settings
from dprelease.one_line import listed, one_line
from party_node.hospital import HospitalState
from party_node.settings import PartySettings
from party_node.source.public_columns import public_declarations, with_public

log = logging.getLogger(__name__)

FIXED = ("name", "roster", "state")
"""Keys that stay as they were at a node's start: what it is, and where its books are."""


class ChangedSettings:
    """Looks after the settings file.

    Args:
        desk: the party's state, whose settings it replaces.
        config: the file; None where settings come from nowhere else.
    """

    def __init__(self, desk: HospitalState, config: Path | None) -> None:
        self._desk = desk
        self._config = config
        self._in_force: bytes | None = None  # until the first look: the file may have changed since it was read
        self._told = ""

    def look(self) -> bool:
        """Take over a file that changed and can be used; whether it did. Anything else is logged once, and nothing changes."""
        if self._config is None:
            return False
        try:
            data = self._config.read_bytes()
            if data == self._in_force:
                self._told = ""
                return False
            changed = self._read(self._config)
        except OSError as error:
            self._tell(f"{self._config} cannot be read: {error.strerror}")
            return False
        except DpReleaseError as error:
            self._tell(error.message)
            return False
        self._in_force, self._told = data, ""
        if changed == self._desk.settings:
            return False
        log.info("%s was changed and is in force: %s", self._config, differences(self._desk.settings, changed))
        self._desk.settings = changed
        return True

    def _read(self, config: Path) -> PartySettings:
        """The file's settings.

        Raises:
            InvalidInput: it cannot be used, or not by a node that runs.
            DataRefused: as `with_public`.
        """
        before, changed = self._desk.settings, read_settings(config, PartySettings)
        fixed = [key for key in FIXED if getattr(before, key) != getattr(changed, key)]
        if fixed:
            raise InvalidInput(
                f"{config}: {listed(fixed)} cannot change while the node runs; stop it and start it again"
            )
        with_public(changed, public_declarations(self._desk.ledger, changed.roster))
        return changed

    def _tell(self, words: str) -> None:
        if words != self._told:
            log.error("the settings of before stay in force, all of them: %s", one_line(words))
        self._told = words


def differences(before: PartySettings, after: PartySettings) -> str:
    """The changes by table and column, in words; no value of either."""
    others = [key for key in type(after).model_fields if key != "columns"]
    words = [key for key in others if getattr(before, key) != getattr(after, key)]
    columns = {
        "new": after.columns.keys() - before.columns.keys(),
        "changed": {name for name, keys in after.columns.items() if before.columns.get(name, keys) != keys},
        "gone": before.columns.keys() - after.columns.keys(),
    }
    words += [f"columns {what}: {listed(sorted(names))}" for what, names in columns.items() if names]
    return "; ".join(words) or "the order of columns"
