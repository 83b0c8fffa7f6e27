"""R's part of a proof: fresh challenges, each after what it is about, and the decision.

Source: docs/range_proofs.md 3, steps 2, 4, 6 and 7; the equations in `plan`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dprelease.errors import Conflict, IntegrityError, InvalidInput, ProofRefused
from dprelease.mpc.encryption import Draw
from dprelease.mpc.modulus import Elements
from dprelease.mpc.proof.claim import Bits
from dprelease.mpc.proof.plan import SEED_BYTES, Challenges, Matrices, ProofPlan
from dprelease.mpc.proof.same import Fingerprint
from dprelease.mpc.proof.sweeps import (
    OwnSums,
    RowEntries,
    Side,
    coefficients,
    folded,
    of_directions,
    of_fold,
    of_matrices,
    regrouped,
    repeated,
    traced,
)
from dprelease.mpc.ring import Words

_CHALLENGES = 3


@dataclass(frozen=True, repr=False)
class RangeVerifier:
    """R towards one P: what has been sent and got so far. Each step gives a new one, to be frozen on disk before anything is sent.

    The first challenge is drawn for a commitment that is there: U, u and chi, whose digests everybody has signed. Each later one is
    drawn when the message that it is about has come, and that message stays. So no challenge is known before what it checks.

    Guarantee: if D is honest and the claim is false of some row of U - A, `check` passes with probability below 6/p < 2^-58.4,
    whatever P does, but for the ciphers.

    Attributes:
        plan: the public parameters.
        chi: 32 bytes, part of P's commitment.
        challenges: seeds of c1, c2 and c3, as far as they are drawn.
        messages: P's answers to c1 and c2, as far as they have come.
    """

    plan: ProofPlan
    chi: bytes
    challenges: tuple[bytes, ...]
    messages: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        seeds = (self.chi, *self.challenges)
        if len(self.challenges) != len(self.messages) + 1 or any(len(seed) != SEED_BYTES for seed in seeds):
            raise InvalidInput("a verifier has seeds of 32 bytes, and one challenge more than messages")

    @classmethod
    def begin(cls, plan: ProofPlan, chi: bytes, draw: Draw = secrets.token_bytes) -> RangeVerifier:
        """Draw the first challenge, for a commitment that is fixed, with the chi that P sent with its columns.

        Raises:
            IntegrityError: chi has another length.
        """
        if len(chi) != SEED_BYTES:
            raise IntegrityError(f"a seed of {SEED_BYTES} bytes comes with masked columns, not one of {len(chi)}")
        return cls(plan, chi, (draw(SEED_BYTES),))

    def take(self, message: bytes, draw: Draw = secrets.token_bytes) -> RangeVerifier:
        """Take P's answer to the last challenge, shares of M and every K, then of T, and draw the next.

        Raises:
            IntegrityError: the message has another length, or a number that is no element.
            Conflict: all challenges are drawn.
        """
        if len(self.challenges) == _CHALLENGES:
            raise Conflict("a verifier draws three challenges, once")
        made = replace(self, challenges=(*self.challenges, draw(SEED_BYTES)), messages=(*self.messages, message))
        made.shares()
        return made

    def shares(self) -> tuple[Words, ...]:
        """P's shares so far: M and every K, then T.

        Raises:
            IntegrityError: a message has another length, or a number that is no element.
        """
        shapes = (self.plan.matrix_shapes, (self.plan.line_shape,))
        read = zip(self.messages, shapes, strict=False)
        return tuple(part for data, shape in read for part in self._decoded(data, shape))

    def _decoded(self, data: bytes, shapes: tuple[tuple[int, ...], ...]) -> tuple[Words, ...]:
        try:
            return self.plan.field.decode(data, shapes, "a part of a proof")
        except IntegrityError as error:
            raise ProofRefused(error.message) from error

    def check(self, answer: bytes, columns: Iterable[tuple[Words, Bits]]) -> None:
        """Decide, in one sweep over what P committed to; arguments and errors as of `checked`."""
        for _ in self.checked(answer, columns):
            pass

    def checked(
        self, answer: bytes, columns: Iterable[tuple[Words, Bits]], same: Fingerprint | None = None
    ) -> Iterator[Words]:
        """The same columns again, for whoever uses them, and the decision behind the last of them.

        Nothing may be made of the columns if this raises. Proof and use read the same bytes, once.

        Columns come in pieces of U, (r, d) as they came, and u, (r, units), of as many rows; their fingerprint is taken on the way.

        Raises:
            ProofRefused: the proof does not show the claim, or an answer has another form than the plan says. It names no
                equation: the sentence is the same whoever deviated.
            IntegrityError: columns or bits have another form.
            Conflict: challenges are missing.
        """
        if len(self.challenges) != _CHALLENGES:
            raise Conflict("a verifier decides after three challenges")
        plan = self.plan
        g, scalars = self._decoded(answer, plan.answer_shapes)
        *matrices, lines = self.shares()
        first, second, third = self.challenges
        challenges = plan.challenges((first, second, third))
        sums = VerifierSums(plan, challenges, plan.chi(self.chi), g)
        yield from sums.through(columns, same)
        if any(residuals(plan, challenges, (tuple(matrices), lines), sums.own, scalars)):
            raise ProofRefused("the proof that masked columns lie in their bounds failed")


class VerifierSums:
    """R's part of equation (1), and <f, g>, with g of D, (lines,)."""

    def __init__(self, plan: ProofPlan, challenges: Challenges, chi: Elements, g: Words) -> None:
        self._plan, self._challenges, self._chi, self._g = plan, challenges, chi, g
        self._entries, self._own = RowEntries(plan, challenges[1].left), OwnSums(plan, challenges[0], 1)
        self._product = self._ones = 0

    def through(self, columns: Iterable[tuple[Words, Bits]], same: Fingerprint | None = None) -> Iterator[Words]:
        """The masked columns, in pieces, once each has been added.

        Raises:
            IntegrityError: there are more or fewer rows or columns, or a number is no element.
        """
        plan, (first, _, third), start = self._plan, self._challenges, 0
        field = plan.field
        for shown, bits in regrouped(columns, plan.chunk_rows):
            rows = len(shown)
            if shown.shape != (rows, plan.width) or bits.shape != (rows, plan.units) or start + rows > plan.rows:
                raise IntegrityError("masked columns and their bits have another shape than the plan of the proof")
            field.canonical(shown, "masked columns")
            alpha = first.alpha(start, rows)
            side = Side(lambda _first, _rows, bits=bits: bits, lambda _first, _rows, shown=shown: shown)  # type: ignore[misc]
            weights = field.multiply(alpha, repeated(third.left, rows))
            f = folded(plan, self._entries(side, start, rows), weights, self._chi, start)
            at = start // plan.line * plan.entries
            self._product += field.dot(f.reshape(-1), self._g[at : at + f.size])
            self._own.add(shown, alpha, start, same)
            self._ones += int(field.total(alpha[None], 1)[0])
            start += rows
            yield shown
        if start != plan.rows:
            raise IntegrityError("masked columns and their bits have another shape than the plan of the proof")

    @property
    def own(self) -> tuple[int, int]:
        """Both, once all rows went through."""
        plan, p = self._plan, self._plan.field.p
        constant = coefficients(plan, self._challenges[0]).constant
        return (self._own.total + self._ones * constant) % p, self._product % p


def residuals(
    plan: ProofPlan, challenges: Challenges, shares: tuple[Matrices, Words], own: tuple[int, int], scalars: Words
) -> tuple[int, int, int]:
    """How far each of the three equations is from holding: 0 for all, if P is honest."""
    (first, second, third), (matrices, lines), p = challenges, shares, plan.field.p
    z = [int(each) for each in scalars]
    return (
        (own[0] + of_matrices(plan, first, matrices) + z[0]) % p,
        (of_directions(plan, second, matrices) - traced(plan, lines) + z[1]) % p,
        (of_fold(plan, third, lines) + z[2] - own[1]) % p,
    )
