"""Whole streams without noise: what learners read at each checkpoint is exact over all patients so far.

Fits and descriptions read a later checkpoint as any release: they are about everybody so far.

What planners are told of a stream: the price of one release, and the noise of the last checkpoint.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.estimators.fitting import fit
from dprelease.mechanisms.assumptions import Scenario
from dprelease.mechanisms.base import FIRST_ROUND
from dprelease.mechanisms.noisy_rows.privatize import mixer
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mechanisms.stream.factorization import error
from dprelease.mechanisms.stream.mechanism import batches
from dprelease.planning.comparison import compare
from dprelease.planning.forecast import forecast, proposed, rows_needed
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target
from tests.support.kinds import kind_of
from tests.support.noise import RecordingNoise, SeededNoise, ZeroNoise
from tests.support.plans import changed, planned
from tests.support.specs import build_spec, categorical, numeric
from tests.support.streams import Hospitals, first_spec, following

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0), categorical("sex", "female", "male")),
    "south": (numeric("glucose", 2.0, 30.0), numeric("weight", 30.0, 200.0)),
    "east": (categorical("smokes", "yes"), numeric("visits", 0.0, 9.0)),
}
BATCHES = (40, 25, 31, 50, 28)


def of(inner: str, *, proved: bool = False, **options: Any) -> ReleaseSpec:
    """A first checkpoint; proofs of bounds move no sum and take most of the time, so that one test alone has them."""
    proofs = {"range_proofs": proved} if inner == "moments" else {}
    base = build_spec(COLUMNS, rows=BATCHES[0], grid_bits=14)
    return first_spec(base, of=inner, checkpoints=8, **proofs, **options)


def exact_moments(hospitals: Hospitals, release: Release) -> None:
    layout, rows = release.moments().layout, hospitals.rows()
    whole = np.hstack([np.ones((len(rows), 1)), *(_variable(rows, release, each) for each in layout.variables)])
    np.testing.assert_allclose(release.moments().gram, whole.T @ whole, atol=1e-8)
    assert release.moments().rows == len(rows)


def _variable(rows: Any, release: Release, variable: Any) -> Any:
    cells = rows[:, [release.spec.released.index(variable.name)]]
    return 2 * cells - 1 if kind_of(variable) == "binary" else cells


def exact_mixtures(hospitals: Hospitals, release: Release) -> None:
    """A D with A of all checkpoints' signs beside one another."""
    spec, view = release.spec, release.scaled()
    terms: Any = spec.terms
    signs = np.hstack([mixer(each.terms, each).signs(0, each.rows) for each in batches(spec, terms, terms.used)])
    rho, rows = float(terms.of.rho), hospitals.rows()
    whole = np.vstack([np.sqrt(rho) * np.ones(len(rows)), signs * np.sqrt((1 - rho) / len(signs))])
    np.testing.assert_allclose(view.values, whole @ rows, atol=1e-8)
    np.testing.assert_allclose(view.ones, whole.sum(axis=1), atol=1e-9)
    assert view.rows == len(rows)
    assert len({tuple(each) for each in signs[:, : BATCHES[0]].tolist()}) == len(signs)


@pytest.mark.parametrize("factor", ["square-root", "tree"])
@pytest.mark.parametrize(("inner", "check"), [("moments", exact_moments), ("mixed", exact_mixtures)])
def test_prefixes_are_exact_without_noise(factor: str, inner: str, check: Any) -> None:
    hospitals = Hospitals(of(inner, factor=factor, proved=True))
    for rows in (*BATCHES[1:], None):
        release = hospitals.publish(ZeroNoise())
        check(hospitals, release)
        if rows is not None:
            hospitals.spec = following(hospitals.spec, rows)


@pytest.mark.parametrize("factor", ["square-root", "tree"])
@pytest.mark.parametrize(("inner", "check"), [("moments", exact_moments), ("mixed", exact_mixtures)])
@pytest.mark.parametrize("lost", [{2}, {3, 4}])
def test_a_checkpoint_that_failed_is_left_out(factor: str, inner: str, check: Any, lost: set[int]) -> None:
    hospitals = Hospitals(of(inner, factor=factor))
    published = hospitals.spec
    hospitals.publish(ZeroNoise())
    for number, rows in enumerate(BATCHES[1:], 2):
        hospitals.spec = following(published, rows, number)
        release = hospitals.publish(ZeroNoise(), failed=number in lost)
        if number not in lost:
            published = hospitals.spec
            check(hospitals, release)


