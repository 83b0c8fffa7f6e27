"""Facts that the office knows of our table: columns, rows and the digest of their order, told again whenever the table changes.

Files say that they changed. Rows in PostgreSQL do not: they are read again every `refresh_seconds`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from math import inf

from dprelease.errors import DpReleaseError, PeerUnavailable
from party_node.hospital import HospitalState
from party_node.outgoing.calls import Coordinator
from party_node.source.reader import Stamp, stamp

log = logging.getLogger(__name__)


_SOON_SECONDS = 60.0
"""How long rows that nobody sees changing are left alone after they could not be read."""


class TableReport:
    """Reports the table.

    Args:
        desk: the party's state.
        clock: seconds that only grow.
    """

    def __init__(self, desk: HospitalState, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk = desk
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Report it next time in any case."""
        self._seen: tuple[Stamp, frozenset[str], str] | None = None
        self._due = 0.0

    def look(self, coordinator: Coordinator) -> None:
        """Report the table if it, its patients or public columns changed. One that cannot be used or taken holds up nothing."""
        source = self._desk.settings.source
        try:
            version = self._desk.journal.in_force(self._desk.settings.roster)
            seen = (stamp(source), frozenset(self._desk.public()), "" if version is None else version.digest)
            if seen == self._seen and self._clock() < self._due:
                return
            if source.refreshed:
                self._seen, self._due = seen, self._clock() + min(source.refresh_seconds, _SOON_SECONDS)
            catalogue = self._desk.make_catalogue()
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
        log.info("the table was reported: %d rows, %d columns", catalogue.rows, len(catalogue.columns))
        self._seen, self._due = seen, self._clock() + source.refresh_seconds if source.refreshed else inf
