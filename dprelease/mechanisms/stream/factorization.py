"""Factorisations A = B C of prefix sums, in integers: what is released at each checkpoint, and what learners make of it.

Let A be the T x T lower triangular matrix of ones: A x are the prefix sums of the increments x_1, ..., x_T of T checkpoints.
Released is C x plus noise whose size follows from the longest column of C alone, and learners apply B. Here C = C' is in
integers: its row r says how often each increment is counted in released row r, and D'^2 is its largest squared column norm
(docs/guarantees.md, "Streams").

    square-root    C'_ts = round(2^12 c_(t-s) / |(c_0, ..., c_(T-s))|),  c_0 = 1, c_k = c_(k-1) (2k - 1) / (2k):  A = C C for the
                   matrix of all c_(t-s), whose columns are then made equally long
    tree           a row of ones for each node of the binary tree over checkpoints, released where its last leaf is

Entries are computed in IEEE doubles with one rounding for each operation, in the order written here, and so are the same on every
machine; then everything is integers.

Source: Henzinger, Upadhyay and Upadhyay 2023, "Almost tight error bounds on differentially private continual counting" (square
root); Dwork et al. 2010 and Chan et al. 2011 (tree). Errors: docs/methods.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FactorName = Literal["square-root", "tree"]

FRACTION_BITS = 12
"""f: entries of the square root are multiples of 2^-f."""

MOST_CHECKPOINTS = 4096
"""T at most: daily for eleven years. Learners solve T x T equations."""


@dataclass(frozen=True)
class Factor:
    """C' for every T.

    Attributes:
        rows: (checkpoint t, T) to the rows that are released at t, (k, t): weights of the increments up to t.
        norm2: T to D'^2, the largest squared column norm.
        largest: largest entry.
    """

    rows: Callable[[int, int], Integers]
    norm2: Callable[[int], int]
    largest: int


@lru_cache(maxsize=8)
def bennett(checkpoints: int) -> tuple[Floats, Floats]:
    """(c_k) and (c_0^2 + ... + c_k^2) for k < T."""
    k = np.arange(1, checkpoints)
    values = np.multiply.accumulate(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))
    return values, np.add.accumulate(values * values)


def _on_grid(exact: Floats) -> Integers:
    return np.asarray(np.rint(exact * 2**FRACTION_BITS), np.int64)


def _square_root_rows(checkpoint: int, checkpoints: int) -> Integers:
    values, squares = bennett(checkpoints)
    numbers = np.arange(1, checkpoint + 1)
    exact = values[checkpoint - numbers] / np.sqrt(squares[checkpoints - numbers])
    return _on_grid(exact)[None]


@lru_cache(maxsize=64)
def _square_root_norm2(checkpoints: int) -> int:
    values, squares = bennett(checkpoints)
    largest = 0
    for length in range(1, checkpoints + 1):
        column = _on_grid(values[:length] / np.sqrt(squares[length - 1]))
        largest = max(largest, int(column @ column))
    return largest


def _tree_rows(checkpoint: int, checkpoints: int) -> Integers:
    lowest = checkpoint & -checkpoint
    sizes = 1 << np.arange(lowest.bit_length())
    return (np.arange(1, checkpoint + 1) > checkpoint - sizes[:, None]).astype(np.int64)


FACTORS: Mapping[FactorName, Factor] = MappingProxyType(
    {
        "square-root": Factor(_square_root_rows, _square_root_norm2, 1 << FRACTION_BITS),
        "tree": Factor(_tree_rows, int.bit_length, 1),
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
    factor, columns = FACTORS[name], np.array(used) - 1
    whole = np.zeros((0, len(used)))
    parts = []
    for place, checkpoint in enumerate(used, 1):
        rows = factor.rows(checkpoint, checkpoints)[:, columns[:place]]
        parts.append(np.pad(rows, ((0, 0), (0, len(used) - place))))
    whole = np.vstack(parts).astype(np.float64)
    ones = np.ones(len(used))
    if len(whole) == len(used):
        found: Floats = solve_triangular(whole, ones, trans="T", lower=True)
        return found
    # C (C^T C)^-1 1: the columns of C are independent, as every checkpoint's own increment is a node.
    return np.asarray(whole @ np.linalg.solve(whole.T @ whole, ones))


def error(name: FactorName, checkpoints: int, used: tuple[int, ...]) -> float:
    """|w| D': what noise is multiplied by in the prefix sum of these checkpoints, other than in one release of all patients."""
    return float(np.linalg.norm(decoding(name, checkpoints, used)) * np.sqrt(FACTORS[name].norm2(checkpoints)))
