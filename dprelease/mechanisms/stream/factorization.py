"""Factorisations A = B C of prefix sums, in integers: what is released at each checkpoint, and what learners make of it.

Let A be the T x T lower triangular matrix of ones: A x are the prefix sums of the increments x_1, ..., x_T of T checkpoints.
Released is C x plus noise whose size follows from the longest column of C alone, and learners apply B. Here C = C' is in
integers: its row r says how often each increment is counted in released row r, and D'^2 is its largest squared column norm
(docs/guarantees.md 20).

    square-root    C'_ts = round(2^12 c_(t-s) / |(c_0, ..., c_(T-s))|),  c_0 = 1, c_k = c_(k-1) (k - 1/2) / k:
                   A is the square of the matrix of all c_(t-s), whose columns are then made equally long
    weighted       where nobody knows T, the same for the most that there may be, after row t is multiplied by d_t,
                   d_0 = 1, d_t = d_(t-1) (t - 9/20) / t, so that early checkpoints do not pay for a long stream
    tree           a row of ones for each node of the binary tree over checkpoints, released where its last leaf is

Entries are computed in IEEE doubles with one rounding for each operation, in the order written here, and so are the same on every
machine; then everything is integers.

Source: Henzinger, Upadhyay and Upadhyay 2023, "Almost tight error bounds on differentially private continual counting" (square
root); Dwork et al. 2010 and Chan et al. 2011 (tree). Errors: docs/methods.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Literal

import numpy as np

from dprelease.arrays import Floats, Integers

FactorName = Literal["square-root", "weighted", "tree"]

FRACTION_BITS = 12
"""f: entries of all factors but the tree's are multiples of 2^-f."""

MOST_CHECKPOINTS = 4096
"""T at most: daily for eleven years. Learners solve T x T equations."""


_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Factor:
    """C' for every T.

    Attributes:
        rows: (checkpoint t, T) to the rows that are released at t, (k, t): weights of the increments up to t.
        count: checkpoint to how many these are.
        norm2: T to D'^2, the largest squared column norm.
        largest: largest entry.
        weights: checkpoints that were published, in order, and T, to the weights of their released rows in the prefix sum.
    """

    rows: Callable[[int, int], Integers]
    count: Callable[[int], int]
    norm2: Callable[[int], int]
    largest: int
    weights: Callable[[tuple[int, ...], int], Floats]


def coefficients(order: Fraction, count: int) -> Floats:
    """The first coefficients of the power series of (1 - z)^-a."""
    k = np.arange(1, count)
    ratios = (order.denominator * (k - 1) + order.numerator) / (order.denominator * k)
    return np.multiply.accumulate(np.concatenate([[1.0], ratios]))


@dataclass(frozen=True, eq=False)
class _Root:
    """The square root of A, its rows weighted and its columns then made equally long.

    Attributes:
        values: (T,) c_k.
        weights: (T,) of rows.
        norms: (T,) of the columns that they leave.
    """

    values: Floats
    weights: Floats
    norms: Floats

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, fall: Fraction, checkpoints: int) -> _Root:
        """Rows are weighted by coefficients of (1 - z)^-a, a = 1 - `fall`: like t^-fall."""
        values, weights = coefficients(_HALF, checkpoints), coefficients(1 - fall, checkpoints + 1)[1:]
        squares = ((values[: checkpoints - s] * weights[s:]) ** 2 for s in range(checkpoints))
        return cls(values, weights, np.sqrt([np.add.accumulate(each)[-1] for each in squares]))

    def row(self, t: int) -> Integers:
        """(t,) the row of checkpoint t on the grid."""
        return _on_grid(self.values[t - 1 :: -1] * self.weights[t - 1] / self.norms[:t])

    def column(self, s: int) -> Integers:
        """(T - s,) what checkpoints s + 1, ..., T have of increment s + 1, on the grid."""
        return _on_grid(self.values[: len(self.values) - s] * self.weights[s:] / self.norms[s])


