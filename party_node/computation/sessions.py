"""Joint moments at a hospital: from an approved release to its block, in as many looks as it takes.

A session is a row of resumable steps: each call does what can be done now, or says for whom we wait. `dprelease.mpc.session` orders
the steps; here are the disk on which they are kept, the relay between hospitals, and the matrix that is multiplied
(docs/protocol.md, steps 1 to 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from dprelease.arrays import Codes, PieceMap, one_by_one, pieces
from dprelease.data.bounding import BoundedRows
from dprelease.identity.certificates import read_identity
from dprelease.identity.signing import PrivateKey
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.exchange import SessionEnvironment
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.mpc.proof.claim import Bits, Claim
from dprelease.mpc.schedule import DealtSeeds
from dprelease.mpc.session import Products, Session
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.approval import SignedApproval
from dprelease.release.block import Block, SealedBlock
from dprelease.release.spec import ReleaseSpec
from party_node.cluster.engine import engine
from party_node.computation.once import require
from party_node.computation.rounds import NOTHING, RoundsBefore
from party_node.computation.work import put_back, take_turns
from party_node.hospital import HospitalState
from party_node.outgoing.hub import HubConnection
from party_node.outgoing.office import Coordinator
from party_node.outgoing.relay import RelayCalls
from party_node.state.journal import Record
from party_node.state.session import SHORT_BODY, SessionFolder, UsedSeeds

_SMALL_BYTES = 1 << 18

WORTH_SENDING = 100
"""Columns of ours from which on a cluster multiplies. With fewer, sending a chunk costs what its product does or more
(docs/benchmarks.md, "A cluster")."""


@dataclass
class Remembered:
    """Memory of this process about one release.

    Attributes:
        relay: calls to it, which know what it has listed.
        checked: those whose signatures were checked.
        seeds: those that we dealt, for as long as proofs need them: never on a disk.
        mapped: our matrix and its bits, in files without a name.
        bodies: small ones of messages for us: each look needs those of all steps before, and each call to the hub counts.
    """

    relay: RelayCalls | None = None
    checked: set[Message] = field(default_factory=set)
    seeds: DealtSeeds = field(default_factory=DealtSeeds)
    mapped: dict[str, Codes] = field(default_factory=dict)
    bodies: dict[MessageHeader, bytes] = field(default_factory=dict)


class Computation:
    """A session of one release, at one party.

    Args:
        spec: whose mechanism has a session.
        party: our name.
        identity: our identity key.
        approvals: every party's, checked under the pins; the keys that signed them sign the messages.
        folder: the session's.
        seeds: those that have served before.
        relay: the hub's.
        coordinator: asked for its deal, and its answers about proofs; only where it deals.
        bounded: gives our rows, the ones that were approved.
        charge: called before the first masked column leaves: no charge, no bytes.
        before: the rounds before; every transcript covers their blocks, so that all hospitals mean the same.
        seen: what this process remembers of earlier looks at this release.
        run: makes the products of pieces.
    """

    def __init__(
        self,
        spec: ReleaseSpec,
        party: str,
        identity: PrivateKey,
        approvals: tuple[SignedApproval, ...],
        folder: SessionFolder,
        seeds: UsedSeeds,
        relay: RelayCalls,
        coordinator: Coordinator,
        bounded: Callable[[], BoundedRows],
        charge: Callable[[], None],
        before: RoundsBefore = NOTHING,
        seen: Remembered | None = None,
        run: PieceMap = one_by_one,
    ) -> None:
        seen = seen or Remembered()
        self._mapped, self._bodies = seen.mapped, seen.bodies
        self._spec = spec
        self._earlier = before.earlier
        self._party = party
        self._folder = folder
        self._relay = relay
        self._bounded = bounded
        schedule = spec.schedule()
        self._width = schedule.widths[party]
        by_party = {signed.approval.party: signed for signed in approvals}

        def answer(asked: Message, body: bytes) -> bytes:
            return coordinator.request_answer(asked, body, schedule.message_size("answer", asked.header.dealer))

        self.session = Session(
            schedule,
            party,
            identity,
            {name: read_identity(signed.certificate).key for name, signed in by_party.items()},
            [*(by_party[name].approval.commitment for name in schedule.parties), *before.digests],
            folder,
            SessionEnvironment(
                self._fetch, coordinator.request_deal, answer, seeds.use, charge, self._matrix, self._bits, run
            ),
            checked=seen.checked,
            seeds=seen.seeds,
        )

    def advance(self) -> str | Products:
        """Go as far as it goes.

        Returns:
            For whom we wait, in words; or what the session left.

        Raises:
            IntegrityError: a peer sent something that does not belong to this session; it is named.
            PeerUnavailable: the relay or the cluster is away, or the relay forgets what it takes; try again.
            DataRefused, Conflict: our rows are not those that were approved, or nothing is reserved for them.
        """
        return take_turns(self.session, self._folder, self._relay)

    def _fetch(self, header: MessageHeader) -> Iterator[bytes]:
        """The body of a message for us; a small one is fetched once by this process."""
        if header.size > _SMALL_BYTES:
            yield from self._relay.fetch(header)
            return
        if header not in self._bodies and header.size <= SHORT_BODY:
            self._bodies.update(self._relay.fetch_short(self._party, header, self._bodies))
        if header not in self._bodies:
            self._bodies[header] = b"".join(self._relay.fetch(header))
        yield self._bodies[header]

    def _matrix(self) -> Codes:
        def rows() -> Iterator[Codes]:
            mechanism = mechanism_of(self._spec)
            return (mechanism.matrix(piece, self._spec, self._earlier) for piece in self._bounded().pieces())

        return self._once("matrix", rows, self._width)

    def _bits(self, claim: Claim) -> Bits:
        def rows() -> Iterator[Codes]:
            return (claim.bits(piece).view(np.int32) for piece in pieces(self._matrix()))

        return self._once("bits", rows, claim.units()).view(np.uint32)

    def _once(self, name: str, rows: Callable[[], Iterator[Codes]], width: int) -> Codes:
        """Rows that are made at the first call of this process, and mapped from then on."""
        if name not in self._mapped:
            self._mapped[name] = self._folder.map_rows(rows(), width)
        return self._mapped[name]


class JointWork:
    """All sessions of one party."""

    def __init__(self, hospital: HospitalState, noise: NoiseSource, hub: HubConnection) -> None:
        self._hospital = hospital
        self._noise = noise
        self._hub = hub
        self._seeds = UsedSeeds(hospital.settings.state / "seeds.sqlite")
        self._seen: dict[str, Remembered] = {}

    def blocks(
        self,
        coordinator: Coordinator,
        record: Record,
        approvals: tuple[SignedApproval, ...],
        own: tuple[SealedBlock, ...] = (),
        before: RoundsBefore = NOTHING,
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
            PeerUnavailable: the relay or the cluster is away; try again.
            Conflict: nothing is reserved for the release.
        """
        hospital, spec, party = self._hospital, record.spec, self._hospital.settings.name
        # Both before any peer works for nothing: a column may have become public since, and a restored node has lost its rows.
        hospital.check_declarations(spec)
        if not hospital.frozen(record.digest).exists():
            hospital.approved(record)
        with self._engine(spec) as run:
            done = Computation(
                spec,
                party,
                hospital.identity.key(),
                approvals,
                hospital.session(record),
                self._seeds,
                self._relay(record),
                coordinator,
                lambda: hospital.approved(record),
                lambda: self._charge(record, own),
                before,
                self._seen_of(record),
                run,
            ).advance()
            if isinstance(done, str):
                return done
            bounded = hospital.approved(record)
            require(hospital, record.digest, "send", before=own)
            kept = hospital.streams.keep(record, party, bounded, done)
            return privatize(bounded, spec, party, self._noise, done, before.earlier, kept, run)

    def _engine(self, spec: ReleaseSpec) -> AbstractContextManager[PieceMap]:
        """The engine that multiplies: few columns stay here, and so do the secrets of their session."""
        settings = self._hospital.settings
        columns = len(spec.part(settings.name).released)
        return engine(settings) if columns >= WORTH_SENDING else nullcontext(one_by_one)

    def keep_up(self, record: Record) -> None:
        """Our block is made: put back what the relay has lost of our session, if there is one.

        Raises:
            PeerUnavailable: the relay is away; try again.
        """
        if record.spec.joint:
            put_back(record, self._hospital.session(record), self._relay(record))

    def end(self, record: Record) -> None:
        """The release is over: keep nothing of its messages."""
        self._seen.pop(record.digest, None)

    def _seen_of(self, record: Record) -> Remembered:
        return self._seen.setdefault(record.digest, Remembered())

    def _relay(self, record: Record) -> RelayCalls:
        seen, over = self._seen_of(record), (self._hub.channel(), self._hospital.settings.daemon.stall_seconds)
        if seen.relay is None or (seen.relay.channel, seen.relay.stall_seconds) != over:
            seen.relay = RelayCalls(over[0], record.digest, over[1])
        return seen.relay

    def _charge(self, record: Record, own: tuple[SealedBlock, ...]) -> None:
        """Before the first masked column leaves. From here on nothing is refunded: these are bytes of ours."""
        require(self._hospital, record.digest, "reserve", "charge", "send", before=own)
        self._hospital.ledger.charge(self._hospital.settings.roster, record.digest)
        self._hospital.ledger.send(self._hospital.settings.roster, record.digest)
