"""Sums over all rows that the three parties of a proof make, chunk by chunk, from elements alone.

P makes M and K from both sides' bits and columns, and T from both sides' entries. R and D each fold the entries of their own side
by the third challenge, and add up their part of equation (1). Nothing here draws, keeps or sends anything.

Source: docs/range_proofs.md 3; the equations in `plan`.

**Signs.** Sums over signs that bits stand for are the loops over all rows that take the time of a proof.

* <sigma, e> of 32 signs is a look-up for each 11 bits. The three tables of all 2^11 sums fit the nearest cache, and are made by
  doubling.
* sum_i alpha_i e_u e_a' over rows is counted first. For each pair of a byte of u and one of a, alpha's two halves of 31 and 30
  bits are added up by the 65,536 values of the pair, in float64 and exactly for up to 2^22 rows. The 8 x 256 matrix of signs S
  then gives S H S', whose entries are sums of the same numbers with signs: exact too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.errors import IntegrityError
from dprelease.mpc.modulus import Elements, Field
from dprelease.mpc.proof.claim import Bits
from dprelease.mpc.proof.plan import Combination, Directions, Fold, Matrices, ProofPlan
from dprelease.mpc.proof.same import Fingerprint
from dprelease.mpc.ring import Words

COUNTED_ROWS = 1 << 19
"""Rows that `sign_products` takes at a time: far more than a histogram has bins, and sums stay below 2^48."""

_TABLE_BITS = 11
_BYTE = 256
_HALF_BITS = 31


class SignTables:
    """Look-up tables of <vector, e> for the signs e of one unit after another, of (units, unit) vectors."""

    def __init__(self, field: Field, vectors: Words) -> None:
        self._field = field
        unit = vectors.shape[1] if len(vectors) else 0
        self._tables = [_table(field, vectors[:, at : at + _TABLE_BITS]) for at in range(0, unit, _TABLE_BITS)]

    def sums(self, bits: Bits) -> Words:
        """(units, r) of (r, units) bits."""
        rows, units = bits.shape
        found = np.zeros((units, rows), np.uint64)
        place, more = np.empty(rows, np.intp), np.empty(rows, np.uint64)
        for unit, words in enumerate(np.ascontiguousarray(bits.T).astype(np.intp)):
            for at, table in enumerate(self._tables):
                np.right_shift(words, at * _TABLE_BITS, out=place)
                np.bitwise_and(place, table.shape[1] - 1, out=place)
                np.take(table[unit], place, out=more, mode="clip")  # no place lies outside, and this mode needs no copy
                found[unit] += more
        return self._field.reduced(found)


def _table(field: Field, vectors: Words) -> Words:
    """(units, 2^k) of (units, k): place j has the sum with the signs of j's bits."""
    size = vectors.shape[1]
    table = np.empty((len(vectors), 1 << size), np.uint64)
    table[:, 0] = field.total(vectors, 1)
    twice = field.add(vectors, vectors)
    for bit in range(size):
        half = 1 << bit
        table[:, half : 2 * half] = field.subtract(table[:, :half], twice[:, bit : bit + 1])
    return table


