"""The schedule of a session, from its public parameters alone, and what it has dealt: correlated randomness for every pair.

For every pair of hospitals somebody deals correlated randomness: with a rotating dealer the next party, in their
cyclic order, that is not in the pair; else the coordinator, whose name here is `COORDINATOR`. A hospital masks its
columns anew for every dealer, and sends them to its partners in the pairs of that dealer, never to the dealer itself.

Among m parties that rotate, a party has up to m - 1 dealers, and each party checks the headers of some m^2/2 masked columns.
In g groups, one party deals for all pairs of two groups, some (m/g)^2. A party then has at most g dealers.

Dealt are multiplication triples for matrices (Beaver 1991). For a pair j < k the dealer draws a mask seed a for every party it
deals to and a seed r_jk for every pair, expands A_j = PRG(a_j) and A_k = PRG(a_k), n x d each, and computes C_jk = A_j^T A_k.
Party j gets a_j and r_jk, party k gets a_k and C_jk - PRG(r_jk), an n-free d_j x d_k matrix that looks uniform to k, because
r_jk is known to j alone.

A deal is a plain byte string, whose form follows from the schedule: the mask seed, a seed of proofs where the dealer helps with
one, then for each of the receiver's pairs, in the schedule's order, the seed r (32 bytes, to the first) or the correction
(8 d_j d_k bytes, row by row, to the second).

Source: docs/protocol.md, steps 3 and 4 and "Whom to let deal"; bytes in docs/format.md 15.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from dprelease.canonical import sha256
from dprelease.errors import Conflict, IntegrityError, InvalidInput
from dprelease.mpc.encryption import Context, Draw
from dprelease.mpc.modulus import RING, Field, Modulus
from dprelease.mpc.proof.claim import Claim
from dprelease.mpc.proof.parts import encoded_answer
from dprelease.mpc.proof.plan import ProofPlan
from dprelease.mpc.proof.same import Coin, Fingerprint
from dprelease.mpc.ring import Words, chunk_rows

COORDINATOR = ""
"""Stands for the coordinator as a dealer; no party can have this name."""

WORD_BYTES = 8
SEED_BYTES = 32
SEAL_BYTES = 48
"""Bytes that sealing to one recipient adds: a public key and an authentication tag."""
TAG_BYTES = 16
_CHALLENGE_SIZES = {"challenge-1": SEED_BYTES, "challenge-2": SEED_BYTES, "challenge-3": 3 * SEED_BYTES}


MOST_UNGROUPED = 12
"""Most parties that rotate without groups where nothing else is asked for: with so few, groups would save little."""


def groups_of(parties: int) -> int:
    """Groups of so many parties that rotate; 0 for none. With sqrt(m) of them nobody deals for many more pairs than without."""
    return math.isqrt(parties) if parties > MOST_UNGROUPED else 0


@dataclass(frozen=True)
class Pair:
    """Two parties, the earlier in their order first, and who deals their randomness."""

    first: str
    second: str
    dealer: str

    @property
    def parties(self) -> tuple[str, str]:
        """The two, in order."""
        return self.first, self.second

    def has(self, party: str) -> bool:
        """Tells whether the party is one of the two."""
        return party in self.parties

    def other(self, party: str) -> str:
        """The party that is not this one."""
        return self.second if party == self.first else self.first


@dataclass(frozen=True)
class Schedule:
    """Dealers, receivers and sizes of one computation.

    Attributes:
        task: digest of what the products are for; every message and every ciphertext is bound to it.
        widths: party to d_j, the columns of its matrix, in the parties' order.
        rows: n, of every matrix.
        bits: b, where |q| <= 2^b for every element of every matrix.
        collusion_threshold: t, parties that may pool what they saw; 0 for one party alone.
        rotating: whether parties deal for one another; else the coordinator deals for every pair.
        groups: g, where one party deals for all pairs of two groups; 0 where each pair has the next party outside it.
        modulus: what everything is computed modulo.
        claims: party to what it proves of its matrix to its verifiers; empty where nothing is proved.

    Raises:
        InvalidInput: parties cannot deal for one another here, or claims do not fit the matrices or the modulus.
    """

    task: str
    widths: Mapping[str, int]
    rows: int
    bits: int
    collusion_threshold: int
    rotating: bool
    modulus: Modulus = RING
    claims: Mapping[str, Claim] = field(default_factory=dict)
    groups: int = 0

    def __post_init__(self) -> None:
        if self.rotating and (len(self.widths) < 3 or self.collusion_threshold > 1):
            raise InvalidInput(
                "parties deal for one another only if there are three and none of them pools with another"
            )
        if self.groups and not (self.rotating and 3 <= self.groups <= len(self.widths)):
            raise InvalidInput("parties deal for one another in three groups or more, and no group is empty")
        if self.claims and {name: len(claim.columns) for name, claim in self.claims.items()} != dict(self.widths):
            raise InvalidInput("a session with proofs has a claim about each column of every party")
        if self.claims and not isinstance(self.modulus, Field):
            raise InvalidInput("proofs need a field: claims are for sessions modulo a prime")

    @property
    def parties(self) -> tuple[str, ...]:
        """Names, in their order."""
        return tuple(self.widths)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, in the parties' order."""
        names, count = self.parties, self.groups or len(self.parties)
        group = [place * count // len(names) for place in range(len(names))]
        dealers = {(a, b): self._dealer_between(a, b, group) for a in range(count) for b in range(a, count)}
        return tuple(
            Pair(first, second, dealers[group[place], group[later]])
            for place, first in enumerate(names)
            for later, second in enumerate(names[place + 1 :], place + 1)
        )

    def _dealer_between(self, one: int, other: int, group: list[int]) -> str:
        """The dealer of the pairs of two groups: a party of the next group that is neither, the same for all of these pairs."""
        if not self.rotating:
            return COORDINATOR
        count = group[-1] + 1
        third = next(each for each in ((other + step) % count for step in range(1, count)) if each != one)
        first, size = group.index(third), group.count(third)
        return self.parties[first + (one + other) % size]  # a group's parties share its work

    def dealt_by(self, dealer: str) -> tuple[Pair, ...]:
        """The pairs that a dealer deals for."""
        return self._dealt.get(dealer, ())

    def receivers(self, dealer: str) -> tuple[str, ...]:
        """Whom a dealer deals to, in the parties' order."""
        return tuple(self._partners.get(dealer, {}))

    def dealers_of(self, party: str) -> tuple[str, ...]:
        """Dealers of a party, each once."""
        return self._dealers[party]

    def partners(self, party: str, dealer: str) -> tuple[str, ...]:
        """Partners of a party in the pairs of a dealer, in the parties' order: who gets its columns under that mask."""
        return self._partners.get(dealer, {}).get(party, ())

    def verifiers(self, prover: str, dealer: str) -> tuple[str, ...]:
        """Partners of a party in the pairs of a dealer that check its claim; none where nothing is proved.

        The t parties behind it check, in cyclic order. At most t parties pool, and it is one of these if it cheats, so that one
        verifier is honest. All others get the same bytes, or columns that are compared (`proof.same`).
        """
        behind = self._behind.get(prover, frozenset())
        return tuple(each for each in self.partners(prover, dealer) if each in behind)

    # Each message is checked against the schedule, and there are as many as pairs: so it is looked up, not searched.

    @cached_property
    def _dealt(self) -> Mapping[str, tuple[Pair, ...]]:
        found: dict[str, list[Pair]] = {}
        for pair in self.pairs:
            found.setdefault(pair.dealer, []).append(pair)
        return {dealer: tuple(pairs) for dealer, pairs in found.items()}

    @cached_property
    def _behind(self) -> Mapping[str, frozenset[str]]:
        names, steps = self.parties, range(1, self.collusion_threshold + 1)
        found = {name: [names[(place + step) % len(names)] for step in steps] for place, name in enumerate(names)}
        return {name: frozenset(behind) for name, behind in found.items()} if self.claims else {}

    @cached_property
    def _proofs(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        return {
            dealer: tuple((prover, each) for prover in partners for each in self.verifiers(prover, dealer))
            for dealer, partners in self._partners.items()
        }

    @cached_property
    def _pair(self) -> Mapping[frozenset[str], Pair]:
        return {frozenset(pair.parties): pair for pair in self.pairs}

    @cached_property
    def _dealers(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {name: {} for name in self.parties}
        for pair in self.pairs:
            found[pair.first][pair.dealer] = found[pair.second][pair.dealer] = None
        return {name: tuple(dealers) for name, dealers in found.items()}

    @cached_property
    def _partners(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        place = {name: at for at, name in enumerate(self.parties)}.__getitem__
        found = {}
        for dealer, pairs in self._dealt.items():
            partners: dict[str, list[str]] = {}
            for pair in pairs:
                partners.setdefault(pair.first, []).append(pair.second)
                partners.setdefault(pair.second, []).append(pair.first)
            found[dealer] = {name: tuple(sorted(partners[name], key=place)) for name in sorted(partners, key=place)}
        return found

    @property
    def chunk_rows(self) -> int:
        """Rows of every chunk but the last, the same for all parties: `ring.chunk_rows` of the widest."""
        return chunk_rows(max(self.widths.values()))

    @property
    def chunks(self) -> int:
        """Chunks of every party's columns."""
        return -(-self.rows // self.chunk_rows)

    def row_chunks(self) -> Iterator[tuple[int, int]]:
        """(first, number) of the rows of each chunk."""
        starts = range(0, self.rows, self.chunk_rows)
        return ((start, min(self.chunk_rows, self.rows - start)) for start in starts)

    def columns_size(self, party: str) -> int:
        """Bytes of a party's masked columns as they travel: 8 n d_j and a tag for each chunk."""
        return WORD_BYTES * self.rows * self.widths[party] + TAG_BYTES * self.chunks

    def seeds(self, receiver: str, dealer: str) -> int:
        """Seeds that a dealer deals to a party for itself: of its mask, and of its proofs if there are any."""
        return 2 if self.verifiers(receiver, dealer) else 1

    def proofs(self, dealer: str) -> tuple[tuple[str, str], ...]:
        """(prover, verifier) of all proofs with one dealer's help; none where nothing is proved."""
        return self._proofs.get(dealer, ())

    def compared(self, dealer: str) -> tuple[str, ...]:
        """Parties whose columns are compared, and whose masks a dealer sums for that alone: it helps with none of their proofs."""
        dealt = self.receivers(dealer) if self.checked_size else ()
        return tuple(party for party in dealt if not self.verifiers(party, dealer))

    def pair_of(self, one: str, other: str) -> Pair | None:
        """The pair of two parties, in any order; None if they are none."""
        return self._pair.get(frozenset((one, other)))

    def dealer_of(self, one: str, other: str) -> str:
        """The dealer of a pair; its parties in any order."""
        return self._pair[frozenset((one, other))].dealer

    def proof_plan(self, prover: str, receiver: str, session: str = "") -> ProofPlan:
        """The proof of one party towards its verifier; sizes do not depend on the session."""
        context = Context("proof", self.task, session, prover, receiver, self.dealer_of(prover, receiver))
        assert isinstance(self.modulus, Field)  # noqa: S101 - validated
        return ProofPlan(self.claims[prover], self.rows, context, self.modulus)

    def tosser(self, prover: str) -> str:
        """The party that tosses the coin about a prover's columns: the party behind it, in their cyclic order."""
        return self.parties[(self.parties.index(prover) + 1) % len(self.parties)]

    def coin(self, prover: str, seed: bytes, session: str) -> Coin:
        """A coin about a prover's columns in a session."""
        assert isinstance(self.modulus, Field)  # noqa: S101 - validated
        return Coin(seed, self.modulus, self.widths[prover], Context("same", self.task, session, prover, "", ""))

    @property
    def checked_size(self) -> int:
        """Bytes of the comparison that a party shows of all other parties' columns: an element for each."""
        return WORD_BYTES * (len(self.parties) - 1) if self.rotating and self.claims else 0

    def bits_size(self, party: str) -> int:
        """Bytes of the masked bits of a party's columns as they travel: 4 for each unit of a row, and a tag for each chunk."""
        return self._proof_plans[party].row_bytes * self.rows + TAG_BYTES * self.chunks

    @cached_property
    def _proof_plans(self) -> Mapping[str, ProofPlan]:
        return {name: self.proof_plan(name, self.tosser(name)) for name in self.parties}

    def message_size(self, kind: str, prover: str) -> int:
        """Bytes of a challenge, which is not sealed, or of a sealed part of a prover's proof."""
        if kind in _CHALLENGE_SIZES:
            return _CHALLENGE_SIZES[kind]
        plan = self._proof_plans[prover]
        shapes = {"matrices": plan.matrix_shapes, "lines": (plan.line_shape,), "answer": plan.answer_shapes}[kind]
        return sum(WORD_BYTES * math.prod(shape) for shape in shapes) + SEAL_BYTES

    def proofs_size(self, party: str) -> int:
        """Bytes of all that a party makes for proofs, as prover, verifier and dealer, and for the comparison of columns."""
        total = self.checked_size
        for dealer, proofs in self._proofs.items():
            total += self.bits_size(party) if self.verifiers(party, dealer) else 0
            for prover, verifier in proofs:
                makers = {"matrices": prover, "lines": prover, "answer": dealer} | dict.fromkeys(
                    _CHALLENGE_SIZES, verifier
                )
                total += sum(self.message_size(kind, prover) for kind, maker in makers.items() if maker == party)
        return total

    def deal_size(self, receiver: str, dealer: str) -> int:
        """Bytes of what a dealer deals to a party, before sealing: its own seeds and its share of every pair."""
        size, widths = self.seeds(receiver, dealer) * SEED_BYTES, self.widths
        for pair in self.dealt_by(dealer):
            if receiver == pair.first:
                size += SEED_BYTES
            elif receiver == pair.second:
                size += WORD_BYTES * widths[pair.first] * widths[pair.second]
        return size


def deal(
    schedule: Schedule, dealer: str, draw: Draw = secrets.token_bytes, kept: DealtSeeds | None = None
) -> Mapping[str, bytes]:
    """Fresh randomness for all pairs of a dealer: receiver to its deal. Every call draws anew.

    The deals must be sealed to their receivers and forgotten before any masked column leaves a hospital. Memory is bounded by a
    chunk of rows; O(n d_j d_k) operations for each pair.

    Kept are the seeds that proofs and the comparison of columns need; all others live in this call only.
    """
    pairs = schedule.dealt_by(dealer)
    masks = {name: draw(SEED_BYTES) for name in schedule.receivers(dealer)}
    products = _products(schedule, pairs, masks)
    proofs = {name: draw(SEED_BYTES) if schedule.verifiers(name, dealer) else b"" for name in masks}
    if kept is not None:
        kept.keep(schedule, dealer, masks, proofs)
    dealt = {name: seed + proofs[name] for name, seed in masks.items()}
    for pair in pairs:
        seed = draw(SEED_BYTES)
        correction = schedule.modulus.subtract(products[pair], _pad(seed, schedule, pair))
        dealt[pair.first] += seed
        dealt[pair.second] += correction.astype("<u8").tobytes()
    return dealt


class DealtSeeds:
    """Seeds that a dealer holds, in memory alone, until each has served once: a proof, or else the comparison of columns.

    A dealer that has lost them answers no more, and the session is begun anew. Two answers about one proof would show its
    verifier single rows (docs/range_proofs.md 3).
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[Schedule, bytes, bytes]] = {}  # of (prover, verifier), or (prover, "")

    def keep(self, schedule: Schedule, dealer: str, masks: Mapping[str, bytes], proofs: Mapping[str, bytes]) -> None:
        """Hold the seeds of a deal, and none of an earlier one; arguments as `deal` has them."""
        serve = [*schedule.proofs(dealer), *((prover, "") for prover in schedule.compared(dealer))]
        self._open = {(prover, each): (schedule, masks[prover], proofs[prover]) for prover, each in serve}

    def answer(
        self, session: str, prover: str, receiver: str, challenges: bytes, same: Fingerprint | None = None
    ) -> bytes:
        """The one answer about a proof: 8 (lines + 3) bytes, to 96 bytes of challenges. Its seeds are let go of first.

        The fingerprint of the prover's masks is taken on the way.

        Raises:
            Conflict: it was answered, or the seeds are gone.
        """
        (schedule, mask, proof), width = self._taken(prover, receiver)
        first, second, third = (challenges[at : at + SEED_BYTES] for at in range(0, 3 * SEED_BYTES, SEED_BYTES))
        plan = schedule.proof_plan(prover, receiver, session)
        rows = partial(schedule.modulus.read, mask, width=width)
        return encoded_answer(plan, rows, proof, (first, second, third), same)

    def compare(self, prover: str, same: Fingerprint) -> None:
        """Take the fingerprint of a prover's masks, where no answer does. The seed is let go of first.

        Raises:
            Conflict: it was taken, or the seed is gone.
        """
        (schedule, mask, _), width = self._taken(prover, "")
        for _chunk in same.through(schedule.modulus.read(mask, *rows, width) for rows in schedule.row_chunks()):
            pass

    def _taken(self, prover: str, verifier: str) -> tuple[tuple[Schedule, bytes, bytes], int]:
        """Seeds that serve once, and the number of the prover's columns."""
        held = self._open.pop((prover, verifier), None)
        if held is None:
            raise Conflict(f"the dealer of {prover} has answered {verifier or 'everybody'}, or holds nothing any more")
        return held, held[0].widths[prover]

    def forget(self) -> None:
        """Let go of everything: the session is given up, or over."""
        self._open.clear()


def _products(schedule: Schedule, pairs: tuple[Pair, ...], seeds: Mapping[str, bytes]) -> dict[Pair, Words]:
    widths, modulus = schedule.widths, schedule.modulus
    sums = {pair: np.zeros((widths[pair.first], widths[pair.second]), np.uint64) for pair in pairs}
    for start, rows in schedule.row_chunks():
        masks = {name: modulus.read(seed, start, rows, widths[name]) for name, seed in seeds.items()}
        for pair in pairs:
            sums[pair] = modulus.add(sums[pair], modulus.product(masks[pair.first], masks[pair.second]))
    return sums


def _pad(seed: bytes, schedule: Schedule, pair: Pair) -> Words:
    """PRG(r_jk), (d_j, d_k)."""
    widths = schedule.widths
    rows, width = widths[pair.first], widths[pair.second]
    return schedule.modulus.read(seed, 0, rows * width, 1).reshape(rows, width)


@dataclass(frozen=True, repr=False)
class CorrelatedRandomness:
    """Correlated randomness of one party from one dealer: its mask, and an additive share of A_j^T A_k for each pair.

    Attributes:
        dealer: who.
        mask: seed of our mask A in this dealer's pairs.
        proof: seed of the dealer's side of our proofs; empty where it helps with none.
        shares: for each of our pairs of this dealer PRG(r), if we are first, or C - PRG(r), if we are second.
        digests: SHA-256 of every seed in it, by which a reuse is recognised.
    """

    dealer: str
    mask: bytes
    proof: bytes
    shares: Mapping[Pair, Words]
    digests: tuple[str, ...]


def read_randomness(data: bytes, schedule: Schedule, receiver: str, dealer: str) -> CorrelatedRandomness:
    """Take a deal apart.

    Raises:
        IntegrityError: it has another length than the schedule calls for, or a word that is no element.
    """
    who = dealer or "the coordinator"
    if len(data) != schedule.deal_size(receiver, dealer):
        raise IntegrityError(f"{who} dealt something of another shape than this release needs")
    widths, position = schedule.widths, schedule.seeds(receiver, dealer) * SEED_BYTES
    seeds, shares = [data[at : at + SEED_BYTES] for at in range(0, position, SEED_BYTES)], {}
    mask, proof = seeds[0], b"".join(seeds[1:])
    for pair in schedule.dealt_by(dealer):
        if receiver == pair.first:
            seeds.append(data[position : position + SEED_BYTES])
            shares[pair] = _pad(seeds[-1], schedule, pair)
            position += SEED_BYTES
        elif receiver == pair.second:
            shape = widths[pair.first], widths[pair.second]
            words = np.frombuffer(data, "<u8", shape[0] * shape[1], position)
            shares[pair] = schedule.modulus.canonical(words.reshape(shape).astype(np.uint64), f"what {who} dealt")
            position += WORD_BYTES * words.size
    return CorrelatedRandomness(dealer, mask, proof, shares, tuple(seed_digest(seed) for seed in seeds))


def seed_digest(seed: bytes) -> str:
    """A seed's name in a party's list of those that it has used; it does not give the seed away."""
    return sha256(b"dprelease/moments/seed/v1" + seed)
