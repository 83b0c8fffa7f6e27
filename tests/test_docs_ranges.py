"""docs/format.md on ranges: its numbers, words and the row that it works out are those of the code."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dprelease.canonical import canonical_bytes
from dprelease.data.bounding import bound
from dprelease.data.columns import NumericColumn
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.data.decades import EDGES, Box, decade_codes
from dprelease.data.ranges import EFFECT, REACHES, STEPS, guess, radius2, reach_of, share
from dprelease.mechanisms.ranges import box
from dprelease.mechanisms.ranges.box import TOTAL
from dprelease.mechanisms.ranges.box import WIDTH as DECADES_WIDTH
from dprelease.mechanisms.ranges.released import (
    LEAST_TAIL,
    MOST_TAIL,
    MOST_WIDER,
    POINTS,
    SHAPE,
    TAIL_SDS,
    TOGETHER,
    WIDER,
    choose,
)
from dprelease.mechanisms.ranges.released import TOLERANCE as REACH_TOLERANCE
from dprelease.mechanisms.ranges.rounds import (
    CAUTION,
    LEAST_WINDOW,
    MISFIT,
    PRIOR,
    SURE_SHARE,
    TAIL,
    Row,
    after_counts,
    after_sums,
    final,
    first,
)
from dprelease.mechanisms.ranges.terms import (
    CELLS,
    LARGEST_CODE,
    SQUARED_SUMS,
    WIDTH,
    RangesTerms,
    Scales,
    factor,
    largest,
    squared_sensitivity,
)
from dprelease.privacy.calibration import root_up
from dprelease.privacy.price import epsilon_figure, rounded_up
from dprelease.release.accounting import guarantee, trust
from tests.support.specs import build_spec
from tests.test_docs_format import FORMAT, GUARANTEES, V, sentences

ROW = Row.of(np.array([int(each) for each in V["ranges-row"].split()]))
ROWS, COLUMN_MU2 = 20_000, Fraction(1, 100)


def test_the_factor_and_how_far_it_moves() -> None:
    assert factor(CELLS)[:, 0].tolist() == [int(each) for each in V["ranges-factor"].split()]
    assert squared_sensitivity(CELLS) == 76_128_293
    assert "76128293 is the largest squared length" in " ".join(FORMAT.split())
    assert "76,128,293" in GUARANTEES
    assert squared_sensitivity(DECADE_CELLS) == 68_065_518
    assert "D0^2 = 68065518" in " ".join(FORMAT.split())
    assert "68,065,518" in GUARANTEES


def test_noise_scales() -> None:
    for q in (1, 3):
        first_round, second = COLUMN_MU2 * Fraction(3, 5), COLUMN_MU2 * Fraction(2, 5)
        d2 = q**2 * LARGEST_CODE**2 * SQUARED_SUMS
        counts = root_up(q**2 * 76128293 / first_round + 4)
        sums = root_up(d2 / second + 4), root_up(d2 * LARGEST_CODE**2 / 4 / second + 4)
        assert Scales.least(COLUMN_MU2, q) == Scales(counts, *sums)
        decades = root_up(q**2 * 68065518 / (COLUMN_MU2 / 2) + 4)
        assert Scales.least(COLUMN_MU2, q, decades=True) == Scales(counts, *sums, decades)
    assert (1 << 16, Fraction(51447, 10000)) == (LARGEST_CODE, SQUARED_SUMS)


def test_the_decade_scale() -> None:
    column = NumericColumn(name="x", bounds="unknown")
    cells, codes = zip(*(line.split() for line in V["decade-codes"].splitlines()), strict=True)
    found = bound({"x": np.array([float(cell) for cell in cells])}, (column,), 10)[:, 0]
    assert found.tolist() == [int(code) for code in codes]
    box, at = Box(low=90, high=94), [cells.index("36.6"), cells.index("120.0")]
    assert (box.lower, box.upper) == (18.0, 180.0)
    ends, places = ([int(each) for each in line.split()] for line in V["box-places"].splitlines())
    assert box.code(decade_codes(EDGES[90:95], 10), 10).tolist() == ends
    assert box.code(found[at], 10).tolist() == places


def test_the_rule_for_boxes() -> None:
    text = " ".join(FORMAT.split())
    assert "t = min(1/4, max(3/100, 5/2 w s/n))" in text
    assert (box.MOST_TAIL, box.LEAST_TAIL, box.SURE) == (1 / 4, 3 / 100, 5 / 2)
    assert "10^6 (sum g - 1)^2" in text
    assert TOTAL**2 == 10**6
    assert DECADES_WIDTH == 122


def test_the_row_is_followed_to_the_last_digits() -> None:
    scales = Scales.least(COLUMN_MU2, 1)
    counted = after_counts(ROW.counts, ROWS, scales)
    assert first(counted).follows(ROW.first)
    both = after_sums(counted, ROW.first, ROW.total, ROW.squares, ROWS, scales)
    assert final(both).follows(ROW.last)
    assert (CAUTION, MISFIT, TAIL, SURE_SHARE) == (0.3, 1 / 50, 0.9, 2.2)
    assert ((0.0, math.log(0.3)), (0.5, 0.6)) == PRIOR
    assert Row.of(ROW.to_integers()).last == ROW.last
    margin = ROW.margin(counted.law)
    mu = math.sqrt(COLUMN_MU2 * (1 - share(ROWS)) / share(ROWS))
    assert choose([margin], guess([1], 1, 1 / (mu * ROWS))) == [ROW.reach]
    assert LEAST_WINDOW == 2**15
    assert abs(ROW.last.centre) < STEPS


def test_the_rule_for_reaches() -> None:
    text = " ".join(FORMAT.split())
    assert "p = max(1/500, 5/2 w)" in text
    assert (LEAST_TAIL, TAIL_SDS, MOST_TAIL) == (1 / 500, 5 / 2, 1 / 4)
    assert "b = min(4 p, 2/5)" in text
    assert (SHAPE, WIDER, MOST_WIDER, TOGETHER, EFFECT) == (1 / 4, 4, 2 / 5, 1 / 2, 0.3)
    assert "u_i = (i + 1/2)/4000" in text
    assert POINTS == 4000
    assert "i = 0 to 16" in text
    assert reach_of(REACHES - 1) == 1.25**16
    assert (radius2(1), radius2(2), radius2(7)) == (4, 2, 7)
    assert REACH_TOLERANCE == 1e-6
    assert "has one row of 262 integers" in text
    assert WIDTH == 262


def test_largest_numbers() -> None:
    spec = build_spec(mechanism="ranges")
    terms = spec.terms
    assert isinstance(terms, RangesTerms)
    scales = (terms.counts_scale, terms.sum_scale, terms.square_scale)
    exact = (2**12 * spec.rows, 2**16 * spec.rows, 2**32 * spec.rows)
    assert largest(spec, terms) == tuple(one + 64 * int(scale + 1) for one, scale in zip(exact, scales, strict=True))
    assert canonical_bytes(terms.model_dump(mode="json")).startswith(b'{"counts_scale":')


def test_words() -> None:
    spec = build_spec(mechanism="ranges")
    given = guarantee(spec)
    figures = "; ".join(f"{part.party}: epsilon = {epsilon_figure(part.epsilon)}" for part in given.parties)
    values = {"E": epsilon_figure(given.joint_epsilon), "D": rounded_up(spec.target.delta), "LIST": figures}
    assert given.words()[:2] == tuple(each.format(**values) for each in sentences("words-ranges"))
    assert trust(spec) == sentences("trust-ranges")
