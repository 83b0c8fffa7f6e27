"""One party's side of an alignment run as a state machine: messages in, messages out, until it knows the common elements.

    our session key -> our elements, others' passed on -> our table -> transcript -> keys of the tables -> the same result at all

A round may be abandoned for the next until we have sent the keys of our table: before that, nobody can open anything. Afterwards
the run can only be resumed, for a second round would test other elements against the same announced size.

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

from dprelease.arrays import sha256_by_piece
from dprelease.errors import IntegrityError, InvalidInput, Irreparable
from dprelease.identity.signing import PrivateKey, PublicKey
from dprelease.intersection import curve
from dprelease.intersection.curve import cores, mapped
from dprelease.intersection.key_value_store import (
    LABEL_BYTES,
    Bytes,
    decode,
    encode,
    labels_of,
    pseudorandom,
    rows_of,
    shares,
)
from dprelease.intersection.ring import (
    CHUNK_POINTS,
    CHUNK_WORDS,
    KEY_BYTES,
    POINT_BYTES,
    Ring,
    check_message,
    transcript_digest,
)
from dprelease.mpc import encryption
from dprelease.mpc.correspondence import Correspondence
from dprelease.mpc.encryption import ColumnCipher, Draw, read_on, regroup
from dprelease.mpc.messages import Kind, Message, MessageHeader, message_name
from dprelease.mpc.ring import SecretStream, Words
from dprelease.mpc.round import Participant, Round, latest_round, names, session_key
from dprelease.mpc.schedule import TAG_BYTES, WORD_BYTES
from dprelease.mpc.storage import SessionState, SessionStorage, write_hashed


def counts(total: int, most: int) -> Iterable[int]:
    """Sizes of the chunks of so many things."""
    return (min(most, total - start) for start in range(0, total, most))


def chunks(data: npt.NDArray[np.generic], most: int) -> Iterator[bytes]:
    """Bytes of rows, so many at a time."""
    return (data[start : start + most].tobytes() for start in range(0, len(data), most))


def distinct(starts: Words) -> bool:
    """Tells whether no two points begin with the same 16 bytes: (n, 2) words."""
    first = np.sort(starts[:, 0])
    repeated = first[1:][first[1:] == first[:-1]]
    if not repeated.size:
        return True
    some = starts[np.isin(starts[:, 0], repeated)]
    return len(np.unique(some, axis=0)) == len(some)


@dataclass(eq=False, repr=False)
class AlignmentExchange(Correspondence[Ring]):
    """Our side of one session."""

    workers: int

    @property
    def ring(self) -> Ring:
        """The public parameters."""
        return self.at.schedule

    @property
    def run(self) -> bytes:
        """Digest of the run."""
        return bytes.fromhex(self.ring.task)

    def order(self, elements: Bytes) -> npt.NDArray[np.intp]:
        """The secret order in which our elements, (n, 32), go around; the same at every call.

        Raises:
            InvalidInput: they are not as many as announced, not distinct, or not those that the run began with.
        """
        count = self.ring.sizes[self.party]
        if elements.shape != (count, POINT_BYTES) or elements.dtype != np.uint8:
            raise InvalidInput(f"this run announced {count} patients, and there are {len(elements)}; begin another run")
        elements = np.ascontiguousarray(elements)
        if not distinct(elements.view("<u8")[:, :2]):
            raise InvalidInput("two patients have one identifier; keep one row of each")
        digest, kept = bytes.fromhex(sha256_by_piece(elements.data.cast("B"))), self.storage.read_private("elements")
        if kept is None:
            self.storage.write_private("elements", [digest])
        elif kept != digest:
            raise InvalidInput("the patients changed after this run began; begin another run")
        return np.argsort(pseudorandom(self.secret("order"), elements[:, :16]), kind="stable")

    def send_table(self) -> None:
        """Encode our shares of zero under our elements, mask the table, encrypt it, and freeze it; its key stays here."""
        key, others = self.secret("content-key"), self.ring.others(self.party)
        words = chunks(self.masked_table().astype("<u8", copy=False), CHUNK_WORDS)
        self.storage.freeze([self.shown("table", others, "", encryption.commitment(key), key, words)])

    def send_keys(self) -> None:
        """Seal the key of our table to everybody, and freeze all of them together. From here on this is the last round."""
        key, others = self.secret("content-key"), self.ring.others(self.party)
        self.storage.freeze([self.sealed("key", other, "", key, "table-key") for other in others])

    def open_tables(self, elements: Bytes) -> str:
        """Add all tables up, look our elements, (n, 32), up, and keep which of them everybody has, with the secret of the run.

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
        values = shares(self.shared_seeds("zero-share").values(), labels_of(evaluations))
        filler = SecretStream(self.secret("filler")).read_words(0, ring.cells, 1)[:, 0]
        table = encode(rows_of(evaluations, ring.segment), values, filler)
        for stream in map(SecretStream, self.shared_seeds("table-mask").values()):
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

    def _opened_key(self, sender: str) -> bytes:
        table, wrapped = self.at.find("table", sender, self.party), self.at.find("key", sender, self.party)
        if table is None or wrapped is None:
            raise IntegrityError(f"the table of {sender} or its key is gone from the relay")
        key = self.opened(wrapped, "table-key")
        if encryption.commitment(key) != table.payload:
            raise Irreparable(f"{sender} sent another key for its table than it signed", signer=sender)
        return key

    def _opened_table(self, sender: str, key: bytes) -> Iterator[Words]:
        header = self.at.find("table", sender, self.party)
        assert header is not None  # noqa: S101 - its key was checked against it
        sizes = (WORD_BYTES * count for count in counts(self.ring.cells, CHUNK_WORDS))
        for chunk in self.plain(header, key, sizes):
            yield np.frombuffer(chunk, "<u8").astype(np.uint64, copy=False)

    def send_own(self, elements: Bytes) -> None:
        """Hash our elements, (n, 32), onto the curve, blind them, and freeze them for the next party, in a secret order."""
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
        receiver, key = self.ring.after(self.party), self.draw(encryption.KEY_BYTES)
        sealed = encryption.seal(
            self.at.session_key(receiver), key, self.at.context("points-key", self.party, receiver, origin), self.draw
        )
        cipher = ColumnCipher(key, self.at.context("points", self.party, receiver, origin))
        pieces = chain([sealed], cipher.encrypted(points))
        body = write_hashed(self.storage, message_name("points", origin), pieces)
        self.storage.freeze([self.signed("points", (receiver,), origin, "", body)])

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
            key = self.unsealed("points-key", sender, origin, bytes(next(parts)))
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


