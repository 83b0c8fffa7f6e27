"""Sizes and randomness of one proof, from public parameters alone.

P has columns Q and shows them to R as U = Q + A; D dealt A. Bits likewise: R has u, D has a, and the bit is u xor a.
With e = 1 - 2 bit, e_u e_a = 1 - 2 (u xor a), so that a bit is (1 - e_u e_a)/2 and P's numbers are

    v = lower + step (w . bits) = (lower + W/2) - 1/2 sum_k w_k e_u,k e_a,k,      W = span step, the step in w

A row i has *entries*: for each unit h of 32 bits the signs e_u,ih and e_a,ih, for each norm B the columns U_iB and A_iB. With

    c1 = alpha_i, gamma_c, delta_g, theta_B    c2 = sigma_h, tau_h in F^32, sigma_B, tau_B in F^d_B    c3 = sigma', tau' in F^32

all uniform in the field, and M_h = sum_i alpha_i e_u,ih e_a,ih', K_B = sum_i alpha_i U_iB A_iB', the three equations are

    (1)  sum_i alpha_i [   sum_c gamma_c (q_ic - v_ic)
                         + sum_g delta_g (sum of group g - H_g)
                         + sum_B theta_B (|q_iB|^2 + s_iB - R_B) ] = 0

    (2)  sum_h sigma_h' M_h tau_h + sum_B sigma_B' K_B tau_B = sum of all X Y
             X_ih = alpha_i <sigma_h, e_u,ih>     Y_ih = <tau_h, e_a,ih>   X_iB = alpha_i <sigma_B, U_iB>   Y_iB = <tau_B, A_iB>

    (3)  (sigma', 1)' T (tau', 1) = <X sigma' + chi, Y tau' + psi>,     T = [X chi]' [Y psi]

(1) is linear in the diagonals of M and K and in sums that R or D knows: q = U - A, q^2 = U^2 - 2 U A + A^2. The sum in (2) is the
trace of T without its last row and column. For T the entries of one kind of 32 consecutive rows are a *line*: X and Y are matrices
of lines, missing rows being zero, and chi and psi have one element for each line. P sends M, K and T as additive shares. D's shares
are streams of a seed that D dealt to P, derived from c1, and from c1 and c2: two challenges are answered under independent masks.

Source: docs/range_proofs.md 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mpc.encryption import Context, derive
from dprelease.mpc.modulus import FIELD, Elements, Field
from dprelease.mpc.proof.claim import UNIT, Bits, Claim
from dprelease.mpc.ring import SecretStream, Words

SEED_BYTES = 32
LINE = 32
_CHUNK_BYTES = 1 << 21


@dataclass(frozen=True)
class Combination:
    """First challenge: one random sum of all that is claimed.

    Attributes:
        alpha: an element for each row.
        gamma: (d,) for columns.
        delta: (groups,).
        theta: (norms,).
    """

    alpha: Elements
    gamma: Words
    delta: Words
    theta: Words


@dataclass(frozen=True)
class Directions:
    """Second challenge: vectors by which P's matrices are checked.

    Attributes:
        left: sigma; (units, 32), and (d_B,) for each norm behind it.
        right: tau, the same.
    """

    left: tuple[Words, ...]
    right: tuple[Words, ...]


@dataclass(frozen=True)
class Fold:
    """Third challenge: vectors by which the matrix of lines is checked.

    Attributes:
        left: sigma', (32,).
        right: tau', (32,).
    """

    left: Words
    right: Words


Challenges = tuple[Combination, Directions, Fold]
"""All three."""

Matrices = tuple[Words, ...]
"""M, (units, 32, 32), and K, (d_B, d_B), for each norm behind it; or shares of them."""


@dataclass(frozen=True)
class Lines:
    """D's shares for the second step.

    Attributes:
        share: of T, (33, 33).
        psi: an element for each line.
    """

    share: Words
    psi: Elements


@dataclass(frozen=True)
class ProofPlan:
    """The public parameters of one proof of P towards R with D's help.

    Attributes:
        claim: what every row is to fulfil.
        rows: n.
        context: names P as sender, R as receiver and D as dealer; its purpose is replaced for every use.
        field: of the masked columns.
        unit: bits of a unit.
        line: rows of a line.

    Raises:
        InvalidInput: the field is too small for the claim.
    """

    claim: Claim
    rows: int
    context: Context
    field: Field = FIELD
    unit: int = UNIT
    line: int = LINE

    def __post_init__(self) -> None:
        if self.claim.largest >= self.field.p:
            raise InvalidInput(f"sums of a row may reach {self.claim.largest}: too much modulo {self.field.p}")
        if self.rows < 1 or not self.claim.columns or not 1 <= self.unit <= UNIT or self.line < 1:
            raise InvalidInput("a proof is about one row or more, and one column or more")

    @property
    def width(self) -> int:
        """d, columns."""
        return len(self.claim.columns)

    @cached_property
    def units(self) -> int:
        """Units of a row."""
        return self.claim.units(self.unit)

    @property
    def entries(self) -> int:
        """RowEntries of a row: units, then norms."""
        return self.units + len(self.claim.norms)

    @property
    def lines(self) -> int:
        """Lines of all rows."""
        return -(-self.rows // self.line) * self.entries

    @cached_property
    def chunk_rows(self) -> int:
        """Rows that are worked on at a time: an even number of lines; their words of columns or of entries take about 2 MiB."""
        pair = 2 * self.line
        return max(1, _CHUNK_BYTES // (8 * max(self.width, self.entries) * pair)) * pair

    def chunks(self, rows: int = 0) -> Iterator[tuple[int, int]]:
        """(first, number) of rows; a chunk has an even number of lines, `chunk_rows` by default."""
        size = rows or self.chunk_rows
        return ((start, min(size, self.rows - start)) for start in range(0, self.rows, size))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of u: 4 for each unit."""
        return 4 * self.units

    @property
    def matrix_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of M and of every K: P's first message."""
        norms = (len(norm.columns) for norm in self.claim.norms)
        return ((self.units, self.unit, self.unit), *((size, size) for size in norms))

    @property
    def line_shape(self) -> tuple[int, int]:
        """Shape of T: P's second message."""
        return self.line + 1, self.line + 1

    @property
    def answer_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of g and of D's three scalars: its answer."""
        return (self.lines,), (3,)

    def encode_bits(self, bits: Bits) -> bytes:
        """Bits as bytes: 4 for each unit, little-endian, row by row."""
        return bits.astype("<u4").tobytes()

    def decode_bits(self, data: bytes, rows: int) -> Bits:
        """Bits of so many rows from bytes; (rows, units).

        Raises:
            IntegrityError: there are more or fewer bytes.
        """
        if len(data) != self.row_bytes * rows:
            raise IntegrityError(f"bits of {rows} rows have {len(data)} bytes, not {self.row_bytes * rows}")
        return np.frombuffer(data, "<u4").reshape(rows, self.units).astype(np.uint32)

    # Challenges: the same seeds give the same elements to all three.

    def combination(self, seed: bytes) -> Combination:
        """The first challenge that a seed of R stands for."""
        sizes = (self.width, len(self.claim.groups), len(self.claim.norms))
        gamma, delta, theta = self._small(seed, "proof, columns", *((size,) for size in sizes))
        return Combination(self._stream(seed, "proof, rows"), gamma, delta, theta)

    def directions(self, seed: bytes) -> Directions:
        """The second challenge that a seed of R stands for."""
        shapes = [(self.units, self.unit), *((len(norm.columns),) for norm in self.claim.norms)]
        found = self._small(seed, "proof, directions", *shapes, *shapes)
        return Directions(found[: len(shapes)], found[len(shapes) :])

    def fold(self, seed: bytes) -> Fold:
        """The third challenge that a seed of R stands for."""
        left, right = self._small(seed, "proof, fold", (self.line,), (self.line,))
        return Fold(left, right)

    def challenges(self, seeds: tuple[bytes, bytes, bytes]) -> Challenges:
        """All three challenges."""
        return self.combination(seeds[0]), self.directions(seeds[1]), self.fold(seeds[2])

    # What P and D alone know.

    def bit_masks(self, seed: bytes) -> SecretStream:
        """The stream of a: it depends on P and D and not on R, since one u serves all receivers under one dealer."""
        context = replace(self.context, purpose="proof, bits", receiver="")
        return SecretStream(derive(seed, context))

    def masks(self, stream: SecretStream, first: int, rows: int) -> Bits:
        """a: (rows, units), first being even."""
        words = stream.read_words(first, rows, -(-self.units // 2))
        bits = words.astype("<u8").view("<u4")[:, : self.units].astype(np.uint32)
        return bits & np.uint32((1 << self.unit) - 1)

    def matrix_share(self, seed: bytes, first: bytes) -> Matrices:
        """D's shares of M and of every K, under the first challenge."""
        return self._small(seed, f"proof, matrices {first.hex()}", *self.matrix_shapes)

    def lines_share(self, seed: bytes, first: bytes, second: bytes) -> Lines:
        """D's share of T, and psi, under the first two challenges."""
        bound = f"{first.hex()} {second.hex()}"
        (share,) = self._small(seed, f"proof, lines {bound}", self.line_shape)
        return Lines(share, self._stream(seed, f"proof, blinding {bound}"))

    def chi(self, seed: bytes) -> Elements:
        """The stream of chi, from the seed that P commits to."""
        return self._stream(seed, "proof, chi")

    def _stream(self, seed: bytes, purpose: str) -> Elements:
        return self.field.uniform(seed, replace(self.context, purpose=purpose))

    def _small(self, seed: bytes, purpose: str, *shapes: tuple[int, ...]) -> tuple[Words, ...]:
        sizes = [int(np.prod(shape)) for shape in shapes]
        words = self._stream(seed, purpose)(0, sum(sizes))
        ends = np.cumsum([0, *sizes])
        return tuple(
            words[start:end].reshape(shape) for start, end, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
        )
