"""Random shapes of clipped rows, their rows as hospitals multiply them, and how far two of them are apart, in exact integers."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.mechanisms.moments.clipping import Clipping, Norm, clip_rows
from dprelease.mechanisms.moments.entries import Layout, code
from dprelease.mechanisms.moments.sensitivity import RowBounds
from tests.support.specs import categorical, numeric

BITS = 8
UNIT = 1 << BITS
Codes = npt.NDArray[np.int64]


def shape(random: np.random.Generator) -> tuple[list[tuple[Column, ...]], Clipping]:
    """Parties' columns and a clipping of them, of any kind."""
    parties: list[tuple[Column, ...]] = []
    name = iter(range(100))
    for _ in range(int(random.integers(1, 4))):
        own: list[Column] = [numeric(f"x{next(name)}") for _ in range(int(random.integers(0, 5)))]
        own += [categorical(f"b{next(name)}", "yes") for _ in range(int(random.integers(0, 3)))]
        levels, whole = [(("a", "b"), {}), (("a", "b", "c"), {"exhaustive": True, "fill": "a"})][len(parties) % 2]
        own += [categorical(f"g{next(name)}", *levels, **whole) for _ in range(int(random.integers(0, 2)))]
        own += [
            numeric(f"p{next(name)}").model_copy(update={"public": True}) for _ in range(int(random.integers(0, 2)))
        ]
        parties.append(tuple(own) or (numeric(f"x{next(name)}"),))
    if not any(not column.public for own in parties for column in own):
        parties[0] = (*parties[0], numeric(f"x{next(name)}"))
    columns = [column for own in parties for column in own]
    weights = [int(random.integers(1, UNIT + 1)) for _ in columns]
    weights[int(random.integers(len(weights)))] = UNIT
    weight = {column.name: each for column, each in zip(columns, weights, strict=True)}
    norms, ranges = [], []
    for declared in parties:
        names = tuple(column.name for column in declared if column.kind == "numeric" and not column.public)
        most = sum(weight[each] ** 2 for each in names)
        ranges += [Range.whole(each) for each in names]
        if names and most > 2 and random.random() < 0.6:
            norms.append(Norm(columns=names, squared=int(random.integers(1, most))))
    found = Clipping(
        constant=int(random.integers(1, UNIT + 1)),
        weights=tuple(weights),
        ranges=tuple(ranges),
        norms=tuple(norms),
        square_weight="1/2",
    )
    found.check(tuple(parties), BITS)
    rows = RowBounds.of(Layout(tuple(columns)), found)
    limit = rows.largest_weight
    wanted = [rows.best_weight(), Fraction(1, 2), Fraction(1, 2) + Fraction(int(random.integers(0, 40)), 16)]
    chosen = wanted[int(random.integers(3))]
    return parties, found.model_copy(update={"square_weight": str(chosen if limit is None else min(chosen, limit))})


def drawn(random: np.random.Generator, parties: list[tuple[Column, ...]], count: int) -> Codes:
    """(count, d) cells at their ends and in between: codes of numbers, places of levels; public cells are the same."""
    cells = []
    for column in (column for own in parties for column in own):
        if column.kind == "numeric":
            ends = random.choice([-1.0, 1.0], count) * random.choice([0.0, 0.25, 1.0, 1.0, 1.0], count)
            values = np.where(random.random(count) < 0.2, random.uniform(-1, 1, count), ends)
            values = np.full(count, values[0]) if column.public else values
            cells.append(np.rint(values * UNIT).astype(np.int64))
        else:
            cells.append(random.integers(0, len(column.released), count))
    return np.column_stack(cells)


def multiplied(cells: Codes, parties: list[tuple[Column, ...]], clipping: Clipping) -> Codes:
    """(n, p+1) rows as the product makes them of cells (n, d), by the integer rule of clipping."""
    blocks, place = [np.full((len(cells), 1), clipping.constant, np.int64)], 0
    for own in parties:
        parts = []
        for at, column in enumerate(own, place):
            levels = np.arange(len(column.released))
            numeric = column.kind == "numeric"
            parts.append(cells[:, at : at + 1] if numeric else (cells[:, at : at + 1] == levels) * UNIT)
        codes = code(np.hstack(parts).astype(np.int32), own)
        weights = clipping.weights[place : place + len(own)]
        blocks.append(clip_rows(codes, own, weights, clipping, BITS).astype(np.int64))
        place += len(own)
    return np.hstack(blocks)


def squared_distances(layout: Layout, square_weight: Fraction, before: Codes, after: Codes) -> list[Fraction]:
    """Of the released entries of pairs of rows, exactly: codes of 8 bits, so that sums of fourth powers stay below 2^63."""
    moved = before[:, layout.rows] * before[:, layout.cols] - after[:, layout.rows] * after[:, layout.cols]
    squares, others = (moved[:, chosen] ** 2 for chosen in (layout.diagonal, ~layout.diagonal))
    pairs = zip(squares.sum(axis=1).tolist(), others.sum(axis=1).tolist(), strict=True)
    return [square_weight * square + other for square, other in pairs]


def moves(column: Column, cell: int) -> list[int]:
    """What one cell may be instead: another level or sign; an end, the middle, a number turned round or a step away."""
    if column.kind != "numeric":
        return [level for level in range(len(column.released)) if level != cell]
    steps = [cell + sign * UNIT // size for size in (4, 16, 64, 256) for sign in (1, -1)]
    return [at for at in {-UNIT, -UNIT // 2, 0, UNIT // 2, UNIT, -cell, *steps} - {cell} if abs(at) <= UNIT]


def climbed(parties: list[tuple[Column, ...]], clipping: Clipping, pair: Codes) -> tuple[Fraction, Codes]:
    """The distance that coordinate ascent reaches from a pair of rows (2, d), and the pair: no move of one cell helps any more.

    A public cell moves in both rows.
    """
    columns = [column for own in parties for column in own]
    layout, weight = Layout(tuple(columns)), Fraction(clipping.square_weight)
    best, untried = Fraction(-1), 0
    while untried < len(columns):
        for at, column in enumerate(columns):
            tried = [pair]
            for side in (slice(0, 2),) if column.public else (slice(0, 1), slice(1, 2)):
                for cell in moves(column, int(pair[side, at][0])):
                    other = pair.copy()
                    other[side, at] = cell
                    tried.append(other)
            rows = multiplied(np.vstack(tried), parties, clipping)
            found = squared_distances(layout, weight, rows[::2], rows[1::2])
            first = max(range(len(found)), key=found.__getitem__)
            untried = 0 if found[first] > best else untried + 1
            best, pair = found[first], tried[first]
            if untried == len(columns):
                break
    return best, pair