@pytest.mark.parametrize("factor", ["square-root", "tree"])
@pytest.mark.parametrize("inner", ["moments", "mixed"])
def test_a_checkpoint_adds_to_what_was_sent_and_costs_its_own_rows(factor: str, inner: str) -> None:
    """Noise is drawn for its own rows of C x alone, and the earlier views can be read from its block."""
    hospitals, seen, before = Hospitals(of(inner, factor=factor)), {}, {}
    for number, rows in enumerate(BATCHES, 1):
        if number > 1:
            hospitals.spec = following(hospitals.spec, rows)
        noise = RecordingNoise(SeededNoise(number))
        release = hospitals.publish(noise)
        for party, block in hospitals.blocks.items():
            if party in before:
                assert block.values[: len(before[party])].tobytes() == before[party].tobytes()
        fresh = sum(
            block.values.size - (before[party].size if party in before else 0)
            for party, block in hospitals.blocks.items()
        )
        assert sum(draw.values.size for draw in noise.draws) == fresh
        before = {party: block.values for party, block in hospitals.blocks.items()}
        seen[number] = release.view
        schedule = mechanism_of(release.spec).schedule(release.spec)
        if schedule is not None:
            assert (schedule.rows, schedule.task) == (rows, release.spec.digest())
    last: Any = mechanism_of(release.spec)
    values = {party: (block,) for party, block in before.items()}
    for number, view in seen.items():
        again = last.read(release.spec, values, np.zeros((BATCHES[-1], 0), np.int32), FIRST_ROUND, number)
        assert again.rows == view.rows == sum(BATCHES[:number])
        name = "gram" if inner == "moments" else "values"
        np.testing.assert_array_equal(getattr(again, name), getattr(view, name))
        np.testing.assert_array_equal(again.noise_sd, view.noise_sd)


def test_one_draw_has_the_scales_of_the_rounded_columns() -> None:
    """Every scale of the inner terms times D', rounded up: its exact square is at least D'^2 times theirs, and no double less."""
    noise, spec = RecordingNoise(), of("mixed")
    Hospitals(spec).publish(noise)
    terms: Any = spec.terms
    asked = {draw.scale for draw in noise.draws}
    declared = {scale for each in terms.of.noise for scale in (each.scale, each.anchor_scale)}
    least = {scale: Fraction(scale) ** 2 * terms.scaling.noise2 for scale in declared}
    assert len(asked) == len(declared)
    for scale, squared in zip(sorted(asked), sorted(least.values()), strict=True):
        assert Fraction(math.nextafter(scale, 0)) ** 2 < squared <= Fraction(scale) ** 2


FITTED_COLUMNS = {"a": (numeric("x"), numeric("y")), "b": (numeric("z"),), "c": (numeric("w"),)}
FITTED_BATCHES = (3000, 2000, 4000)


def dependent(spec: ReleaseSpec, seed: int) -> dict[str, BoundedRows]:
    """Rows with w = x/2 - z/4 + something."""
    x, y, z, own = np.random.default_rng(seed).uniform(-1, 1, (4, spec.rows))
    raw = {"x": x, "y": y, "z": z, "w": x / 2 - z / 4 + own / 4}
    return {
        part.party: BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)
        for part in spec.parties
    }


