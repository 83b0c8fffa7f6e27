"""What the office knows of our table: columns, rows and the digest of their order, told again whenever the table changes."""

from __future__ import annotations

import logging

from dprelease.errors import DpReleaseError, PeerUnavailable
from party_node.hospital import HospitalState
from party_node.outgoing.calls import Coordinator

log = logging.getLogger(__name__)


class TableReport:
    """Reports the table.

    Args:
        desk: the party's state.
    """

    def __init__(self, desk: HospitalState) -> None:
        self._desk = desk
        self._seen: tuple[int, int, frozenset[str], str | None] | None = None

    def forget(self) -> None:
        """Report it next time in any case."""
        self._seen = None

    def look(self, coordinator: Coordinator) -> None:
        """Report the table if it, its patients or public columns changed. One that cannot be used or taken holds up nothing."""
        try:
            found = self._desk.settings.source.path.stat()
            version = self._desk.runs.in_force()
            run = None if version is None else version.run
            seen = (found.st_mtime_ns, found.st_size, frozenset(self._desk.public()), run)
            if seen != self._seen:
                coordinator.report(self._desk.make_catalogue())
                self._seen = seen
        except PeerUnavailable:
            raise
        except (OSError, DpReleaseError) as error:
            log.error("the table was not reported: %s", error)