def _on_grid(exact: Floats) -> Integers:
    return np.asarray(np.rint(exact * 2**FRACTION_BITS), np.int64)


@lru_cache(maxsize=64)
def _root_norm2(fall: Fraction, checkpoints: int) -> int:
    columns = map(_Root.of(fall, checkpoints).column, range(checkpoints))
    return max(int(column @ column) for column in columns)


def _root_weights(fall: Fraction, used: tuple[int, ...], checkpoints: int) -> Floats:
    from scipy.linalg import solve_triangular  # slow to load, and hospitals do not ask

    root, columns = _Root.of(fall, checkpoints), np.array(used) - 1
    whole = np.zeros((len(used), len(used)))
    for place, number in enumerate(used):
        whole[place, : place + 1] = root.row(number)[columns[: place + 1]]
    found: Floats = solve_triangular(whole, np.ones(len(used)), trans="T", lower=True, check_finite=False)
    return found


def _root(fall: Fraction) -> Factor:
    return Factor(
        rows=lambda checkpoint, checkpoints: _Root.of(fall, checkpoints).row(checkpoint)[None],
        count=lambda _: 1,
        norm2=partial(_root_norm2, fall),
        largest=1 << FRACTION_BITS,
        weights=partial(_root_weights, fall),
    )


def _tree_count(checkpoint: int) -> int:
    """Levels of the nodes whose last leaf it is."""
    return (checkpoint & -checkpoint).bit_length()


def _tree_rows(checkpoint: int, checkpoints: int) -> Integers:
    sizes = 1 << np.arange(_tree_count(checkpoint))
    return np.asarray(np.arange(1, checkpoint + 1) > checkpoint - sizes[:, None], np.int64)


def _tree_weights(used: tuple[int, ...], checkpoints: int) -> Floats:
    """The shortest w: of c that leaves ask for, a node that was released gives K / (1 + K) c, and its children the rest.

    K c^2 is the least sum of squares with which the children alone give c to all leaves that were published; with the node it
    is K / (1 + K) c^2.
    """
    depth = (used[-1] - 1).bit_length()
    there = np.zeros(1 << depth)
    there[np.array(used) - 1] = 1
    given, least = [there], there
    for level in range(1, depth + 1):
        below, released = least[::2] + least[1::2], there[(1 << level) - 1 :: 1 << level]
        given.append(released * below / (1 + below))
        least = below / (1 + released * below)
    asked = np.ones(1)
    for level in range(depth, -1, -1):
        given[level] = asked * given[level]
        asked = np.repeat(asked - given[level], 2)
    return np.array([given[level][(t >> level) - 1] for t in used for level in range(_tree_count(t))])


FACTORS: Mapping[FactorName, Factor] = MappingProxyType(
    {
        "square-root": _root(Fraction(0)),
        "weighted": _root(Fraction(9, 20)),
        "tree": Factor(_tree_rows, _tree_count, int.bit_length, 1, _tree_weights),
    }
)


@lru_cache(maxsize=64)
def decoding(name: FactorName, checkpoints: int, used: tuple[int, ...]) -> Floats:
    """(R,) weights of the released rows whose sum is the prefix sum: the shortest w with C'^T w = 1.

    Its noise has |w| D' times the standard deviation that one release of all patients at once would have.

    Args:
        name: of the factorisation.
        checkpoints: T.
        used: checkpoints that were published, in order; what others hold is in no released row.
    """
    return FACTORS[name].weights(used, checkpoints)


def error(name: FactorName, checkpoints: int, used: tuple[int, ...]) -> float:
    """|w| D': what noise is multiplied by in the prefix sum of these checkpoints, other than in one release of all patients."""
    return float(np.linalg.norm(decoding(name, checkpoints, used)) * np.sqrt(FACTORS[name].norm2(checkpoints)))
