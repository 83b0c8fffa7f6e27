"""One party's side of a session as a state machine: messages in, messages out, until it holds its shares of the products.

    our session key -> what we deal, what is dealt to us -> charge, masked columns -> transcript (-> proofs) -> products

A `SessionEnvironment` does what needs somebody else: whoever drives the session hands it in, lists messages to the session and
sends what it gives. A round may be abandoned for the next until the driver has used the shares; it then asks for no further
step (docs/protocol.md, "One block, ever").

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
from dprelease.mpc.encryption import Draw
from dprelease.mpc.exchange import Exchange, SessionEnvironment
from dprelease.mpc.messages import Kind, Message, check_message
from dprelease.mpc.proofs import Proofs
from dprelease.mpc.ring import Words
from dprelease.mpc.round import Participant, Round, names, session_key
from dprelease.mpc.schedule import COORDINATOR, CorrelatedRandomness, DealtSeeds, Pair, Schedule
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


class Session(Participant[Schedule, Products]):
    """A session at one party.

    Args:
        schedule, party, identity, keys, storage, draw, checked: as of `Participant`.
        commitments: what each party has said about its matrix, in the parties' order; part of the transcript.
        outside: what it needs of others.
        seeds: those that we dealt, in the memory of this process: the same at every step, gone after a restart.
    """

    final = frozenset[Kind](("transcript", "checked"))
    lost = "our state is older than what we have sent: a block may exist already, and no other is made"

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

    def _check(self, message: Message) -> None:
        check_message(message, self._schedule, self._keys)

    def _called(self, at: Round[Schedule]) -> str:
        again = f", round {at.number}; if one of them has made its block, the release cannot be completed"
        return f"the computation{again if at.number > 1 else ''}"

    def _proceed(self, state: SessionState, at: Round[Schedule]) -> str | Products | None:
        exchange = Exchange(
            at,
            self._party,
            self._identity,
            session_key(state),
            self._storage,
            self._outside.fetch,
            self._draw,
            self._outside,
        )
        if self._masks[0] != at.session:  # here, so that a key that is none is found before anything is sealed to it
            self._masks, self._opened = (at.session, exchange.shared_seeds("block-mask")), {}
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
            return f"waits for the masked columns of {names(missing)}"
        transcript = at.transcript(self._commitments)
        if (heard := self._confirm(at, transcript)) != "":
            return heard
        if not self._schedule.claims:
            return self._products(lambda pair: exchange.share(pair, self._outside.matrix(), dealt[pair.dealer]), masks)
        proofs = Proofs(exchange, transcript, dealt, self._seeds, masks)
        try:
            waits = proofs.advance()
        except (ProofRefused, Conflict) as error:
            self._begin_anew(state, error)
            return None
        if waits != "":
            return waits and f"waits for {waits}"
        return self._products(proofs.share, masks)

    def _begin_anew(self, state: SessionState, error: ProofRefused | Conflict) -> None:
        """Begin the next round, with everything dealt anew, as a proof failed or a dealer holds nothing of this one.

        Raises:
            ProofRefused: no further round is tried.
        """
        refused, end = state.refused + isinstance(error, ProofRefused), ""
        if refused == MOST_REFUSED:
            end = f" in {refused} rounds. Nobody can tell whose software is at fault; docs/faults.md says what to do"
        elif isinstance(error, Conflict) and state.round >= MOST_FORGOTTEN:
            end = (
                f", in round {state.round}: bounds cannot be proved. Find out why the dealer restarts, or says so, "
                "and propose the release anew"
            )
        if end:
            raise ProofRefused(f"{error.message}{end}") from error
        _log.warning("release %s: %s; the next round begins", self._schedule.task[:12], error.message)
        self._begin(state.round + 1, refused)

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
            header = at.find("deal", dealer, self._party)
            sealed = None if header is None else exchange.fetched(header)
        if sealed is None:
            return None
        opened = exchange.open_deal(dealer, sealed)
        self._outside.use_seeds(opened.digests, at.session, dealer)
        self._storage.keep_dealt(dealer, sealed)
        self._opened[dealer] = opened
        return opened

    def _products(self, share: Callable[[Pair], Words], masks: Mapping[str, bytes]) -> Products:
        shares = {pair: share(pair) for pair in self._schedule.pairs if pair.has(self._party)}
        _log.info("release %s: multiplied with %s", self._schedule.task[:12], names(masks))
        return Products(self._outside.matrix(), shares, masks)
