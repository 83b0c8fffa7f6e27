"""The parts of a session that touch secrets: dealing, opening deals, masking our columns, multiplying with a peer's.

An `Exchange` belongs to one session: it can be made once every party's session key is known. Products become additive shares
modulo the schedule's modulus, from columns under one-time masks:

    U_j = Q_j + A_j                                             masked: uniform to whoever has not the seed of A_j
    first share, at j:  PRG(r) - A_j^T U_k
    second share, at k: U_j^T Q_k + (C_jk - PRG(r))             C_jk = A_j^T A_k
    sum: -A_j^T Q_k - A_j^T A_k + Q_j^T Q_k + A_j^T Q_k + A_j^T A_k = Q_j^T Q_k

Everything runs chunk by chunk over rows. Products are sums over pieces of a few chunks, so memory is bounded whatever n is.
A `PieceMap` makes them here or on other machines. Arithmetic is exact, so shares are the same words in any case. Other machines get
a piece and what it is multiplied with: a seed of our masks, or our own rows. PRG(r) and C_jk - PRG(r) stay here.

Source: docs/protocol.md, steps 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

import numpy as np

from dprelease.arrays import PIECE_BYTES, Codes, PieceMap, let_go, one_by_one
from dprelease.errors import IntegrityError
from dprelease.mpc import encryption
from dprelease.mpc.correspondence import Correspondence
from dprelease.mpc.encryption import Context, Draw
from dprelease.mpc.messages import Kind, Message, MessageHeader, session_digest
from dprelease.mpc.modulus import Modulus
from dprelease.mpc.proof.claim import Bits, Claim
from dprelease.mpc.proof.parts import RangeProver, RangeVerifier
from dprelease.mpc.proof.plan import ProofPlan
from dprelease.mpc.proof.same import Fingerprint
from dprelease.mpc.ring import CHUNK_BYTES, Words
from dprelease.mpc.schedule import (
    COORDINATOR,
    WORD_BYTES,
    CorrelatedRandomness,
    DealtSeeds,
    Pair,
    Schedule,
    deal,
    read_randomness,
)


def masked(codes: Codes, mask: bytes, schedule: Schedule) -> Iterator[Words]:
    """The chunks of U = Q + A, from (n, d) variables Q and the seed of A."""
    modulus = schedule.modulus
    for start in range(0, len(codes), schedule.chunk_rows):
        chunk = codes[start : start + schedule.chunk_rows]
        yield modulus.add(modulus.elements(chunk), modulus.read(mask, start, *chunk.shape))
        let_go(codes)


@dataclass(frozen=True, repr=False)
class SessionEnvironment:
    """Environment that a session needs.

    Attributes:
        fetch: the body of a message for us, in pieces; it is what its sender signed, or the last piece raises.
        request_deal: asks the coordinator for its deal, given everybody's signed session keys; used only where it deals.
        request_answer: asks it for its answer about a proof, given our signed third challenge and its body; likewise.
        use_seeds: notes the digests of seeds, the session and their dealer; refuses seeds that served before.
        charge: called before the first masked column leaves: no charge, no bytes.
        matrix: (n, d) our matrix, the same at every call; it may be mapped from a file.
        bits: (n, units) the bits of our matrix by our claim; likewise.
        run: makes the products of pieces: here, or on other machines of ours.
    """

    fetch: Callable[[MessageHeader], Iterator[bytes]]
    request_deal: Callable[[list[bytes]], bytes]
    request_answer: Callable[[Message, bytes], bytes]
    use_seeds: Callable[[Iterable[str], str, str], None]
    charge: Callable[[], None]
    matrix: Callable[[], Codes]
    bits: Callable[[Claim], Bits]
    run: PieceMap = one_by_one


@dataclass(eq=False, repr=False)
class Exchange(Correspondence[Schedule]):
    """Our side of one session."""

    outside: SessionEnvironment

    def deal(self, kept: DealtSeeds) -> None:
        """Deal for the pairs that are ours to deal for; freeze the sealed deals all together. Only kept seeds outlive it."""
        made = deal(self.at.schedule, self.party, self.draw, kept)
        self.storage.freeze([self.sealed("deal", receiver, "", message) for receiver, message in made.items()])

    def open_deal(self, dealer: str, sealed: bytes) -> CorrelatedRandomness:
        """Open what was dealt to us.

        Raises:
            IntegrityError: it was not sealed to us for this session, or has another shape.
        """
        message = self.unsealed("deal", dealer, "", sealed)
        return read_randomness(message, self.at.schedule, self.party, dealer)

    def mask(self, codes: Codes, dealt: CorrelatedRandomness) -> None:
        """Mask our (n, d) columns under one dealer's mask, encrypt them, and freeze them with their keys, and bits for proofs.

        Raises:
            InvalidInput: there are proofs, and our claim is not true of some row.
        """
        key, dealer, schedule = self.secret("content-key", dealt.dealer), dealt.dealer, self.at.schedule
        receivers = schedule.partners(self.party, dealer)
        chunks = (chunk.astype("<u8", copy=False).data.cast("B") for chunk in masked(codes, dealt.mask, schedule))
        shown = [self.shown("columns", receivers, dealer, encryption.commitment(key), key, chunks)]
        if verifiers := schedule.verifiers(self.party, dealer):
            prover = self.prover(verifiers[0], codes, dealt)
            encoded = map(prover.plan.encode_bits, prover.bits(schedule.row_chunks()))
            own = self._derived("own-bits", key, self.party, dealer)
            shown.append(self.shown("bits", verifiers, dealer, "", own, encoded))
        self.storage.freeze([*shown, *(self.sealed("key", receiver, dealer, key) for receiver in receivers)])

    def prover(self, receiver: str, codes: Codes, dealt: CorrelatedRandomness) -> RangeProver:
        """Our side of our proof towards one of our verifiers."""
        plan, modulus = self.at.schedule.proof_plan(self.party, receiver, self.at.session), self.at.schedule.modulus
        chi = self._derived("own-chi", self.secret("content-key", dealt.dealer), self.party, dealt.dealer)

        def masks(start: int, rows: int) -> Words:
            return modulus.read(dealt.mask, start, rows, codes.shape[1])

        return RangeProver(plan, codes, masks, dealt.proof, chi, self.outside.bits(plan.claim))

    def share(
        self,
        pair: Pair,
        codes: Codes,
        dealt: CorrelatedRandomness,
        proof: tuple[RangeVerifier, bytes] | None = None,
        same: Fingerprint | None = None,
    ) -> Words:
        """Our share of a pair's product, from the peer's masked columns.

        A proof, with all three challenges and the dealer's answer, is decided in the same sweep that multiplies; it is None where
        we do not verify. A fingerprint is taken in this sweep too, where we compare columns.

        Raises:
            IntegrityError: the peer's columns, bits or their key are not what it signed, or no elements, or under a mask that we
                dealt; or the proof fails.
        """
        peer, dealer = pair.other(self.party), pair.dealer
        columns = self._columns(peer, dealer)
        if proof is not None:
            verifier, answer = proof
            shown = zip(columns, self._bits(peer, dealer, verifier.plan), strict=True)
            columns = verifier.checked(answer, shown, same)
        elif same is not None:
            columns = same.through(columns)
        return share(pair, self.party, codes, dealt, columns, self.at.schedule, self.outside.run)

    def verifier(self, prover: str, draw: Draw) -> RangeVerifier:
        """Our side of a peer's proof, with its first challenge.

        Raises:
            IntegrityError: the key of its columns is not what it signed.
        """
        plan = self.at.schedule.proof_plan(prover, self.party, self.at.session)
        dealer = plan.context.dealer
        return RangeVerifier.begin(plan, self._derived("own-chi", self._key_of(prover, dealer), prover, dealer), draw)

    def _columns(self, sender: str, dealer: str) -> Iterator[Words]:
        if dealer == self.party:  # the schedule has no such pair; the last door if a schedule were ever wrong
            raise IntegrityError(f"{sender} masked its columns with seeds that we dealt; we do not open them")
        width, modulus = self.at.schedule.widths[sender], self.at.schedule.modulus
        key = self._key_of(sender, dealer)
        for _, plain in self._chunks("columns", sender, dealer, key, WORD_BYTES * width):
            words = np.frombuffer(plain, "<u8").reshape(-1, width)
            yield modulus.canonical(words, f"a chunk of the masked columns of {sender}")

    def _bits(self, sender: str, dealer: str, plan: ProofPlan) -> Iterator[Bits]:
        key = self._derived("own-bits", self._key_of(sender, dealer), sender, dealer)
        for rows, plain in self._chunks("bits", sender, dealer, key, plan.row_bytes):
            yield plan.decode_bits(plain, rows)

    def _chunks(self, kind: Kind, sender: str, dealer: str, key: bytes, row_bytes: int) -> Iterator[tuple[int, bytes]]:
        """(rows, plain bytes) of each chunk of what a peer shows."""
        header, schedule = self._found(kind, sender, dealer), self.at.schedule
        counts = [rows for _, rows in schedule.row_chunks()]
        return zip(counts, self.plain(header, key, [row_bytes * count for count in counts]), strict=True)

    def _key_of(self, sender: str, dealer: str) -> bytes:
        columns = self._found("columns", sender, dealer)
        key = self.opened(self._found("key", sender, dealer))
        if encryption.commitment(key) != columns.payload:
            raise IntegrityError(f"{sender} sent another key for its columns than it signed")
        return key

    def _found(self, kind: Kind, sender: str, dealer: str) -> MessageHeader:
        header = self.at.find(kind, sender, self.party, dealer)
        if header is None:
            raise IntegrityError(f"the masked columns of {sender}, their bits or their key are gone from the relay")
        return header

    def _derived(self, purpose: str, content_key: bytes, sender: str, dealer: str) -> bytes:
        """A further secret of whoever has the content key of some columns: not their dealer."""
        return encryption.derive(content_key, self.at.context(purpose, sender, "", dealer))


def seal_deals(schedule: Schedule, hellos: Sequence[MessageHeader], messages: Mapping[str, bytes]) -> dict[str, bytes]:
    """Answer of the coordinator to each party: its deal, sealed to the session key in its hello; hellos are in the parties' order.

    Raises:
        IntegrityError: a session key is not one; the party is named.
    """
    session, found = session_digest(hellos), {}
    for header in hellos:
        context = Context("deal", schedule.task, session, COORDINATOR, header.sender, "")
        try:
            found[header.sender] = encryption.seal(bytes.fromhex(header.payload), messages[header.sender], context)
        except IntegrityError as error:
            raise IntegrityError(f"{header.sender} offered something that is not a session key") from error
    return found


def seal_answer(schedule: Schedule, hellos: Sequence[MessageHeader], asked: MessageHeader, answer: bytes) -> bytes:
    """Answer of the coordinator to a receiver's third challenge, sealed to the session key in its hello.

    Raises:
        IntegrityError: a session key is not one.
    """
    key = next(header.payload for header in hellos if header.sender == asked.sender)
    context = Context("answer", schedule.task, session_digest(hellos), COORDINATOR, asked.sender, asked.dealer)
    return encryption.seal(bytes.fromhex(key), answer, context)


def share(
    pair: Pair,
    party: str,
    codes: Codes,
    dealt: CorrelatedRandomness,
    partner: Iterable[Words],
    schedule: Schedule,
    run: PieceMap = one_by_one,
) -> Words:
    """A party's share of one of its pairs' products, (d_j, d_k): the first or the second, by its place in the pair.

    Args:
        pair: one of the party's.
        party: whose share.
        codes: (n, d) its variables.
        dealt: what the pair's dealer dealt to it.
        partner: chunks of the other's masked columns.
        schedule: the public parameters.
        run: makes the product of each piece.

    Raises:
        IntegrityError: the partner's columns have another number of rows.
    """
    modulus = schedule.modulus
    if party == pair.first:
        multiply: Callable[[_Piece], Words] = _MaskProduct(modulus, dealt.mask, codes.shape[1])
        return reduce(modulus.subtract, run(multiply, _pieces(partner, schedule)), dealt.shares[pair])
    multiply = _OwnProduct(modulus, schedule.bits)
    return reduce(modulus.add, run(multiply, _pieces(partner, schedule, codes)), dealt.shares[pair])


@dataclass(frozen=True, repr=False)
class _Piece:
    """Consecutive rows of masked columns.

    Attributes:
        start: the first row.
        chunks: (r, d_partner) each.
        own: our variables of the same rows, where they are multiplied.
    """

    start: int
    chunks: tuple[Words, ...]
    own: Codes | None


def _pieces(partner: Iterable[Words], schedule: Schedule, codes: Codes | None = None) -> Iterator[_Piece]:
    chunks, start = iter(partner), 0
    while taken := tuple(islice(chunks, PIECE_BYTES // CHUNK_BYTES)):
        stop = start + sum(map(len, taken))
        yield _Piece(start, taken, None if codes is None else codes[start:stop])
        if codes is not None:
            let_go(codes)
        start = stop
    if start != schedule.rows:
        raise IntegrityError(f"masked columns of {start} rows where the release has {schedule.rows}")


@dataclass(frozen=True, repr=False)
class _MaskProduct:
    """A_j^T U_k over the rows of a piece. Its text tells no seed."""

    modulus: Modulus
    mask: bytes
    width: int

    def __call__(self, piece: _Piece) -> Words:
        products, start = [], piece.start
        for chunk in piece.chunks:
            own = self.modulus.read(self.mask, start, len(chunk), self.width)
            products.append(self.modulus.product(own, chunk))
            start += len(chunk)
        return reduce(self.modulus.add, products)


@dataclass(frozen=True, repr=False)
class _OwnProduct:
    """U_j^T Q_k over the rows of a piece."""

    modulus: Modulus
    bits: int

    def __call__(self, piece: _Piece) -> Words:
        assert piece.own is not None  # noqa: S101 - pieces for this product have it
        products, start = [], 0
        for chunk in piece.chunks:
            own = piece.own[start : start + len(chunk)]
            products.append(self.modulus.product(chunk, own, right_bits=self.bits))
            start += len(chunk)
        return reduce(self.modulus.add, products)
