"""The parts of a run that touch secrets: elements under our scalars, others' passed on, tables, and what they open to.

An `Exchange` belongs to one session: it can be made once every party's session key is known. All its secrets are derived from the
32 secret bytes of our session key, so that a restart has the same; what is sealed is frozen before it is sent.

Source: docs/protocol.md, "Aligning".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.signing import PrivateKey
from dprelease.intersection import curve
from dprelease.intersection.key_value_store import Bytes, decode, encode, labels_of, rows_of
from dprelease.intersection.parallel import mapped
from dprelease.intersection.ring import CHUNK_POINTS, CHUNK_WORDS, KEY_BYTES, POINT_BYTES, Ring
from dprelease.intersection.storage import Storage
from dprelease.intersection.zero_sharing import pseudorandom, shares
from dprelease.mpc import encryption
from dprelease.mpc.encryption import ColumnCipher, Draw, read_on, regroup
from dprelease.mpc.messages import NOTHING, Kind, Message, MessageHeader, message_name, sign_message
from dprelease.mpc.ring import SecretStream, Words
from dprelease.mpc.round import Round, session_key
from dprelease.mpc.schedule import TAG_BYTES, WORD_BYTES
from dprelease.mpc.storage import State

_POINTS, _TABLE = "points", "table"  # purposes, and words of errors


class Exchange:
    """Our side of one session.

    Args:
        at: the round, with a hello of every party.
        party: our name.
        identity: our identity key, which signs.
        state: with our session key.
        storage: where our messages are frozen and our secrets kept.
        fetch: the body of a message for us, in pieces.
        draw: secret randomness, so many bytes.
        workers: processes to multiply in.
    """

    def __init__(
        self,
        at: Round[Ring],
        party: str,
        identity: PrivateKey,
        state: State,
        storage: Storage,
        fetch: Callable[[MessageHeader], Iterator[bytes]],
        draw: Draw,
        workers: int,
    ) -> None:
        self._at = at
        self._ring = at.schedule
        self._party = party
        self._identity = identity
        self._key = session_key(state)
        self._root = bytes.fromhex(state.key)
        self._storage = storage
        self._fetch = fetch
        self._draw = draw
        self._workers = workers
        self._run = bytes.fromhex(at.schedule.task)

    def message(
        self,
        kind: Kind,
        receivers: tuple[str, ...] = (),
        origin: str = "",
        payload: str = "",
        size: int = 0,
        sha256: str = NOTHING,
    ) -> Message:
        """A signed header of ours in this session."""
        header = MessageHeader(
            task=self._ring.task,
            round=self._at.number,
            session=self._at.session,
            kind=kind,
            sender=self._party,
            receivers=receivers,
            dealer=origin,
            payload=payload,
            size=size,
            sha256=sha256,
        )
        return sign_message(self._identity, header)

    def send_own(self, elements: Bytes) -> None:
        """Hash our elements onto the curve, blind them, and freeze them for the next party, in a secret order.

        Args:
            elements: (n, 32), distinct.
        """
        ordered = elements[self._order(elements)]
        blind = partial(curve.blinded, run=self._run, scalar=self._secret("blinding"))
        count = self._ring.sizes[self._party]
        self._send_points(self._party, self._mapped(blind, _chunks(ordered, CHUNK_POINTS), count))

    def pass_on(self, origin: str) -> None:
        """Multiply somebody's points by our scalar and freeze them for the next party, in the order in which they came.

        Raises:
            IntegrityError: something is not a point, or is there twice, or was not sealed to us.
        """
        multiply = partial(curve.multiplied, scalar=self._secret("scalar"))
        self._send_points(origin, self._received(origin, multiply))

    def evaluate(self) -> None:
        """Take the blinding off our elements, which have been around, as we put our own scalar on; keep what comes out.

        Raises:
            IntegrityError: as `pass_on`.
        """
        scalar = curve.quotient(self._secret("scalar"), self._secret("blinding"))
        last = partial(curve.evaluated, run=self._run, scalar=scalar)
        self._storage.write_private("evaluations", self._received(self._party, last))

    def send_table(self) -> None:
        """Encode our shares of zero under our elements, mask the table, encrypt it, and freeze it; its key stays here."""
        key = self._content_key()
        cipher, digest, size = ColumnCipher(key, self._at.context(_TABLE, self._party)), hashlib.sha256(), 0

        def encrypted() -> Iterator[bytes]:
            nonlocal size
            for number, chunk in enumerate(_chunks(self._masked_table().astype("<u8", copy=False), CHUNK_WORDS)):
                piece = cipher.encrypt(number, chunk)
                digest.update(piece)
                size += len(piece)
                yield piece

        self._storage.write_body(message_name("table"), encrypted())
        others, commitment = self._ring.others(self._party), encryption.commitment(key)
        self._storage.freeze([self.message("table", others, "", commitment, size, digest.hexdigest())])

    def send_keys(self) -> None:
        """Seal the key of our table to everybody, and freeze all of them together. From here on this is the last round."""
        messages = []
        for other in self._ring.others(self._party):
            context = self._at.context("table-key", self._party, other)
            body = encryption.seal(self._at.session_key(other), self._content_key(), context, self._draw)
            self._storage.keep_body(message_name("key", "", other), body)
            messages.append(self.message("key", (other,), "", "", len(body), hashlib.sha256(body).hexdigest()))
        self._storage.freeze(messages)

    def open_tables(self, elements: Bytes) -> str:
        """Add all tables up, look our elements up, and keep which of them everybody has.

        Args:
            elements: (n, 32), as they were sent.

        Returns:
            Keyed digest of the common elements, the same at all parties and uniform to everybody else.

        Raises:
            IntegrityError: a table or its key is not what its sender signed.
        """
        table, keys = self._masked_table(), {self._party: self._content_key()}
        for other in self._ring.others(self._party):
            keys[other] = self._opened_key(other)
            start = 0
            for chunk in self._opened_table(other, keys[other]):
                table[start : start + len(chunk)] ^= chunk
                start += len(chunk)
        evaluations = self._evaluations()
        common = np.flatnonzero(decode(table, rows_of(evaluations, self._ring.segment)) == 0)
        positions = self._order(elements)[common]
        told = hashlib.sha256(b"dprelease/intersection/result/v1" + bytes.fromhex(self._at.session))
        for party in self._ring.parties:
            told.update(keys[party])
        pairs = np.hstack([elements[positions], labels_of(evaluations)[common]])
        for pair in sorted(each.tobytes() for each in pairs):
            told.update(pair)
        self._storage.write_private("common", [np.sort(positions).astype("<u8").tobytes()])
        return told.hexdigest()

    def _send_points(self, origin: str, points: Iterator[bytes]) -> None:
        receiver, key = self._ring.after(self._party), encryption.new_content_key(self._draw)
        sealed = encryption.seal(
            self._at.session_key(receiver),
            key,
            self._at.context("points-key", self._party, receiver, origin),
            self._draw,
        )
        cipher = ColumnCipher(key, self._at.context(_POINTS, self._party, receiver, origin))
        digest, size = hashlib.sha256(), 0

        def encrypted() -> Iterator[bytes]:
            nonlocal size
            for piece in chain([sealed], (cipher.encrypt(number, chunk) for number, chunk in enumerate(points))):
                digest.update(piece)
                size += len(piece)
                yield piece

        self._storage.write_body(message_name("points", origin), encrypted())
        self._storage.freeze([self.message("points", (receiver,), origin, "", size, digest.hexdigest())])

    def _received(self, origin: str, function: Callable[[bytes], bytes]) -> Iterator[bytes]:
        """A function of every chunk of somebody's points, as the party before us sent them."""
        sender = self._ring.before(self._party)
        header = self._at.find("points", sender, self._party, origin)
        if header is None:
            raise IntegrityError(f"the points of {origin} from {sender} are gone from the relay")
        starts: list[Words] = []
        relayed: list[IntegrityError] = []  # what the relay did wrong, which is not the sender's fault

        def fetched() -> Iterator[bytes]:
            try:
                yield from self._fetch(header)
            except IntegrityError as error:
                relayed.append(error)
                raise

        pieces = fetched()

        def opened() -> Iterator[bytes]:
            counts = _counts(self._ring.sizes[origin], CHUNK_POINTS)
            sizes = chain([KEY_BYTES], (POINT_BYTES * count + TAG_BYTES for count in counts))
            parts = regroup(pieces, sizes)
            context = self._at.context("points-key", sender, self._party, origin)
            key = encryption.unseal(self._key, bytes(next(parts)), context)
            cipher = ColumnCipher(key, self._at.context(_POINTS, sender, self._party, origin))
            for number, part in enumerate(parts):
                chunk = cipher.decrypt(number, part)
                starts.append(np.frombuffer(chunk, "<u8").reshape(-1, POINT_BYTES // 8)[:, :2].copy())
                yield chunk

        try:
            yield from self._mapped(function, opened(), self._ring.sizes[origin])
            if not _distinct(np.concatenate(starts)):
                raise IntegrityError("a point twice")
        except IntegrityError as error:
            read_on(pieces)  # first, so that a relay that altered them is named and not their sender
            if relayed:
                raise
            raise IntegrityError(f"{sender} sent, for patients of {origin}: {error.message}") from error
        read_on(pieces)

    def _mapped(self, function: Callable[[bytes], bytes], chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
        return mapped(function, chunks, -(-count // CHUNK_POINTS), self._workers)

    def _order(self, elements: Bytes) -> npt.NDArray[np.intp]:
        """The secret order in which our elements go around; the same elements as at the first time, or nothing."""
        count = self._ring.sizes[self._party]
        if elements.shape != (count, POINT_BYTES) or elements.dtype != np.uint8:
            raise InvalidInput(f"this run announced {count} patients, and there are {len(elements)}; begin another run")
        if not _distinct(np.ascontiguousarray(elements).view("<u8")[:, :2]):
            raise InvalidInput("two patients have one identifier; keep one row of each")
        digest, kept = hashlib.sha256(elements.tobytes()).digest(), self._storage.read_private("elements")
        if kept is None:
            self._storage.write_private("elements", [digest])
        elif kept != digest:
            raise InvalidInput("the patients changed after this run began; begin another run")
        return np.argsort(pseudorandom(self._secret("order"), elements[:, :16]), kind="stable")

    def _masked_table(self) -> Words:
        """Our shares of zero under our elements, and the keystreams that we share with the others on top; always the same."""
        ring, evaluations = self._ring, self._evaluations()
        values = shares(self._at.shared_seeds(self._party, self._key, "zero-share").values(), labels_of(evaluations))
        filler = SecretStream(self._secret("filler")).read_words(0, ring.cells, 1)[:, 0]
        table = encode(rows_of(evaluations, ring.segment), values, filler)
        for seed in self._at.shared_seeds(self._party, self._key, "table-mask").values():
            table ^= SecretStream(seed).read_words(0, ring.cells, 1)[:, 0]
        return table

    def _evaluations(self) -> Bytes:
        kept = self._storage.read_private("evaluations")
        assert kept is not None  # noqa: S101 - no table before them
        return np.frombuffer(kept, np.uint8).reshape(-1, curve.EVALUATION_BYTES)

    def _opened_key(self, sender: str) -> bytes:
        table, wrapped = self._at.find("table", sender, self._party), self._at.find("key", sender, self._party)
        if table is None or wrapped is None:
            raise IntegrityError(f"the table of {sender} or its key is gone from the relay")
        context = self._at.context("table-key", sender, self._party)
        key = encryption.unseal(self._key, b"".join(self._fetch(wrapped)), context)
        if encryption.commitment(key) != table.payload:
            raise IntegrityError(f"{sender} sent another key for its table than it signed")
        return key

    def _opened_table(self, sender: str, key: bytes) -> Iterator[Words]:
        header = self._at.find("table", sender, self._party)
        assert header is not None  # noqa: S101 - its key was checked against it
        pieces, cipher = self._fetch(header), ColumnCipher(key, self._at.context(_TABLE, sender))
        sizes = (WORD_BYTES * count + TAG_BYTES for count in _counts(self._ring.cells, CHUNK_WORDS))
        for number, part in enumerate(regroup(pieces, sizes)):
            try:
                chunk = cipher.decrypt(number, part)
            except IntegrityError:
                read_on(pieces)  # as above
                raise
            yield np.frombuffer(chunk, "<u8").astype(np.uint64, copy=False)
        read_on(pieces)

    def _content_key(self) -> bytes:
        return self._secret("content-key")

    def _secret(self, purpose: str) -> bytes:
        return encryption.derive(self._root, self._at.context(f"own-{purpose}", self._party))


def _counts(total: int, most: int) -> Iterable[int]:
    return (min(most, total - start) for start in range(0, total, most))


def _chunks(data: npt.NDArray[np.generic], most: int) -> Iterator[bytes]:
    return (data[start : start + most].tobytes() for start in range(0, len(data), most))


def _distinct(starts: Words) -> bool:
    """Whether no two points begin with the same 16 bytes: (n, 2) words."""
    first = np.argsort(starts[:, 0], kind="stable")
    ordered = starts[first]
    return not bool((ordered[1:] == ordered[:-1]).all(axis=1).any())
