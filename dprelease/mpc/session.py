"""One party's side of a session as a state machine: messages in, messages out, until it holds its shares of the products.

    our session key -> what we deal, what is dealt to us -> charge, masked columns -> transcript (-> proofs) -> products

Nothing here reads a disk or calls anybody. A `SessionStorage` keeps what must survive a restart, a `SessionEnvironment` does
what needs somebody else: whoever drives the session hands both in, lists messages to it and sends what it gives.
Nothing is remembered between steps but what is in the storage and what follows from it: a restart goes on at the first step that
is not done. A round may be abandoned for the next until the driver has used the shares; it then asks for no further step
(docs/protocol.md, "One block, ever").

Source: docs/protocol.md, steps 2 to 6.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dprelease.arrays import Codes
from dprelease.errors import Conflict, PeerUnavailable, ProofRefused
from dprelease.identity.signing import PrivateKey, PublicKey
from dprelease.mpc.correlated_randomness import CorrelatedRandomness, DealtSeeds
from dprelease.mpc.encryption import Draw
from dprelease.mpc.exchange import Exchange, SessionEnvironment
from dprelease.mpc.messages import Kind, Message, check_message
from dprelease.mpc.proofs import Proofs
from dprelease.mpc.ring import Words
from dprelease.mpc.round import Participant, Round, session_key
from dprelease.mpc.schedule import COORDINATOR, Pair, Schedule
from dprelease.mpc.storage import SessionState, SessionStorage

MOST_REFUSED = 3
"""Rounds that end because a proof towards us failed; after the last one people decide."""

MOST_FORGOTTEN = 8
"""From this round on a dealer that holds nothing any more ends the session: one restart is no reason, so many are."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Products:
    """Result that a finished session leaves.

    Attributes:
        matrix: what was multiplied, ours.
        shares: our share of the product of each of our pairs.
        masks: the seed that we share with each peer, by which masks on sums of shares cancel.
    """

    matrix: Codes
    shares: Mapping[Pair, Words]
    masks: Mapping[str, bytes]


