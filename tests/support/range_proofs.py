"""Proofs of ranges in one process: parties with seeded randomness, and provers that deviate."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers
from dprelease.mpc.encryption import Context
from dprelease.mpc.modulus import FIELD, Elements, Field
from dprelease.mpc.proof.claim import UNIT, Bits, Claim
from dprelease.mpc.proof.parts import RangeProver, RangeVerifier, VerifierSums, encoded_answer
from dprelease.mpc.proof.plan import LINE, Challenges, ProofPlan
from dprelease.mpc.proof.sweeps import ColumnRows
from dprelease.mpc.ring import Words

CONTEXT = Context("", "a" * 64, "b" * 64, "north", "south", "east")


def plan_of(claim: Claim, rows: int, field: Field = FIELD, unit: int = UNIT, line: int = LINE) -> ProofPlan:
    return ProofPlan(claim, rows, CONTEXT, field, unit, line)


def fixed(elements: Words) -> Elements:
    """A stream that is written down."""
    return lambda first, number: elements[first : first + number]


def verifier_sums(
    plan: ProofPlan, challenges: Challenges, chi: Elements, g: Words, columns: Iterable[tuple[Words, Bits]]
) -> tuple[int, int]:
    """Both of R's sums of all columns."""
    sums = VerifierSums(plan, challenges, chi, g)
    for _ in sums.through(columns):
        pass
    return sums.own


@dataclass
class Proof:
    """One proof from dealing to decision; `said` are the numbers of a liar, in steps."""

    plan: ProofPlan
    codes: npt.NDArray[np.int64]
    said: list[Integers] | None = None
    salt: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.salt).randbytes
        self.seed, self.chi = self.draw(32), self.draw(32)
        columns = self.plan.field.uniform(self.draw(32), CONTEXT)
        width = self.plan.width
        self.masks: ColumnRows = lambda first, rows: columns(first * width, rows * width).reshape(rows, width)
        claim, codes = self.plan.claim, self.codes
        bits = claim.packed(claim.steps(codes) if self.said is None else self.said, self.plan.unit)
        self.prover = RangeProver(self.plan, codes, self.masks, self.seed, self.chi, bits)
        self.verifier = RangeVerifier.begin(self.plan, self.chi, self.draw)

    def pieces(self, rows: int = 0) -> Iterator[tuple[Words, Bits]]:
        """U and u, in pieces of so many rows, all by default."""
        size = rows or self.plan.rows
        whole = self.prover.masked_columns(0, self.plan.rows), self.prover.masked_bits(0, self.plan.rows)
        return ((whole[0][at : at + size], whole[1][at : at + size]) for at in range(0, self.plan.rows, size))

    def ask(self) -> RangeVerifier:
        """Both of the prover's answers; the verifier with all three challenges."""
        asked = self.verifier.take(self.prover.first(self.verifier.challenges[0]), self.draw)
        return asked.take(self.prover.second(*asked.challenges), self.draw)

    def run(self, rows: int = 0) -> None:
        """Everything; raises if R refuses."""
        asked = self.ask()
        asked.check(self.answer(three(asked)), self.pieces(rows))

    def answer(self, challenges: tuple[bytes, bytes, bytes]) -> bytes:
        return encoded_answer(self.plan, self.masks, self.seed, challenges)


def three(verifier: RangeVerifier) -> tuple[bytes, bytes, bytes]:
    first, second, third = verifier.challenges
    return first, second, third
