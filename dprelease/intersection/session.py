"""One party's side of an alignment run as a state machine: messages in, messages out, until it knows the common elements.

    our session key -> our elements, others' passed on -> our table -> transcript -> keys of the tables -> the same result at all

Nothing here reads a disk or calls anybody. A `RoundStorage` keeps what must survive a restart, a `RunEnvironment` does what needs
somebody else: whoever drives the session hands both in, lists messages to it and sends what it gives.
Nothing is remembered between steps but what is in the storage: a restart goes on at the first step that is not done. A round
may be abandoned for the next until we have sent the keys of our table: before that, nobody can open anything. Afterwards the run
can only be resumed, for a second round would test other elements against the same announced size.

**Ring.** Elements go around it: ours under a blinding, others' under one more secret, ours again without it.

**Tables.** They hold shares of zero: ours, masked and encrypted under a key that is held back, and what all of them open to.

Source: docs/protocol.md, "Aligning".
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from dprelease.errors import IntegrityError, Irreparable
from dprelease.identity.signing import PrivateKey, PublicKey
from dprelease.intersection import curve
from dprelease.intersection.exchange import AlignmentExchange, chunks, counts, distinct
from dprelease.intersection.key_value_store import Bytes, decode, encode, labels_of, rows_of
from dprelease.intersection.messages import check_message, transcript_digest
from dprelease.intersection.parallel import cores, mapped
from dprelease.intersection.ring import CHUNK_POINTS, CHUNK_WORDS, KEY_BYTES, POINT_BYTES, Ring
from dprelease.intersection.zero_sharing import LABEL_BYTES, shares
from dprelease.mpc import encryption
from dprelease.mpc.encryption import ColumnCipher, Draw, read_on, regroup
from dprelease.mpc.messages import Kind, Message, MessageHeader, message_name
from dprelease.mpc.ring import SecretStream, Words
from dprelease.mpc.round import Participant, Round, latest_round, session_key
from dprelease.mpc.schedule import TAG_BYTES, WORD_BYTES
from dprelease.mpc.storage import RoundStorage, write_hashed


class Tables(AlignmentExchange):
    """Tables of one session at one party, whose elements have been around."""

    def send_table(self) -> None:
        """Encode our shares of zero under our elements, mask the table, encrypt it, and freeze it; its key stays here."""
        key = self.secret("content-key")
        cipher = ColumnCipher(key, self.at.context("table", self.party))
        words = chunks(self.masked_table().astype("<u8", copy=False), CHUNK_WORDS)
        body = write_hashed(self.storage, message_name("table"), cipher.encrypted(words))
        others, commitment = self.ring.others(self.party), encryption.commitment(key)
        self.storage.freeze([self.at.message(self.identity, self.party, "table", others, "", commitment, body)])

    def send_keys(self) -> None:
        """Seal the key of our table to everybody, and freeze all of them together. From here on this is the last round."""
        messages = []
        for other in self.ring.others(self.party):
            context = self.at.context("table-key", self.party, other)
            body = encryption.seal(self.at.session_key(other), self.secret("content-key"), context, self.draw)
            self.storage.keep_body(message_name("key", "", other), body)
            said = len(body), hashlib.sha256(body).hexdigest()
            messages.append(self.at.message(self.identity, self.party, "key", (other,), "", "", said))
        self.storage.freeze(messages)

    def open_tables(self, elements: Bytes) -> str:
        """Add all tables up, look our elements up, and keep which of them everybody has, with the secret of the run.

        Args:
            elements: (n, 32), as they were sent.

        Returns:
            Keyed digest of the common elements, the same at all parties and uniform to everybody else.

        Raises:
            IntegrityError: a table or its key is not what its sender signed.
        """
        table, keys = self.masked_table(), {self.party: self.secret("content-key")}
        for other in self.ring.others(self.party):
            keys[other] = self._opened_key(other)
            start = 0
            for chunk in self._opened_table(other, keys[other]):
                table[start : start + len(chunk)] ^= chunk
                start += len(chunk)
        evaluations = self.evaluations()
        common = np.flatnonzero(decode(table, rows_of(evaluations, self.ring.segment)) == 0)
        del table
        positions = self.order(elements)[common]
        opened = bytes.fromhex(self.at.session) + b"".join(keys[party] for party in self.ring.parties)
        told = hashlib.sha256(b"dprelease/intersection/result/v1" + opened)
        labels, pairs = labels_of(evaluations), np.empty((len(common), POINT_BYTES + LABEL_BYTES), np.uint8)
        for start in range(0, len(pairs), CHUNK_WORDS):
            some = slice(start, start + CHUNK_WORDS)
            pairs[some, :POINT_BYTES], pairs[some, POINT_BYTES:] = elements[positions[some]], labels[common[some]]
        pairs.view(f"S{pairs.shape[1]}").sort(axis=0)  # as bytes
        told.update(pairs.data)
        self.storage.write_private("secret", [hashlib.sha256(b"dprelease/intersection/secret/v1" + opened).digest()])
        self.storage.write_private("common", [np.sort(positions).astype("<u8").tobytes()])
        return told.hexdigest()

    def masked_table(self) -> Words:
        """Our shares of zero under our elements, and the keystreams that we share with the others on top; made once."""
        kept = self.storage.read_private("table")
        if kept is not None:
            return np.frombuffer(kept, "<u8").astype(np.uint64)
        ring, evaluations = self.ring, self.evaluations()
        values = shares(self._shared("zero-share"), labels_of(evaluations))
        filler = SecretStream(self.secret("filler")).read_words(0, ring.cells, 1)[:, 0]
        table = encode(rows_of(evaluations, ring.segment), values, filler)
        for stream in map(SecretStream, self._shared("table-mask")):
            for start in range(0, ring.cells, CHUNK_WORDS):
                chunk = table[start : start + CHUNK_WORDS]
                chunk ^= stream.read_words(start, len(chunk), 1)[:, 0]
        self.storage.write_private("table", [table.astype("<u8", copy=False).data.cast("B")])
        return table

    def evaluations(self) -> Bytes:
        """(n, 64) what the parties' secrets together made of our elements, in their secret order."""
        kept = self.storage.read_private("evaluations")
        assert kept is not None  # noqa: S101 - no table before them
        return np.frombuffer(kept, np.uint8).reshape(-1, curve.EVALUATION_BYTES)

    def _shared(self, purpose: str) -> Iterable[bytes]:
        return self.at.shared_seeds(self.party, self.session_key, purpose).values()

    def _opened_key(self, sender: str) -> bytes:
        table, wrapped = self.at.find("table", sender, self.party), self.at.find("key", sender, self.party)
        if table is None or wrapped is None:
            raise IntegrityError(f"the table of {sender} or its key is gone from the relay")
        context = self.at.context("table-key", sender, self.party)
        key = encryption.unseal(self.session_key, b"".join(self.fetch(wrapped)), context)
        if encryption.commitment(key) != table.payload:
            raise Irreparable(f"{sender} sent another key for its table than it signed", signer=sender)
        return key

    def _opened_table(self, sender: str, key: bytes) -> Iterator[Words]:
        header = self.at.find("table", sender, self.party)
        assert header is not None  # noqa: S101 - its key was checked against it
        cipher = ColumnCipher(key, self.at.context("table", sender))
        sizes = (WORD_BYTES * count + TAG_BYTES for count in counts(self.ring.cells, CHUNK_WORDS))
        for chunk in cipher.opened(self.fetch(header), sizes):
            yield np.frombuffer(chunk, "<u8").astype(np.uint64, copy=False)


