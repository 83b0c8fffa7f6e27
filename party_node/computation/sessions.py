"""Joint moments at the desk: from an approved release to this hospital's block, in as many looks as it takes."""

from __future__ import annotations

import logging

from dprelease.errors import Conflict
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.approval import SignedApproval
from dprelease.release.block import Block, SealedBlock
from party_node.computation.once import require
from party_node.computation.rounds import NOTHING, Before
from party_node.computation.steps import Computation
from party_node.hospital import HospitalState
from party_node.outgoing.calls import Coordinator
from party_node.outgoing.line import HubLine
from party_node.outgoing.relay import Relay
from party_node.state.journal import Record
from party_node.state.used_seeds import UsedSeeds

log = logging.getLogger(__name__)


class JointWork:
    """All sessions of one party.

    Args:
        desk: the party's state.
        noise: secret noise; `SecureNoise` outside tests.
        hub: the connection to its relay.
    """

    def __init__(self, desk: HospitalState, noise: NoiseSource, hub: HubLine) -> None:
        self._desk = desk
        self._noise = noise
        self._hub = hub
        self._seeds = UsedSeeds(desk.settings.state / "seeds.sqlite")

    def blocks(
        self,
        coordinator: Coordinator,
        record: Record,
        approvals: tuple[SignedApproval, ...],
        own: tuple[SealedBlock, ...] = (),
        before: Before = NOTHING,
    ) -> tuple[Block, ...] | str:
        """Our blocks of the last round, or for whom we wait.

        Args:
            coordinator: asked for its deal, where it deals.
            record: the release, which everybody has approved and whose block of this round is not in the vault.
            approvals: every party's, checked under the pins.
            own: our sealed blocks of the rounds before.
            before: every party's.

        Raises:
            DataRefused: our rows are not those that were approved, or a column of them became public since.
            IntegrityError: a peer sent something that does not belong to this session; it is named.
            PeerUnavailable: the relay is away; try again.
            Conflict: nothing is reserved for the release.
        """
        desk, spec, party = self._desk, record.spec, self._desk.settings.name
        # Both before any peer works for nothing: a column may have become public since, and a restored node has lost its rows.
        desk.check_declarations(spec)
        if not desk.frozen(record.digest).exists():
            desk.approved(record)
        done = Computation(
            spec,
            party,
            desk.identity.key(),
            approvals,
            desk.session(record),
            self._seeds,
            self._relay(record),
            coordinator.request_deal,
            lambda: desk.approved(record),
            lambda: self._charge(record, own),
            before,
        ).advance()
        if isinstance(done, str):
            return done
        require(desk, record.digest, "send", before=own)
        kept = desk.streams.keep(record, party, done.bounded, done.products)
        return privatize(done.bounded, spec, party, self._noise, done.products, before.values, kept)

    def keep_up(self, record: Record) -> None:
        """Our block is made: put back what the relay has lost of our session, if there is one, for peers that are not as far.

        Raises:
            PeerUnavailable: the relay is away; try again.
        """
        if mechanism_of(record.spec).schedule(record.spec) is not None:
            try:
                relay = self._relay(record)
                if relay.put(self._desk.session(record).outgoing(), relay.messages()):
                    log.info("%s: the relay had lost messages of ours; they are there again", record.name)
            except Conflict as error:
                # Published by now, or the offers of others are not back yet: nothing to mend here, and nothing happened.
                log.debug("%s: the relay takes no messages: %s", record.name, error.message)

    def _relay(self, record: Record) -> Relay:
        return Relay(self._hub.channel(), record.digest, self._desk.settings.daemon.stall_seconds)

    def _charge(self, record: Record, own: tuple[SealedBlock, ...]) -> None:
        """Before the first masked column leaves. From here on nothing is refunded: these are bytes of ours."""
        require(self._desk, record.digest, "reserve", "charge", "send", before=own)
        self._desk.ledger.charge(self._desk.settings.roster, record.digest)
        self._desk.ledger.send(self._desk.settings.roster, record.digest)
