"""PrivIncReg1 and PrivIncReg2: least squares in a set on noisy moments of every prefix of a stream, plain and of projected rows.

These need the rows of one holder, and are not what the product releases. Reg1 on the moments of one release is its method
`constrained`; a stream of them is another matter. Every fit is post-processing of what a factorisation released.

Reg2 sends a row x to u = |x| Phi x/|Phi x|, of the length of x, with a fixed public Gaussian Phi of m rows. Then x y and u u'
move as they do for Reg1, by 2 and by sqrt(2). The paper's footnote that the factor |x|/|Phi x| may be left out costs privacy: u
u' moves by sqrt(2) |Phi|^2 then. What rounding makes longer than 1 is clipped again, and rows that Phi sends to 0 stay there. A
fit in Phi C is lifted to the point of least gauge in C with that image.

A public test of each row by itself leaves sensitivities as they are: a row that fails it counts as (0, 0).

Source: Kasiviswanathan, Nissim and Jin (2017), algorithms 2 and 3 and section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from benchmarks.paper_incremental.factors import Factorization
from benchmarks.paper_incremental.noise import Scales
from benchmarks.paper_incremental.stream import STILL, Stream, moments_at
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.constrained import ConvexSet, minimum, positive_part

GRID = 2.0**-20
"""Of projected rows."""
Test = Callable[[Floats], npt.NDArray[np.bool_]]
"""(T, d) rows to whether each belongs to G, by itself and by public rules."""


def privincreg1(stream: Stream, factorization: Factorization, scales: Scales, random: np.random.Generator) -> Floats:
    """Weights at the steps that a stream is looked at, (K, d)."""
    xx, xy, _ = stream.moments
    noisy, across = _noisy(xx, xy, stream, factorization, scales, random)
    pairs = zip(noisy, across, strict=True)
    return np.array([minimum(positive_part(matrix), b, stream.within, STILL) for matrix, b in pairs])


def privincreg2(
    stream: Stream, factorization: Factorization, scales: Scales, rows: int, random: np.random.Generator
) -> Floats:
    """Weights at the steps that a stream is looked at, (K, d).

    Args:
        stream: its rows.
        factorization: of its prefix sums.
        scales: of the noise.
        rows: m of Phi.
        random: of Phi, which is public, and of the noise.
    """
    phi = random.normal(size=(rows, stream.width)) / math.sqrt(rows)
    xx, xy, _ = moments_at(projected(stream.x, phi), stream.y, stream.times)
    noisy, across = _noisy(xx, xy, stream, factorization, scales, random)
    found = []
    for matrix, b in zip(noisy, across, strict=True):
        inside = minimum(phi.T @ positive_part(matrix) @ phi, phi.T @ b, stream.within, 1e-6)
        found.append(lift(phi, phi @ inside, stream.within))
    return np.array(found)


def projected(x: Floats, phi: Floats) -> Floats:
    """(T, m) rows u on the grid, none longer than 1.

    Args:
        x: (T, d), none longer than 1.
        phi: (m, d).
    """
    images = x @ phi.T
    sizes = np.linalg.norm(images, axis=1, keepdims=True)
    scale = np.divide(np.linalg.norm(x, axis=1, keepdims=True), sizes, out=np.zeros_like(sizes), where=sizes > 0)
    rounded = np.round(images * scale / GRID) * GRID
    squared = (rounded**2).sum(axis=1, keepdims=True)
    shorter: Floats = np.trunc(rounded / np.sqrt(np.maximum(squared, 1)) / GRID) * GRID
    return np.where(squared > 1, shorter, rounded)


def lift(phi: Floats, image: Floats, within: ConvexSet) -> Floats:
    """The point of least norm with this image, (d,): in |.|_2 by the pseudo-inverse, in |.|_1 by a linear program.

    Args:
        phi: (m, d).
        image: (m,).
        within: whose norm; a ball.

    Raises:
        InvalidInput: the set is a simplex, which has no norm, or the program has no solution.
    """
    if within.kind == "l2":
        return np.asarray(np.linalg.lstsq(phi, image, rcond=None)[0], np.float64)
    if within.kind == "simplex":
        raise InvalidInput("a simplex has no norm to lift by; take a ball")
    width = phi.shape[1]
    found = linprog(np.ones(2 * width), A_eq=np.hstack([phi, -phi]), b_eq=image, bounds=(0, None), method="highs")
    if found.x is None:
        raise InvalidInput(f"no point has this image: {found.message}")
    return np.asarray(found.x[:width] - found.x[width:])


def belonging(stream: Stream, belongs: Test) -> Stream:
    """The stream with (0, 0) for every row that fails a public test."""
    kept = belongs(stream.x)
    return Stream(stream.name, np.where(kept[:, None], stream.x, 0.0), np.where(kept, stream.y, 0.0), stream.within)


def _noisy(
    xx: Floats, xy: Floats, stream: Stream, factorization: Factorization, scales: Scales, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Both with the noise of a factorisation, made symmetric."""
    width = xy.shape[1]
    error = factorization.noise(stream.times, width * width + width, random)
    square = error[:, : width * width].reshape(-1, width, width)
    return (
        xx + scales.matrix * (square + square.transpose(0, 2, 1)) / 2,
        xy + scales.vector * error[:, width * width :],
    )