class RingPass(AlignmentExchange):
    """Points of one session at one party."""

    def send_own(self, elements: Bytes) -> None:
        """Hash our elements onto the curve, blind them, and freeze them for the next party, in a secret order.

        Args:
            elements: (n, 32), distinct.
        """
        order = self.order(elements)
        blind = partial(curve.blinded, run=self.run, scalar=self.secret("blinding"))
        starts = range(0, len(order), CHUNK_POINTS)
        ordered = (elements[order[start : start + CHUNK_POINTS]].tobytes() for start in starts)
        self._send_points(self.party, self._mapped(blind, ordered, len(order)))

    def pass_on(self, origin: str) -> None:
        """Multiply somebody's points by our scalar and freeze them for the next party, in the order in which they came.

        Raises:
            IntegrityError: something is not a point, or is there twice, or was not sealed to us.
        """
        multiply = partial(curve.multiplied, scalar=self.secret("scalar"))
        self._send_points(origin, self._received(origin, multiply))

    def evaluate(self) -> None:
        """Take the blinding off our elements, which have been around, as we put our own scalar on; keep what comes out.

        Raises:
            IntegrityError: as `pass_on`.
        """
        scalar = curve.quotient(self.secret("scalar"), self.secret("blinding"))
        last = partial(curve.evaluated, run=self.run, scalar=scalar)
        self.storage.write_private("evaluations", self._received(self.party, last))

    def _send_points(self, origin: str, points: Iterator[bytes]) -> None:
        receiver, key = self.ring.after(self.party), encryption.new_content_key(self.draw)
        sealed = encryption.seal(
            self.at.session_key(receiver),
            key,
            self.at.context("points-key", self.party, receiver, origin),
            self.draw,
        )
        cipher = ColumnCipher(key, self.at.context("points", self.party, receiver, origin))
        pieces = chain([sealed], cipher.encrypted(points))
        body = write_hashed(self.storage, message_name("points", origin), pieces)
        self.storage.freeze([self.at.message(self.identity, self.party, "points", (receiver,), origin, "", body)])

    def _received(self, origin: str, function: Callable[[bytes], bytes]) -> Iterator[bytes]:
        """A function of every chunk of somebody's points, as the party before us sent them."""
        sender = self.ring.before(self.party)
        header = self.at.find("points", sender, self.party, origin)
        if header is None:
            raise IntegrityError(f"the points of {origin} from {sender} are gone from the relay")
        starts, read = np.empty((self.ring.sizes[origin], 2), np.uint64), 0
        relayed: list[IntegrityError] = []  # what the relay did wrong, which is not the sender's fault

        def fetched() -> Iterator[bytes]:
            try:
                yield from self.fetch(header)
            except IntegrityError as error:
                relayed.append(error)
                raise

        pieces = fetched()

        def opened() -> Iterator[bytes]:
            full = (POINT_BYTES * count + TAG_BYTES for count in counts(self.ring.sizes[origin], CHUNK_POINTS))
            sizes = chain([KEY_BYTES], full)
            parts = regroup(pieces, sizes)
            context = self.at.context("points-key", sender, self.party, origin)
            key = encryption.unseal(self.session_key, bytes(next(parts)), context)
            cipher = ColumnCipher(key, self.at.context("points", sender, self.party, origin))
            for number, part in enumerate(parts):
                yield cipher.decrypt(number, part)

        of_chunks = counts(self.ring.sizes[origin], CHUNK_POINTS)
        try:
            # Looked for in what comes out: points that differ by one of small order become the same one only there, and the
            # next party would blame us for it.
            for count, piece in zip(of_chunks, self._mapped(function, opened(), self.ring.sizes[origin]), strict=True):
                starts[read : read + count] = np.frombuffer(piece, "<u8").reshape(count, -1)[:, :2]
                read += count
                yield piece
            if not distinct(starts):
                raise IntegrityError("a point twice")
        except IntegrityError as error:
            read_on(pieces)  # first, so that a relay that altered them is named and not their sender
            if relayed:
                raise
            words = f"{sender} sent, for patients of {origin}: {error.message}"
            raise Irreparable(words, signer=sender) from error
        read_on(pieces)

    def _mapped(self, function: Callable[[bytes], bytes], pieces: Iterator[bytes], count: int) -> Iterator[bytes]:
        return mapped(function, pieces, -(-count // CHUNK_POINTS), self.workers)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class RunEnvironment:
    """Environment that a session needs.

    Attributes:
        fetch: the body of a message for us, in pieces; it is what its sender signed, or the last piece raises.
        begin: called before our first points leave, again after a restart: no entry in the ledger, no bytes.
        elements: (n, 32) keyed identifiers of our patients, distinct, the same in the same order at every call.
    """

    fetch: Callable[[MessageHeader], Iterator[bytes]]
    begin: Callable[[], None]
    elements: Callable[[], Bytes]


@dataclass(frozen=True, repr=False)
class Common:
    """Result that a finished run leaves at a party.

    Attributes:
        positions: (k,) rows of its elements that all parties have, ascending.
        secret: 32 bytes that the parties of the run know and nobody else, the same at all of them.
    """

    positions: npt.NDArray[np.intp]
    secret: bytes


class _OurSide(RingPass, Tables):
    """All that a session asks for."""


class AlignmentSession(Participant[Ring]):
    """A run at one party.

    Args:
        ring: the public parameters.
        party, identity, keys, storage, draw: as of `Participant`.
        outside: what it needs of others.
        workers: processes to multiply in, if there is much to do; None for as many as there are cores.
    """

    final = frozenset[Kind](("key",))
    lost = "our state is older than what we have sent: this run may have ended already; begin another run"
    _storage: RoundStorage

    def __init__(
        self,
        ring: Ring,
        party: str,
        identity: PrivateKey,
        keys: Mapping[str, PublicKey],
        storage: RoundStorage,
        outside: RunEnvironment,
        draw: Draw = secrets.token_bytes,
        workers: int | None = None,
    ) -> None:
        super().__init__(ring, party, identity, keys, storage, draw)
        self._outside, self._workers = outside, workers or cores()

    def receive(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """Check all messages that are listed, of all rounds and parties, and join their latest round.

        Returns:
            Our messages that may be sent now; those that are listed already need not be sent again.

        Raises:
            IntegrityError: a message does not belong to this run; its sender is named. Or our state is older than what we
                have sent, or somebody begins anew after tables were opened.
        """
        for message in listed:
            check_message(message, self._schedule, self._keys)
        state = self._storage.state()
        if state is not None and self._frozen("key") and latest_round(listed) > state.round:
            raise Irreparable(
                "another hospital has lost its state of a run that can only be resumed; begin another run"
            )
        return self._join(listed)

    def advance(self) -> str | Common | None:
        """Do the first step that is not done; call it when all that `receive` gave is listed.

        Returns:
            None if a step was done: there is more to send. For whom we wait, in words. Or what the run leaves.

        Raises:
            IntegrityError: a party sent something that does not belong to this run; it is named.
            InvalidInput: our elements are not as many as announced, not distinct, or not those that the run began with.
            PeerUnavailable: a body cannot be fetched now; try again.
        """
        assert self._at is not None  # noqa: S101 - `receive` comes first
        state, at = self._at
        if at.find("hello", self._party) is None:
            self._storage.freeze([self._hello(state)])
            return None
        if missing := at.missing("hello"):
            return f"waits for {_names(missing)} to join the run"
        if self._frozen("result"):
            return self._compare(at)
        at.shared_seeds(
            self._party, session_key(state), "check"
        )  # a key that is none is found before anything is sealed to it
        exchange = _OurSide(
            at, self._party, self._identity, state, self._storage, self._outside.fetch, self._draw, self._workers
        )
        if self._pass_points(exchange, at):
            return None
        if missing := _holding_points(at):
            return f"waits for {_names(missing)} to pass the patients on"
        if missing := at.missing("table"):
            return f"waits for the table of {_names(missing)}"
        transcript = transcript_digest(
            self._schedule, at.session, [header for header in at.headers if header.kind in ("points", "table")]
        )
        at.check_transcripts(transcript)
        if at.find("transcript", self._party) is None:
            self._storage.freeze([at.message(self._identity, self._party, "transcript", payload=transcript)])
            return None
        if missing := at.missing("transcript"):
            return f"waits for {_names(missing)} to confirm what it has seen"
        if not self._frozen("key"):
            exchange.send_keys()
            return None
        others = self._schedule.others(self._party)
        if missing := tuple(other for other in others if at.find("key", other, self._party) is None):
            return f"waits for {_names(missing)} to open its table"
        result = exchange.open_tables(self._outside.elements())
        self._storage.freeze([at.message(self._identity, self._party, "result", payload=result)])
        return None

    def _pass_points(self, exchange: _OurSide, at: Round[Ring]) -> bool:
        """Do one thing with points that are here, or make our table of them; whether there was one."""
        before = self._schedule.before(self._party)
        if not self._frozen("points", self._party):
            elements = self._outside.elements()
            self._outside.begin()
            exchange.send_own(elements)
            return True
        for origin in self._schedule.others(self._party):
            if not self._frozen("points", origin) and at.find("points", before, self._party, origin):
                exchange.pass_on(origin)
                _log.info("run %s: passed the patients of %s on", self._schedule.task[:12], origin)
                return True
        if self._frozen("table") or not at.find("points", before, self._party, self._party):
            return False
        if self._storage.read_private("evaluations") is None:
            exchange.evaluate()
        exchange.send_table()
        return True

    def _compare(self, at: Round[Ring]) -> str | Common:
        """The common elements, once everybody has found the same ones."""
        if missing := at.missing("result"):
            return f"waits for {_names(missing)} to find the common patients"
        results = {header.payload for header in at.headers if header.kind == "result"}
        common, secret = self._storage.read_private("common"), self._storage.read_private("secret")
        if len(results) > 1 or common is None or secret is None:
            raise Irreparable("the hospitals did not find the same common patients; nothing is aligned")
        return Common(np.frombuffer(common, "<u8").astype(np.intp), bytes(secret))


def _holding_points(at: Round[Ring]) -> tuple[str, ...]:
    """Parties that points wait at, in the ring's order: of each origin the first that has not passed them on."""
    ring, holding = at.schedule, set()
    for place, origin in enumerate(ring.parties):
        way = (*ring.parties[place:], *ring.parties[:place])
        holding.update([party for party in way if at.find("points", party, "", origin) is None][:1])
    return tuple(party for party in ring.parties if party in holding)


def _names(parties: tuple[str, ...]) -> str:
    return ", ".join(parties)
