"""What a fit says of rows as clipped: how far, what is left of normal rows taken out, and in which words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dprelease.analyses.correlation import correlations
from dprelease.data.bounding import BoundedRows
from dprelease.data.ranges import Range
from dprelease.estimators import FitResult, fit
from dprelease.estimators.moments.before_clipping import PublishedSpreads, before_clipping
from dprelease.estimators.regression_table import MOST_TABLES
from dprelease.mechanisms.moments.clipping import Clipping, Norm
from dprelease.mechanisms.moments.clipping_words import clipped_in
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.privatize import coded
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.release.release import Release
from tests.support.noise import ZeroNoise
from tests.support.rounds import in_published_ranges, made_alone, ranges_first
from tests.support.specs import build_spec, categorical, numeric

BITS, ROWS = 16, 2000
NUMBERS = tuple(f"x{place}" for place in range(MOST_TABLES + 3))
COLUMNS = (*map(numeric, NUMBERS), categorical("smoker", "yes"))
NOTE = "All of this is about rows as clipped"
UNTESTED = "No p-values"


def bounded() -> BoundedRows:
    """Numbers that go together, a tenth of their bounds wide, a fifth of their widths from the middle; and a binary."""
    random = np.random.default_rng(1)
    numbers = 0.02 + random.normal(0, 0.1, (ROWS, len(NUMBERS)))
    yes = random.random(ROWS) < 0.4
    numbers[:, 1:] += 0.7 * numbers[:, :1] + 0.05 * yes[:, None]
    cells = np.column_stack([numbers, yes, ~yes])
    return BoundedRows(np.clip(np.rint(cells * 2.0**BITS), -(2**BITS), 2**BITS).astype(np.int32), COLUMNS, BITS)


def in_ranges(clip: float | str, epsilon: float = 20.0) -> Release:
    """Exact numbers under declared noise."""
    made = build_spec({"clinic": COLUMNS}, mechanism="moments", grid_bits=BITS, rows=ROWS, epsilon=epsilon)
    return made_alone(ranges_first(made, clip=clip), bounded(), ZeroNoise())


@pytest.fixture(scope="module")
def far() -> Release:
    return in_ranges(0.0)


def fitted(release: Release, targets: int = 1) -> FitResult:
    return fit(release, NUMBERS[:targets], [*NUMBERS[-2:], "smoker"], "ols")


def table_of(result: FitResult) -> list[list[str]]:
    return [line.split() for line in result.summary().splitlines()]


def test_unclipped_is_least_squares_on_moments_before_clipping(far: Release) -> None:
    exact: Any = far.moments()
    exact = replace(exact, noise_sd=1e-9 * exact.noise_sd)
    release = replace(far)
    release.__dict__["view"] = exact
    result = fitted(release)
    spreads = PublishedSpreads.as_coded(len(exact.names))
    gram = before_clipping(exact.gram[None] / exact.rows, exact.balls, spreads).draws[0]
    places = [exact.lookup(name) for name in (*result.targets, *result.features)]
    (y, middle, half), features = places[0], places[1:]
    z = [0, *(place for place, _, _ in features)]
    offset, *slopes = np.linalg.solve(gram[np.ix_(z, z)], gram[z, y])
    slopes = [half * slope / wide for slope, (_, _, wide) in zip(slopes, features, strict=True)]
    start = middle + half * offset - sum(slope * mid for slope, (_, mid, _) in zip(slopes, features, strict=True))
    found = result.inference
    assert found.unclipped is not None
    assert found.unclipped_intercept is not None
    np.testing.assert_allclose(found.unclipped[0], slopes, rtol=1e-6)
    np.testing.assert_allclose(found.unclipped_intercept[0], start, rtol=1e-6)
    assert np.all(np.abs(found.unclipped / found.estimate - 1) > 1e-4)


@pytest.mark.parametrize("clip", [0.0, 2.0])
def test_filled_is_the_mean_squared_norm_of_coded_rows_by_the_largest(clip: float) -> None:
    release = in_ranges(clip)
    known = in_published_ranges(release.spec, {party: own[:1] for party, own in release.blocks.items()})
    terms: Any = known.terms
    codes = coded(bounded(), known)[:, : len(NUMBERS)].astype(np.float64)
    (norm,) = terms.clipping.norms
    (block,) = release.clipped
    squares = (codes**2).sum(axis=1) / norm.squared
    assert block.filled == pytest.approx(squares.mean(), rel=1e-9)
    assert (squares > 0.99).mean() < block.filled < 1


def test_each_hospital_s_squares_fill_its_own_norm_and_noise_no_more_than_that() -> None:
    parties = {"a": (numeric("x"), numeric("y")), "b": (numeric("z"),), "c": (numeric("v"), categorical("s", "yes"))}
    columns = tuple(column for own in parties.values() for column in own)
    clipping = Clipping(
        constant=100,
        weights=(300, 300, 300, 300, 100),
        ranges=tuple(map(Range.whole, "xyzv")),
        norms=(Norm(columns=("x", "y"), squared=2 * 100**2), Norm(columns=("v",), squared=100**2)),
        square_weight="1/2",
    )
    gram = np.diag([10.0, 0.5, 1.0, 5.0, 2.0, 10.0])
    moments = NoisyMoments(Layout(columns), gram, np.zeros((6, 6)), 10, clipping=clipping)
    a, b, c = clipped_in(moments, parties)
    assert (a.party, a.filled) == ("a", pytest.approx(1.5 / 10 * 300**2 / (2 * 100**2)))
    assert (b.party, b.radius2) == ("b", None)
    assert np.isnan(b.filled)
    assert (c.party, c.filled) == ("c", 1.0)
    assert str(a).startswith("a: r^2 = 2 of 2 numbers, 68% filled (normal rows keep ")
    assert str(b) == "b: 1 number, each to its range only"
    assert clipped_in(replace(moments, clipping=None), parties) == ()


@pytest.mark.parametrize("clip", [0.0, 2.0])
@pytest.mark.parametrize("targets", [1, MOST_TABLES + 1])
def test_every_table_has_the_unclipped_fit_how_far_and_the_note(clip: float, targets: int) -> None:
    result = fitted(in_ranges(clip), targets)
    found, lines = result.inference, table_of(result)
    assert found.unclipped is not None
    assert found.unclipped_intercept is not None
    head = next(line for line in lines if "unclipped" in line)
    assert head[head.index("unshrunken") + 1] == "unclipped"
    place = head.index("unclipped") + (targets == 1)  # the first cell of a head is empty
    rows = {line[0]: line for line in lines if line}
    if targets == 1:
        assert rows[NUMBERS[-1]][place] == f"{found.unclipped[0, 1]:.6g}"
        assert rows["intercept"][place] == f"{found.unclipped_intercept[0]:.6g}"
    else:
        best = int(np.abs(found.z[0]).argmax())
        line = rows[NUMBERS[0]]
        at = line.index(result.features[best])
        assert line[at + 1 : at + 3] == [f"{found.estimate[0, best]:.6g}", f"{found.unclipped[0, best]:.6g}"]
    text = result.summary()
    assert f"\nclipping   {found.clipped[0]}\n" in text
    assert text.count(NOTE) == 1
    assert (UNTESTED in text) is (clip == 0) is not found.tested
    saved = json.loads(json.dumps(result.to_json()))["inference"]
    assert (saved["tested"], saved["clipping"][0]["filled"]) == (found.tested, found.clipped[0].filled)
    assert saved["intercept"]["unclipped"] == found.unclipped_intercept.tolist()


def test_where_nothing_was_learned_the_notes_stay_and_no_number_stands_alone() -> None:
    result = fitted(in_ranges(0.0, epsilon=0.01))
    found, text = result.inference, result.summary()
    assert found.statement in text
    assert found.unclipped is not None
    assert np.isnan(found.unclipped).all()
    assert np.isnan(found.unclipped_intercept).all()
    assert NOTE in text
    assert UNTESTED in text
    assert "unshrunken estimates" not in text


def test_an_analysis_says_how_far(far: Release) -> None:
    assert f"How far: {far.clipped[0]}." in correlations(far, NUMBERS[:2]).summary()


def test_without_a_norm_nothing_stands_beside_the_fit(far: Release) -> None:
    result = fitted(in_ranges("none"))
    assert result.inference.unclipped is None
    assert "All of this is about numbers as clipped to their published ranges." in result.summary()
    assert "each to its range only" in result.summary()
    public = replace(far, spec=build_spec({"clinic": COLUMNS}, mechanism="moments", grid_bits=BITS, rows=ROWS))
    public.__dict__["view"] = replace(far.moments(), clipping=None)
    plain = fitted(public)
    assert (plain.inference.clipped, plain.inference.clipping_notes) == ((), ())
    assert "clipp" not in plain.summary()