def sign_products(field: Field, alpha: Words, left: Bits, right: Bits, unit: int) -> Words:
    """sum_i alpha_i e_left,ih e_right,ih' for each unit h, (units, unit, unit), of (r, units) bits, r <= `COUNTED_ROWS`."""
    units, size = left.shape[1], -(-unit // 8)
    halves = [(alpha & np.uint64((1 << _HALF_BITS) - 1)).astype(np.float64)]
    if field.p >> _HALF_BITS:
        halves.append((alpha >> np.uint64(_HALF_BITS)).astype(np.float64))
    found = np.zeros((units, 8 * size, 8 * size), np.uint64)
    for h in range(units):
        rights = _bytes(right[:, h], size)
        for i, upper in enumerate(_bytes(left[:, h], size)):
            upper *= _BYTE
            for j, lower in enumerate(rights):
                block = _counted(field, upper + lower, halves)
                found[h, 8 * i : 8 * i + 8, 8 * j : 8 * j + 8] = block
    return np.ascontiguousarray(found[:, :unit, :unit])


def _bytes(words: npt.NDArray[np.uint32], size: int) -> list[npt.NDArray[np.intp]]:
    return [(words >> np.uint32(8 * place) & np.uint32(_BYTE - 1)).astype(np.intp) for place in range(size)]


def _counted(field: Field, places: npt.NDArray[np.intp], halves: list[Floats]) -> Words:
    """(8, 8) from the pair of bytes of each row and alpha's halves."""
    total = np.zeros((8, 8), np.uint64)
    for place, half in enumerate(halves):
        sums = np.bincount(places, half, _BYTE * _BYTE).reshape(_BYTE, _BYTE)
        signed = _signs() @ sums @ _signs().T
        total = field.add(total, field.scaled(1 << _HALF_BITS * place, field.elements(signed.astype(np.int64))))
    return total


@cache
def _signs() -> Floats:
    """(8, 256): the sign of each bit of a byte."""
    return (1 - 2 * (np.arange(_BYTE) >> np.arange(8)[:, None] & 1)).astype(np.float64)


def in_lines(values: Words, line: int) -> Words:
    """(entries, r) as (entries, blocks, line), rows that are missing being 0."""
    entries, rows = values.shape
    blocks = -(-rows // line)
    if rows == blocks * line:
        return values.reshape(entries, blocks, line)
    padded = np.zeros((entries, blocks * line), np.uint64)
    padded[:, :rows] = values
    return padded.reshape(entries, blocks, line)


BitRows = Callable[[int, int], Bits]
"""(first, number) to the bits of these rows; first is even."""
ColumnRows = Callable[[int, int], Words]
"""(first, number) to the elements of these rows, (number, d); first is even."""


@dataclass(frozen=True)
class Side:
    """One side's shares of bits and columns: u and U at R, a and A at D, both at P.

    Attributes:
        bits: (rows, units).
        columns: (rows, d).
    """

    bits: BitRows
    columns: ColumnRows


def matrices(plan: ProofPlan, challenge: Combination, receiver: Side, dealer: Side) -> Matrices:
    """M and every K."""
    field = plan.field
    found = [np.zeros(shape, np.uint64) for shape in plan.matrix_shapes]
    most = max(1, COUNTED_ROWS // (2 * plan.line)) * 2 * plan.line
    for first, rows in plan.chunks(most):
        alpha = challenge.alpha(first, rows)
        more = sign_products(field, alpha, receiver.bits(first, rows), dealer.bits(first, rows), plan.unit)
        found[0] = field.add(found[0], more)
    if plan.claim.norms:
        for first, rows in plan.chunks():
            alpha = challenge.alpha(first, rows)[:, None]
            left, right = receiver.columns(first, rows), dealer.columns(first, rows)
            for place, norm in enumerate(plan.claim.norms, 1):
                columns = list(norm.columns)
                more = field.product(field.multiply(left[:, columns], alpha), right[:, columns])
                found[place] = field.add(found[place], more)
    return tuple(found)


class RowEntries:
    """<sigma, entry> for every entry of rows of one side, or with tau for sigma."""

    def __init__(self, plan: ProofPlan, vectors: tuple[Words, ...]) -> None:
        self._field = plan.field
        self._tables = SignTables(plan.field, vectors[0])
        norms = zip(plan.claim.norms, vectors[1:], strict=True)
        self._norms = [(list(norm.columns), vector) for norm, vector in norms]

    def __call__(self, side: Side, first: int, rows: int) -> Words:
        """(entries, rows); columns are only asked for if there are norms."""
        found = self._tables.sums(side.bits(first, rows))
        if not self._norms:
            return found
        field, shown = self._field, side.columns(first, rows)
        norms = [field.total(field.multiply(shown[:, places], vector), 1) for places, vector in self._norms]
        return np.concatenate([found, np.stack(norms)])


def line_products(
    plan: ProofPlan,
    challenge: Combination,
    directions: Directions,
    blindings: tuple[Elements, Elements],
    sides: tuple[Side, Side],
) -> Words:
    """T = [X chi]' [Y psi], from R's and D's sides."""
    field, entries = plan.field, (RowEntries(plan, directions.left), RowEntries(plan, directions.right))
    total = np.zeros(plan.line_shape, np.uint64)
    for first, rows in plan.chunks():
        receiver, dealer = (each(side, first, rows) for each, side in zip(entries, sides, strict=True))
        weighed = field.multiply(receiver, challenge.alpha(first, rows))
        left, right = (
            _blinded(plan, in_lines(values, plan.line), blinding, first)
            for values, blinding in zip((weighed, dealer), blindings, strict=True)
        )
        total = field.add(total, field.product(left, right))
    return total


def _blinded(plan: ProofPlan, lines: Words, blinding: Elements, first: int) -> Words:
    """(entries, blocks, line) as a matrix of lines, with one blinding element behind each."""
    entries, blocks, line = lines.shape
    out = np.empty((entries, blocks, line + 1), np.uint64)
    out[..., :line] = lines
    out[..., line] = blinding_of(plan, blinding, first, blocks)
    return out.reshape(-1, line + 1)


def blinding_of(plan: ProofPlan, blinding: Elements, first: int, blocks: int) -> Words:
    """Elements of the lines of some rows: (entries, blocks). The stream has one block of rows after the other."""
    start = first // plan.line * plan.entries
    return blinding(start, blocks * plan.entries).reshape(blocks, plan.entries).T


def folded(plan: ProofPlan, entries: Words, weights: Words, blinding: Elements, first: int) -> Words:
    """For each line the sum of (entries, r) entries times (r,) weights, and its blinding: a chunk of f or g, (blocks, entries).

    Weights are the third challenge for these rows, times alpha on R's side.
    """
    field = plan.field
    sums = field.total(in_lines(field.multiply(entries, weights), plan.line), 2)
    return field.add(sums, blinding_of(plan, blinding, first, sums.shape[1])).T


def repeated(vector: Words, rows: int) -> Words:
    """The third challenge for each of so many rows from the beginning of a line."""
    return np.tile(vector, -(-rows // len(vector)))[:rows]


# Equation (1), whose parts R, P's matrices and D add to.


@dataclass(frozen=True)
class Coefficients:
    """Equation (1) of one first challenge, sorted by what is multiplied.

    Attributes:
        columns: (d,), of U or -A, each weighted by alpha: gamma + delta of its groups.
        diagonal: (bits,), of the diagonal of M, bit by bit.
        constant: of the sum of alpha.
    """

    columns: Words
    diagonal: Words
    constant: int


def coefficients(plan: ProofPlan, challenge: Combination) -> Coefficients:
    """Coefficients of equation (1)."""
    field, claim = plan.field, plan.claim
    columns = [int(each) for each in challenge.gamma]
    numbers = [-each for each in columns]
    constant = 0
    for each, group in zip(challenge.delta, claim.groups, strict=True):
        constant -= int(each) * group.level
        for place in group.columns:
            columns[place] += int(each)
        if group.open:
            numbers.append(int(each))
    for each, norm in zip(challenge.theta, claim.norms, strict=True):
        constant -= int(each) * norm.squared
        numbers.append(int(each))
    for weight, number in zip(numbers, claim.numbers, strict=True):
        constant += weight * (number.lower + number.step * number.span * field.half)
    reduced = np.array([weight % field.p for weight in numbers], np.uint64)
    diagonal = field.multiply(reduced[claim.number_of], field.elements(claim.weights))
    return Coefficients(
        np.array([each % field.p for each in columns], np.uint64),
        field.scaled(-field.half, diagonal),
        constant % field.p,
    )


def of_matrices(plan: ProofPlan, challenge: Combination, shares: Matrices) -> int:
    """The part of equation (1) that is linear in M and K, of the matrices or of shares of them."""
    field, bits = plan.field, len(plan.claim.weights)
    diagonal = np.diagonal(shares[0], axis1=1, axis2=2).reshape(-1)[:bits]
    total = field.dot(coefficients(plan, challenge).diagonal, diagonal)
    for each, share in zip(challenge.theta, shares[1:], strict=True):
        total -= 2 * int(each) * _trace(share)
    return total % field.p


class OwnSums:
    """One side's own part of equation (1), but for the sum of alpha: linear in its columns, and their squares in norms.

    The sign is 1 for U, -1 for A.
    """

    def __init__(self, plan: ProofPlan, challenge: Combination, sign: int) -> None:
        self._plan, self._challenge = plan, challenge
        self._columns = plan.field.scaled(sign, coefficients(plan, challenge).columns)
        self.total = 0

    def add(self, columns: Words, alpha: Words, first: int, same: Fingerprint | None) -> None:
        """Add rows: (r, d) columns, whose fingerprint is taken on the way, and (r,) of alpha."""
        field = self._plan.field
        vectors = [alpha] if same is None else [alpha, same.rows(first, len(columns))]
        sums = field.product(columns, np.stack(vectors, 1))
        if same is not None:
            same.add(np.ascontiguousarray(sums[:, 1]))
        total = field.dot(np.ascontiguousarray(sums[:, 0]), self._columns)
        for each, norm in zip(self._challenge.theta, self._plan.claim.norms, strict=True):
            shown = columns[:, list(norm.columns)]
            total += int(each) * field.dot(field.multiply(shown, shown), np.broadcast_to(alpha[:, None], shown.shape))
        self.total = (self.total + total) % field.p


def of_directions(plan: ProofPlan, directions: Directions, shares: Matrices) -> int:
    """The left side of equation (2), of the matrices or of shares of them."""
    field, total = plan.field, 0
    for left, share, right in zip(directions.left, shares, directions.right, strict=True):
        total += field.dot(field.multiply(left[..., :, None], right[..., None, :]), share)
    return total % field.p


def traced(plan: ProofPlan, lines: Words) -> int:
    """The right side of equation (2), of T or of a share of it."""
    return _trace(lines[: plan.line, : plan.line]) % plan.field.p


def of_fold(plan: ProofPlan, fold: Fold, lines: Words) -> int:
    """The left side of equation (3), of T or of a share of it."""
    one = np.ones(1, np.uint64)
    outer = plan.field.multiply(np.append(fold.left, one)[:, None], np.append(fold.right, one))
    return plan.field.dot(outer, lines)


def _trace(matrix: Words) -> int:
    return sum(int(each) for each in np.diagonal(matrix))


def regrouped(pieces: Iterable[tuple[Words, Bits]], rows: int) -> Iterator[tuple[Words, Bits]]:
    """The same rows in pieces of so many, the last one smaller.

    Raises:
        IntegrityError: columns and bits of a piece do not have the same rows.
    """
    waiting: list[tuple[Words, Bits]] = []
    held = 0
    for columns, bits in pieces:
        start = 0
        if len(bits) != len(columns):
            raise IntegrityError("masked columns and their bits do not have the same rows")
        while held + len(columns) - start >= rows:
            end = start + rows - held
            waiting.append((columns[start:end], bits[start:end]))
            yield _joined(waiting)
            waiting, held, start = [], 0, end
        if start < len(columns):
            waiting.append((columns[start:], bits[start:]))
            held += len(columns) - start
    if held:
        yield _joined(waiting)


def _joined(pieces: list[tuple[Words, Bits]]) -> tuple[Words, Bits]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([each for each, _ in pieces]), np.concatenate([each for _, each in pieces])