class AlignmentSession(Participant[Ring, Common]):
    """A run at one party.

    Args:
        ring: the public parameters.
        party, identity, keys, storage, draw: as of `Participant`.
        outside: what it needs of others.
        workers: processes to multiply in, if there is much to do; None for as many as there are cores.
    """

    final = frozenset[Kind](("key",))
    lost = "our state is older than what we have sent: this run may have ended already; begin another run"

    def __init__(
        self,
        ring: Ring,
        party: str,
        identity: PrivateKey,
        keys: Mapping[str, PublicKey],
        storage: SessionStorage,
        outside: RunEnvironment,
        draw: Draw = secrets.token_bytes,
        workers: int | None = None,
    ) -> None:
        super().__init__(ring, party, identity, keys, storage, draw)
        self._outside, self._workers = outside, workers or cores()

    def _check(self, message: Message) -> None:
        check_message(message, self._schedule, self._keys)

    def _join(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """As every session; raises `Irreparable` if somebody begins anew after tables were opened."""
        state = self._storage.state()
        if state is not None and self._frozen("key") and latest_round(listed) > state.round:
            raise Irreparable(
                "another hospital has lost its state of a run that can only be resumed; begin another run"
            )
        return super()._join(listed)

    def _called(self, at: Round[Ring]) -> str:
        return "the run"

    def _proceed(self, state: SessionState, at: Round[Ring]) -> str | Common | None:
        """As `advance`; raises `InvalidInput` if our elements are not as announced, not distinct, or not the run's."""
        if self._frozen("result"):
            return self._compare(at)
        exchange = AlignmentExchange(
            at,
            self._party,
            self._identity,
            session_key(state),
            self._storage,
            self._outside.fetch,
            self._draw,
            self._workers,
        )
        exchange.shared_seeds("check")  # a key that is none is found before anything is sealed to it
        if self._pass_points(exchange, at):
            return None
        if missing := _holding_points(at):
            return f"waits for {names(missing)} to pass the patients on"
        if missing := at.missing("table"):
            return f"waits for the table of {names(missing)}"
        transcript = transcript_digest(
            self._schedule, at.session, [header for header in at.headers if header.kind in ("points", "table")]
        )
        if (heard := self._confirm(at, transcript)) != "":
            return heard
        if not self._frozen("key"):
            exchange.send_keys()
            return None
        others = self._schedule.others(self._party)
        if missing := tuple(other for other in others if at.find("key", other, self._party) is None):
            return f"waits for {names(missing)} to open its table"
        result = exchange.open_tables(self._outside.elements())
        self._storage.freeze([exchange.signed("result", payload=result)])
        return None

    def _pass_points(self, exchange: AlignmentExchange, at: Round[Ring]) -> bool:
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
            return f"waits for {names(missing)} to find the common patients"
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
