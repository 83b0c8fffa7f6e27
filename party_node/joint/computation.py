"""One release's session, taken as far as it goes: each look does the first step that is not done, or says for whom we wait.

    all approvals checked (1) -> our session key (2) -> what we deal, what is dealt to us (3) -> charge, masked columns (4)
      -> transcript (5) -> products with every peer (6) -> noise (7) and masks (8) -> our block, frozen in the vault

The numbers are the steps of joint_moments.md. This module orders 2 to 6, `exchange` does what touches secrets, `work` has
1, 7 and 8, the daemon and the hub the rest (9, 10).
Nothing is remembered between looks but what is on disk: a restart goes on at the first step that is not done. Until our
block exists a round may be abandoned for the next; once it exists nothing is computed here any more (joint_moments.md,
step 8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.approval import SignedApproval
from dprelease.bounding import BoundedRows
from dprelease.certificates import read_identity
from dprelease.errors import IntegrityError, PeerUnavailable
from dprelease.moments.basis import basis_of, coded
from dprelease.moments.products import schedule_of
from dprelease.mpc.correlated_randomness import Dealt
from dprelease.mpc.encryption import public_bytes
from dprelease.mpc.messages import MOST_ROUNDS, Parcel, ParcelHeader, check_parcel, sign_parcel
from dprelease.mpc.ring import Words
from dprelease.mpc.round import Round, latest_round
from dprelease.mpc.schedule import COORDINATOR, Pair
from dprelease.signing import PrivateKey
from dprelease.spec import ReleaseSpec
from party_node.joint.exchange import Codes, Exchange
from party_node.joint.folder import Outgoing, SessionFolder, SessionState
from party_node.joint.relay import Relay
from party_node.joint.used_seeds import UsedSeeds

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Finished:
    """What a finished session leaves for the block.

    Attributes:
        bounded: our rows.
        halves: our half of the product of each of our pairs.
        masks: the seed that we share with each peer.
    """

    bounded: BoundedRows
    halves: Mapping[Pair, Words]
    masks: Mapping[str, bytes]


class Computation:
    """A session of one release, at one party.

    Args:
        spec: of mechanism ``moments``, with at least two parties.
        party: our name.
        identity: our identity key.
        approvals: every party's, checked under the pins; the keys that signed them sign the parcels.
        folder: the session's.
        seeds: those that have served before.
        relay: the hub's.
        request_deal: asks the coordinator for its deal, given the signed offers; used only where it deals.
        bounded: gives our rows, the ones that were approved.
        charge: called before the first masked column leaves: no charge, no bytes.
    """

    def __init__(
        self,
        spec: ReleaseSpec,
        party: str,
        identity: PrivateKey,
        approvals: tuple[SignedApproval, ...],
        folder: SessionFolder,
        seeds: UsedSeeds,
        relay: Relay,
        request_deal: Callable[[list[bytes]], bytes],
        bounded: Callable[[], BoundedRows],
        charge: Callable[[], None],
    ) -> None:
        self._schedule = schedule_of(spec)
        self._party = party
        self._identity = identity
        by_party = {signed.approval.party: signed for signed in approvals}
        self._keys = {name: read_identity(signed.certificate).key for name, signed in by_party.items()}
        self._commitments = [by_party[name].approval.commitment for name in self._schedule.parties]
        self._folder = folder
        self._seeds = seeds
        self._relay = relay
        self._request_deal = request_deal
        self._bounded = bounded
        self._charge = charge

    def advance(self) -> str | Finished:
        """Go as far as it goes.

        Returns:
            For whom we wait, in words; or what the block is made of.

        Raises:
            IntegrityError: a peer sent something that does not belong to this session; it is named.
            PeerUnavailable: the relay is away, or forgets what it takes; try again.
            DataRefused, Conflict: our rows are not those that were approved, or nothing is reserved for them.
        """
        put = False
        while True:
            parcels = self._parcels()
            state = self._state(parcels)
            at = Round.of(self._schedule, state.round, parcels)
            # A relay that has lost everything takes nothing of a session before all offers are back.
            offers_first = [
                each for each in self._folder.outgoing() if at.session or each.parcel.header.kind == "offer"
            ]
            before, put = put, self._relay.put(offers_first, parcels)
            if before and put:
                raise PeerUnavailable("the hub's relay does not list parcels that it has just taken; try again")
            if not put:
                done = self._next(state, at, parcels)
                if done is not None:
                    return done

    def _parcels(self) -> tuple[Parcel, ...]:
        found = self._relay.parcels()
        for parcel in found:
            check_parcel(parcel, self._schedule, self._keys)
        return found

    def _state(self, parcels: tuple[Parcel, ...]) -> SessionState:
        """Our session: the one on disk, unless others have begun a later round, or ours is not the one they know."""
        state = self._folder.state()
        since = state.round if state is not None else 1
        unknown = self._unknown(parcels)
        if any(header.kind == "transcript" and header.round >= since for header in unknown):
            raise IntegrityError(
                "our state is older than what we have sent: a block may exist already, and no other is made"
            )
        number = max(latest_round(parcels), since)
        estranged = any((header.kind, header.round) == ("offer", number) for header in unknown)
        if state is not None and state.round == number and not estranged:
            return state
        number += estranged  # an offer of ours is there whose key we no longer hold
        if number > MOST_ROUNDS:
            raise IntegrityError(
                f"the session was begun {MOST_ROUNDS} times without an end; tell the consortium's office"
            )
        log.info("release %s: joins round %d of the computation", self._schedule.task[:12], number)
        return self._folder.begin(number)

    def _unknown(self, parcels: tuple[Parcel, ...]) -> list[ParcelHeader]:
        """Parcels of ours that the relay lists and our disk does not know."""
        known = {each.parcel.header.digest() for each in self._folder.outgoing()}
        ours = [parcel.header for parcel in parcels if parcel.header.sender == self._party]
        return [header for header in ours if header.digest() not in known]

    def _next(self, state: SessionState, at: Round, parcels: tuple[Parcel, ...]) -> str | Finished | None:
        """The first step that is not done; None when it was done and the relay wants another look."""
        if at.find("offer", self._party) is None:
            self._offer(state)
            return None
        if missing := at.missing("offer"):
            again = f", round {at.number}; if one of them has made its block, the release cannot be completed"
            return f"waits for {_names(missing)} to join the computation{again if at.number > 1 else ''}"
        exchange = Exchange(at, self._party, self._identity, _session_key(state), self._folder, self._relay)
        masks = exchange.shared_masks()  # here, so that a key that is none is found before anything is sealed to it
        if self._schedule.dealt_by(self._party) and not self._frozen("deal"):
            exchange.deal()
            return None
        dealt: dict[str, Dealt] = {}
        for dealer in self._schedule.dealers_of(self._party):
            opened = self._dealt(exchange, at, dealer, parcels)
            if opened is None:
                return f"waits for what {dealer or 'the coordinator'} deals"
            dealt[dealer] = opened
        if todo := [each for dealer, each in dealt.items() if not self._frozen("columns", dealer)]:
            variables = self._variables()
            self._charge()
            for each in todo:
                exchange.mask(variables, each)
            return None
        if missing := at.missing_columns():
            return f"waits for the masked columns of {_names(missing)}"
        transcript = at.transcript(self._commitments)
        at.check_transcripts(transcript)
        if at.find("transcript", self._party) is None:
            self._folder.freeze([exchange.parcel("transcript", statement=transcript)])
            return None
        if missing := at.missing("transcript"):
            return f"waits for {_names(missing)} to confirm what it has seen"
        return self._multiply(exchange, dealt, masks)

    def _offer(self, state: SessionState) -> None:
        header = ParcelHeader(
            spec=self._schedule.task,
            round=state.round,
            kind="offer",
            sender=self._party,
            statement=public_bytes(_session_key(state)).hex(),
        )
        self._folder.freeze([sign_parcel(self._identity, header)])

    def _dealt(self, exchange: Exchange, at: Round, dealer: str, parcels: tuple[Parcel, ...]) -> Dealt | None:
        """What a dealer dealt to us; the first time its seeds are noted as used, and it is kept as it came."""
        sealed = self._folder.dealt(dealer)
        if sealed is not None:
            return exchange.open_deal(dealer, sealed)
        if dealer == COORDINATOR:
            offers = {p.header.sender: p.to_bytes() for p in parcels if p.header in at.offers}
            try:
                sealed = self._request_deal([offers[party] for party in self._schedule.parties])
            except PeerUnavailable:
                return None
        else:
            sealed = exchange.fetch_deal(dealer)
        if sealed is None:
            return None
        opened = exchange.open_deal(dealer, sealed)
        self._seeds.use(opened.digests, at.session, dealer)
        self._folder.keep_dealt(dealer, sealed)
        return opened

    def _multiply(self, exchange: Exchange, dealt: Mapping[str, Dealt], masks: Mapping[str, bytes]) -> Finished:
        variables, halves = self._variables(), {}
        for pair in self._schedule.pairs:
            if pair.has(self._party):
                halves[pair] = exchange.half(pair, variables, dealt[pair.dealer])
                log.info("release %s: multiplied with %s", self._schedule.task[:12], pair.other(self._party))
        return Finished(self._bounded(), variables, halves, masks)

    def _variables(self) -> Codes:
        bounded, spec, basis = self._bounded(), self._schedule.spec, self._folder.basis()
        if spec.basis_owner == self._party and basis is None:
            basis = basis_of(bounded, spec)
            self._folder.keep_basis(basis)
        return coded(bounded, spec, self._party, basis)

    def _frozen(self, kind: str, topic: str = "") -> bool:
        ours: tuple[Outgoing, ...] = self._folder.outgoing()
        return any((each.parcel.header.kind, each.parcel.header.topic) == (kind, topic) for each in ours)


def _session_key(state: SessionState) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(state.key))


def _names(parties: tuple[str, ...]) -> str:
    return ", ".join(parties)
