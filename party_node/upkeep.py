"""Upkeep of the daemon at every round: its certificate, what the office knows of the table, the settings file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from dprelease.errors import DpReleaseError, InvalidInput, PeerUnavailable
from dprelease.files.settings import read_settings
from dprelease.identity.certificates import renewal_due
from dprelease.one_line import listed, one_line
from party_node.hospital import HospitalState
from party_node.identity import KeyFolder
from party_node.outgoing.office import Coordinator
from party_node.settings import PartySettings
from party_node.source.public_columns import public_declarations, with_public
from party_node.source.reader import Stamp, stamp

log = logging.getLogger(__name__)


class Renewal:
    """Looks after our certificate."""

    def __init__(self, identity: KeyFolder) -> None:
        self._identity = identity
        self._told = ""

    def refresh(self, coordinator: Coordinator) -> None:
        """Ask for a new certificate if little is left of the present one's life; it is used from the next dial on.

        A coordinator that gives none, or a disk that takes none, holds up nothing: the present one is good until it ends.

        Raises:
            PeerUnavailable: the coordinator is away.
        """
        enrolment = self._identity.enrolment()
        if not renewal_due(enrolment.certificate, datetime.now(UTC)):
            return
        try:
            renewed = self._identity.keep_certificate(coordinator.renew(self._identity.signing_request()))
        except DpReleaseError as error:
            if isinstance(error, PeerUnavailable) and error.peer:
                raise
            if error.message != self._told:
                log.error(
                    "the certificate was not renewed: %s; should it end, ask the consortium's office for a new invite: "
                    "party-node enrol TOKEN",
                    one_line(error.message),
                )
            self._told = error.message
        else:
            self._told = ""
            log.info("the certificate was renewed until %s", f"{renewed:%Y-%m-%d %H:%M} UTC")


_SOON_SECONDS = 60.0
"""How long rows that did not change, as far as anybody sees, are left alone after they could not be read."""


class TableReport:
    """Reports the table."""

    def __init__(self, hospital: HospitalState, clock: Callable[[], float] = time.monotonic) -> None:
        self._hospital = hospital
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Report it next time in any case."""
        self._seen: tuple[Stamp, frozenset[str], str] | None = None
        self._due = 0.0

    def refresh(self, coordinator: Coordinator) -> None:
        """Report the table if it, its patients or public columns changed. One that cannot be used or taken holds up nothing."""
        source = self._hospital.settings.source
        try:
            version = self._hospital.journal.in_force(self._hospital.settings.roster)
            seen = (stamp(source), frozenset(self._hospital.public()), "" if version is None else version.digest)
            if seen == self._seen and self._clock() < self._due:
                return
            self._seen, self._due = seen, self._clock() + min(source.refresh_seconds, _SOON_SECONDS)
            catalogue = self._hospital.make_catalogue()
        except (OSError, DpReleaseError) as error:
            log.error("the table was not reported: %s", error)
            return
        try:
            coordinator.report(catalogue)
        except PeerUnavailable:
            self._seen = None
            raise
        except DpReleaseError as error:
            log.error("the table was not reported: %s", error)
            return
        log.info("the table was reported: %s rows, %d columns", f"{catalogue.rows:,}", len(catalogue.columns))
        self._seen, self._due = seen, self._clock() + source.refresh_seconds if source.refreshed else inf


FIXED = ("name", "roster", "state")
"""Keys that stay as they were at a node's start: what it is, and where its books are."""


class ChangedSettings:
    """Looks after the settings file.

    Args:
        hospital: the party's state, whose settings it replaces.
        config: the file; None where settings come from nowhere else.
    """

    def __init__(self, hospital: HospitalState, config: Path | None) -> None:
        self._hospital = hospital
        self._config = config
        self._in_force: bytes | None = None  # until the first look: the file may have changed since it was read
        self._told = ""

    def refresh(self) -> bool:
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
        if changed == self._hospital.settings:
            return False
        log.info("%s was changed and is in force: %s", self._config, differences(self._hospital.settings, changed))
        self._hospital.settings = changed
        return True

    def _read(self, config: Path) -> PartySettings:
        """The file's settings.

        Raises:
            InvalidInput: it cannot be used, or not by a node that runs.
            DataRefused: as `with_public`.
        """
        before, changed = self._hospital.settings, read_settings(config, PartySettings)
        fixed = [key for key in FIXED if getattr(before, key) != getattr(changed, key)]
        if fixed:
            raise InvalidInput(
                f"{config}: {listed(fixed)} cannot change while the node runs; stop it and start it again"
            )
        with_public(changed, public_declarations(self._hospital.ledger, changed.roster))
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
