"""The three parts of a proof: those of P, who proves, of R, who verifies and decides, and of D, who dealt and sees no column.

P sends bits with its masked columns and answers two challenges. R draws fresh challenges, each after what it is about. D gives one
answer, from what it dealt and R's three challenges:

    g = Y tau' + psi      z_1, z_2, z_3 = what D's columns and shares of M, K and T add to equations (1), (2) and (3)

Source: docs/range_proofs.md 3; the equations in `plan`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dprelease.arrays import let_go
from dprelease.errors import Conflict, IntegrityError, InvalidInput, ProofRefused
from dprelease.mpc.encryption import Draw
from dprelease.mpc.modulus import Elements
from dprelease.mpc.proof.claim import Bits
from dprelease.mpc.proof.plan import SEED_BYTES, Challenges, Lines, Matrices, ProofPlan
from dprelease.mpc.proof.same import Fingerprint
from dprelease.mpc.proof.sweeps import (
    ColumnRows,
    OwnSums,
    RowEntries,
    Side,
    coefficients,
    folded,
    line_products,
    matrices,
    of_directions,
    of_fold,
    of_matrices,
    regrouped,
    repeated,
    traced,
)
from dprelease.mpc.ring import Words


class RangeProver:
    """P towards one receiver. The same arguments give the same bytes; two challenges give answers under independent masks.

    Guarantee: R, whatever challenges it tells to whom, learns that the claim is true of every row, and nothing else. All that P
    sends is for R alone. D, who knows its shares, would read bits from M or T.

    Args:
        plan: the public parameters.
        codes: (n, d), Q.
        masks: rows of A as dealt.
        seed: 32 bytes that D dealt to P for proofs; secret from every receiver.
        chi: 32 bytes that P drew and gives to R with its columns; secret from D.
        plain: (n, units) our bits by the claim, from where they are kept.

    Raises:
        InvalidInput: codes or a seed have another shape than the plan.
    """

    def __init__(
        self,
        plan: ProofPlan,
        codes: npt.NDArray[np.signedinteger],
        masks: ColumnRows,
        seed: bytes,
        chi: bytes,
        plain: Bits,
    ) -> None:
        if codes.shape != (plan.rows, plan.width) or {len(seed), len(chi)} != {SEED_BYTES}:
            raise InvalidInput(f"codes of shape {codes.shape}, or a seed, do not fit the plan of the proof")
        self.plan, self._codes, self._seed, self._chi = plan, codes, seed, chi
        self._stream = plan.bit_masks(seed)
        self._dealer = Side(self._masks, masks)
        self._plain = plain
        self._receiver = Side(self.masked_bits, self.masked_columns)

    def bits(self, chunks: Iterable[tuple[int, int]]) -> Iterator[Bits]:
        """The chunks of u, (r, units), from even rows on: what P sends beside its masked columns, the same under one dealer."""
        return (self.masked_bits(first, rows) for first, rows in chunks)

    def first(self, challenge: bytes) -> bytes:
        """Shares of M and every K under c1: 8 (units 32^2 + sum of d_B^2) bytes."""
        plan = self.plan
        made = matrices(plan, plan.combination(challenge), self._receiver, self._dealer)
        shares = plan.matrix_share(self._seed, challenge)
        return plan.field.encode(plan.field.subtract(*pair) for pair in zip(made, shares, strict=True))

    def second(self, first: bytes, second: bytes) -> bytes:
        """Share of T under c1 and c2: 8 33^2 bytes."""
        plan = self.plan
        lines = plan.lines_share(self._seed, first, second)
        blindings = plan.chi(self._chi), lines.psi
        challenges = plan.combination(first), plan.directions(second)
        made = line_products(plan, *challenges, blindings, (self._receiver, self._dealer))
        return plan.field.encode([plan.field.subtract(made, lines.share)])

    def plain_bits(self, first: int, rows: int) -> Bits:
        """The bits of these rows, bare: they never leave P."""
        found = np.array(self._plain[first : first + rows])
        let_go(self._plain)
        return found

    def masked_bits(self, first: int, rows: int) -> Bits:
        """Rows of u."""
        return self.plain_bits(first, rows) ^ self._masks(first, rows)

    def masked_columns(self, first: int, rows: int) -> Words:
        """Rows of U = Q + A."""
        codes = self.plan.field.elements(self._codes[first : first + rows])
        return self.plan.field.add(codes, self._dealer.columns(first, rows))

    def _masks(self, first: int, rows: int) -> Bits:
        return self.plan.masks(self._stream, first, rows)


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


def encoded_answer(
    plan: ProofPlan,
    masks: ColumnRows,
    seed: bytes,
    challenges: tuple[bytes, bytes, bytes],
    same: Fingerprint | None = None,
) -> bytes:
    """g and z: 8 (lines + 3) bytes. To be made once: two answers would show R entries of D's side.

    A fingerprint of the masks is taken on the way.

    Raises:
        InvalidInput: the seed has another length.
    """
    if len(seed) != SEED_BYTES:
        raise InvalidInput(f"a secret seed has {SEED_BYTES} bytes, not {len(seed)}")
    stream = plan.bit_masks(seed)
    side = Side(lambda start, rows: plan.masks(stream, start, rows), masks)
    shares = plan.matrix_share(seed, challenges[0]), plan.lines_share(seed, challenges[0], challenges[1])
    return plan.field.encode(dealer_answer(plan, plan.challenges(challenges), side, *shares, same))


def dealer_answer(
    plan: ProofPlan,
    challenges: Challenges,
    side: Side,
    matrices: Matrices,
    lines: Lines,
    same: Fingerprint | None = None,
) -> tuple[Words, Words]:
    """g, (lines,), and z, (3,), from a and A and D's shares of M, every K, T and psi."""
    first, second, third = challenges
    entries, own, found = RowEntries(plan, second.right), OwnSums(plan, first, -1), []
    for start, rows in plan.chunks():
        weights = repeated(third.right, rows)
        found.append(folded(plan, entries(side, start, rows), weights, lines.psi, start))
        own.add(side.columns(start, rows), first.alpha(start, rows), start, same)
    scalars = (
        own.total + of_matrices(plan, first, matrices),
        of_directions(plan, second, matrices) - traced(plan, lines.share),
        of_fold(plan, third, lines.share),
    )
    return np.concatenate(found).reshape(-1), np.array([each % plan.field.p for each in scalars], np.uint64)