@pytest.mark.usefixtures("half_chains")
@pytest.mark.parametrize("of", ["moments", "mixed"])
def test_a_fit_at_a_later_checkpoint_is_that_of_everybody(of: str) -> None:
    """With little noise, weights are least squares of all three batches, within what noise leaves open."""
    base = build_spec(FITTED_COLUMNS, rows=FITTED_BATCHES[0], outputs=400, grid_bits=14, epsilon=500.0, delta=1e-6)
    hospitals = Hospitals(first_spec(base, of=of, checkpoints=3, **({"k": 400} if of == "mixed" else {})))
    hospitals.publish(SeededNoise(1), given=dependent(hospitals.spec, 1))
    for place, rows in enumerate(FITTED_BATCHES[1:]):
        hospitals.spec = following(hospitals.spec, rows)
        release = hospitals.publish(SeededNoise(2 + place), given=dependent(hospitals.spec, 2 + place))
    found = fit(release, ("w",), ("x", "y", "z"))
    cells = hospitals.rows()
    x = np.hstack([np.ones((len(cells), 1)), cells[:, :3]])
    exact = np.linalg.lstsq(x, cells[:, 3], rcond=None)[0][1:]
    assert found.patients == len(cells) == sum(FITTED_BATCHES)
    np.testing.assert_allclose(np.ravel(found.coef), exact, atol={"moments": 0.02, "mixed": 0.1}[of])


FORECAST_COLUMNS = {"a": (numeric("x"), numeric("y")), "b": (numeric("z"),), "c": (numeric("w"),)}
TARGET = Target(scope="joint", epsilon=1.0, delta=1e-6)


def setting(of: str, **others: Any) -> Scenario:
    asked = {"of": of, "checkpoints": 4, "most_rows": 20_000} | others
    return planned(asked.pop("rows", 20_000), FORECAST_COLUMNS, TARGET, "stream", "w", ("x", "y", "z"), **asked)


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_noise_is_larger_by_what_the_stream_makes_of_it(of: str) -> None:
    one = planned(
        20_000, FORECAST_COLUMNS, TARGET, of, "w", ("x", "y", "z"), **({"ranges": "none"} if of == "moments" else {})
    )
    alone, stream = proposed(one), proposed(setting(of))
    times = error("square-root", 4, (1,))
    assert times > 1.1
    assert stream.prices == alone.prices
    for name, variance in stream.noise.columns.items():
        assert math.sqrt(variance / alone.noise.columns[name]) == pytest.approx(times, rel=1e-4)
    assert forecast(setting(of), 0.5).error_ratio > forecast(one, 0.5).error_ratio
    assert forecast(setting(of, checkpoints=1), 0.5) == forecast(one, 0.5)
    at_last = error("square-root", 4, (1, 2, 3, 4)) / times
    assert f"checkpoint 1 of a stream, noise {at_last:.2g} times as large at the last one" in stream.noise.shape


def test_it_is_compared_where_the_request_is_of_one() -> None:
    assert [each.plan for each in compare(setting("moments"), signals=(0.3,)).scenarios][-1] == "stream"
    alone = changed(setting("moments"), mechanism="mixed", asked={})
    assert all(each.plan != "stream" for each in compare(alone, signals=(0.3,)).scenarios)


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_a_release_of_more_patients_than_there_is_room_for_is_not_counted_on(of: str) -> None:
    """A stream of unknown length has room for a fixed number, and a plan looks for the least number with which a fit is useful."""
    few = setting(of, checkpoints=None, rows=100, most_rows=200)
    assert rows_needed(few, 0.001) is None
    # Of so many patients as there is room for a fit is useful, and of far fewer.
    roomy = setting(of, checkpoints=None, rows=100, most_rows=10_000_000)
    found = rows_needed(roomy, 0.5)
    assert found is not None
    assert found < 1_000_000
    assert forecast(roomy.having(rows=found), 0.5).useful
    assert not forecast(roomy.having(rows=found * 9 // 10), 0.5).useful


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_what_learners_read_has_the_noise_that_is_forecast(of: str) -> None:
    """At the second of three checkpoints, where noise is what factor and price make of it."""
    base = build_spec(FORECAST_COLUMNS, rows=300, grid_bits=14, epsilon=1.0)
    hospitals = Hospitals(first_spec(base, of=of, checkpoints=3))
    hospitals.publish(SeededNoise(1))
    hospitals.spec = following(hospitals.spec, 200)
    release = hospitals.publish(SeededNoise(2))
    expected = mechanism_of(release.spec).released_noise(release.spec).columns["x"]
    found = (release.moments().noise_sd[1, 2] / 500) ** 2 if of == "moments" else release.scaled().noise_sd[0] ** 2
    assert found == pytest.approx(expected, rel=1e-3)
    assert error("square-root", 3, (1, 2)) == pytest.approx(1.27, abs=0.05)
    assert release.spec.patients == 500