class Session(Participant[Schedule]):
    """A session at one party.

    Args:
        schedule, party, identity, keys, storage, draw, checked: as of `Participant`.
        commitments: what each party has said about its matrix, in the parties' order; part of the transcript.
        outside: what it needs of others.
        seeds: those that we dealt, in the memory of this process: the same at every step, gone after a restart.
    """

    final = frozenset[Kind](("transcript", "checked"))
    lost = "our state is older than what we have sent: a block may exist already, and no other is made"
    _storage: SessionStorage

    def __init__(
        self,
        schedule: Schedule,
        party: str,
        identity: PrivateKey,
        keys: Mapping[str, PublicKey],
        commitments: Sequence[str],
        storage: SessionStorage,
        outside: SessionEnvironment,
        draw: Draw = secrets.token_bytes,
        checked: set[Message] | None = None,
        seeds: DealtSeeds | None = None,
    ) -> None:
        super().__init__(schedule, party, identity, keys, storage, draw, checked)
        self._commitments, self._outside = commitments, outside
        self._seeds = DealtSeeds() if seeds is None else seeds
        self._masks: tuple[str, Mapping[str, bytes]] = "", {}  # of a session
        self._opened: dict[str, CorrelatedRandomness] = {}  # in that session, by dealer

    def receive(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """Check all messages that are listed, of all rounds and parties, and join their latest round.

        Returns:
            Our messages that may be sent now; those that are listed already need not be sent again.

        Raises:
            IntegrityError: a message does not belong to this session; its sender is named. Or our state is older than what
                we have sent.
        """
        for message in listed if listed is not self._listed else ():
            if message not in self._checked:
                check_message(message, self._schedule, self._keys)
                self._checked.add(message)
        return self._join(listed)

    def advance(self) -> str | Products | None:
        """Do the first step that is not done; call it when all that `receive` gave is listed.

        Returns:
            None if a step was done: there is more to send. For whom we wait, in words. Or what the session leaves.

        Raises:
            IntegrityError: a peer sent something that does not belong to this session; it is named.
            PeerUnavailable: a body cannot be fetched now; try again.
        """
        assert self._at is not None  # noqa: S101 - `receive` comes first
        state, at = self._at
        if at.find("hello", self._party) is None:
            self._storage.freeze([self._hello(state)])
            return None
        if missing := at.missing("hello"):
            again = f", round {at.number}; if one of them has made its block, the release cannot be completed"
            return f"waits for {_names(missing)} to join the computation{again if at.number > 1 else ''}"
        exchange = Exchange(
            at, self._party, self._identity, session_key(state), self._storage, self._outside, self._draw
        )
        if self._masks[0] != at.session:  # here, so that a key that is none is found before anything is sealed to it
            self._masks, self._opened = (at.session, exchange.shared_masks()), {}
        masks = self._masks[1]
        if self._schedule.dealt_by(self._party) and not self._frozen("deal"):
            exchange.deal(self._seeds)
            return None
        dealt: dict[str, CorrelatedRandomness] = {}
        for dealer in self._schedule.dealers_of(self._party):
            opened = self._dealt(exchange, at, dealer)
            if opened is None:
                return f"waits for what {dealer or 'the coordinator'} deals"
            dealt[dealer] = opened
        if todo := [each for dealer, each in dealt.items() if not self._frozen("columns", dealer)]:
            matrix = self._outside.matrix()
            self._outside.charge()
            for each in todo:
                exchange.mask(matrix, each)
            return None
        if missing := at.missing_columns():
            return f"waits for the masked columns of {_names(missing)}"
        transcript = at.transcript(self._commitments)
        at.check_transcripts(transcript)
        if at.find("transcript", self._party) is None:
            self._storage.freeze([at.message(self._identity, self._party, "transcript", payload=transcript)])
            return None
        if missing := at.missing("transcript"):
            return f"waits for {_names(missing)} to confirm what it has seen"
        if not self._schedule.claims:
            return self._products(lambda pair: exchange.share(pair, self._outside.matrix(), dealt[pair.dealer]), masks)
        proofs = Proofs(exchange, transcript, dealt, self._seeds, masks)
        try:
            waits = proofs.advance()
        except ProofRefused as error:
            self._refused(state, error)
            return None
        except Conflict as error:
            self._forgotten(state, error)
            return None
        if waits != "":
            return waits and f"waits for {waits}"
        return self._products(proofs.share, masks)

    def _refused(self, state: SessionState, error: ProofRefused) -> None:
        """Begin the next round, with everything dealt anew.

        Raises:
            ProofRefused: it is the last that we try.
        """
        refused = state.refused + 1
        if refused == MOST_REFUSED:
            raise ProofRefused(
                f"{error.message} in {refused} rounds. Nobody can tell whose software is at fault; docs/faults.md says what to do"
            ) from error
        _log.warning("release %s: %s; the next round begins", self._schedule.task[:12], error.message)
        self._begin(state.round + 1, refused)

    def _forgotten(self, state: SessionState, error: Conflict) -> None:
        """Begin the next round, as a dealer holds nothing of this one.

        Raises:
            ProofRefused: too many rounds were begun.
        """
        if state.round >= MOST_FORGOTTEN:
            raise ProofRefused(
                f"{error.message}, in round {state.round}: bounds cannot be proved. Find out why the dealer restarts, or says so, "
                "and propose the release anew"
            ) from error
        _log.warning("release %s: %s; the next round begins", self._schedule.task[:12], error.message)
        self._begin(state.round + 1, state.refused)

    def _dealt(self, exchange: Exchange, at: Round[Schedule], dealer: str) -> CorrelatedRandomness | None:
        """Randomness that a dealer dealt to us; the first time its seeds are noted as used, and it is kept as it came."""
        if dealer in self._opened:
            return self._opened[dealer]
        sealed = self._storage.dealt(dealer)
        if sealed is not None:
            self._opened[dealer] = exchange.open_deal(dealer, sealed)
            return self._opened[dealer]
        if dealer == COORDINATOR:
            hellos = {each.header.sender: each.to_bytes() for each in self._listed or () if each.header in at.hellos}
            try:
                sealed = self._outside.request_deal([hellos[party] for party in self._schedule.parties])
            except PeerUnavailable:
                return None
        else:
            sealed = exchange.fetch_deal(dealer)
        if sealed is None:
            return None
        opened = exchange.open_deal(dealer, sealed)
        self._outside.use_seeds(opened.digests, at.session, dealer)
        self._storage.keep_dealt(dealer, sealed)
        self._opened[dealer] = opened
        return opened

    def _products(self, share: Callable[[Pair], Words], masks: Mapping[str, bytes]) -> Products:
        shares = {pair: share(pair) for pair in self._schedule.pairs if pair.has(self._party)}
        _log.info("release %s: multiplied with %s", self._schedule.task[:12], _names(tuple(masks)))
        return Products(self._outside.matrix(), shares, masks)


def _names(parties: tuple[str, ...]) -> str:
    return ", ".join(parties)
