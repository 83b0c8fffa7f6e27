"""A certificate that is renewed before it ends, over the same key: fingerprints that were pinned stay good."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from dprelease.errors import DpReleaseError, PeerUnavailable
from dprelease.identity.certificates import renewal_due
from dprelease.one_line import one_line
from party_node.identity import KeyFolder
from party_node.outgoing.calls import Coordinator

log = logging.getLogger(__name__)


class Renewal:
    """Looks after our certificate.

    Args:
        identity: keys and certificate in the state folder.
    """

    def __init__(self, identity: KeyFolder) -> None:
        self._identity = identity
        self._told = ""

    def look(self, coordinator: Coordinator) -> None:
        """Ask for a new certificate if little is left of the present one's life; it is used from the next dial on.

        A coordinator that does not give one holds up nothing: the present one is good until it ends.

        Raises:
            PeerUnavailable: the coordinator is away.
        """
        enrolment = self._identity.enrolment()
        if not renewal_due(enrolment.certificate, datetime.now(UTC)):
            return
        try:
            renewed = self._identity.keep_certificate(coordinator.renew(self._identity.signing_request()))
        except PeerUnavailable:
            raise
        except DpReleaseError as error:
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
