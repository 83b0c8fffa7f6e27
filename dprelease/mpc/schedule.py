"""The schedule of a session, from its public parameters alone: who deals for whom, and who sends what to whom.

For every pair of hospitals somebody deals correlated randomness: with a rotating dealer the next party, in their
cyclic order, that is not in the pair; else the coordinator, whose name here is `COORDINATOR`. A hospital masks its
columns anew for every dealer, and sends them to its partners in the pairs of that dealer, never to the dealer itself.

Among m parties that rotate, a party has up to m - 1 dealers, and each party checks the headers of some m^2/2 masked columns.
In g groups, one party deals for all pairs of two groups, some (m/g)^2. A party then has at most g dealers.

Source: docs/protocol.md, steps 3 and 4 and "Whom to let deal".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dprelease.errors import InvalidInput
from dprelease.mpc.encryption import Context
from dprelease.mpc.modulus import RING, Field, Modulus
from dprelease.mpc.proof.claim import Claim
from dprelease.mpc.proof.plan import ProofPlan
from dprelease.mpc.proof.same import Coin
from dprelease.mpc.ring import chunk_rows

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
