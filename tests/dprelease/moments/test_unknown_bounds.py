"""Moments of numbers that nobody knows the bounds of: price, plan, dry run, fit, and what no spec may say.

Rows in whole ranges, of equal weights and without norms, are the rows of public bounds: every number is the same, bit by bit.

Public columns must not outweigh the private ones (P2 <= gamma, docs/guarantees.md 17): otherwise claim 17 asks for more noise.
"""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from coordinator.dry_run.dry_run import trial
from dprelease.arrays import Integers
from dprelease.catalogue import Catalogue
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.decades import Box
from dprelease.data.ranges import Range, share
from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.privatize import coded
from dprelease.mechanisms.moments.released import NoisyMoments, add_up, limits
from dprelease.mechanisms.moments.sensitivity import RowBounds
from dprelease.mechanisms.moments.terms import joint_moments, layout_of, least_noise, moved_by
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, read_options
from dprelease.mpc.modulus import FIELD
from dprelease.planning.comparison import compare
from dprelease.planning.forecast import proposed
from dprelease.privacy.calibration import budget
from dprelease.privacy.noise import NoiseSource
from dprelease.release.accounting import check_spec
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.mechanisms.test_contract import blocks_of
from tests.support.joint import compute
from tests.support.noise import RecordingNoise, SeededNoise, ZeroNoise
from tests.support.plans import planned
from tests.support.rounds import ranges_first_without_bounds
from tests.support.simulations import simulated
from tests.support.specs import build_spec, categorical, numeric, one_block_each, random_rows, with_terms

ROWS = 3000
PARTIES = {
    "clinic": (numeric("age"), categorical("smokes", "yes")),
    "ward": (numeric("cost"), numeric("dose", 0.0, 100.0)),
    "lab": (numeric("small"),),
}
PLAIN = build_spec(PARTIES, mechanism="moments", rows=ROWS, grid_bits=16, epsilon=3.0)
UNKNOWN = ("age", "cost", "small")
SPEC = ranges_first_without_bounds(PLAIN, UNKNOWN)


def cells() -> dict[str, Any]:
    random = np.random.default_rng(8)
    age, small = random.normal(50, 10, ROWS), random.normal(-3e-4, 1e-4, ROWS)
    dose, smokes = random.normal(40, 5, ROWS), random.random(ROWS) < 0.4
    cost = 1e5 + 2000 * age + 1e8 * small + 10_000 * smokes + random.normal(0, 5000, ROWS)
    age[0] = 1e200
    return {"age": age, "small": small, "dose": dose, "cost": cost, "smokes": np.where(smokes, "yes", "no").tolist()}


def released(spec: ReleaseSpec, noise: NoiseSource) -> Release:
    raw = cells()
    tables = {
        part.party: BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)
        for part in spec.parties
    }
    return Release(spec, blocks_of(spec, tables, noise), ())


def test_ranges_take_half_as_much_again_for_numbers_without_bounds() -> None:
    columns = SPEC.columns
    assert share(ROWS, columns) == Fraction(1, 10) * (1 + Fraction(3, 8))
    assert share(100, columns) == Fraction(3, 20) * (1 + Fraction(3, 8))
    assert share(ROWS, PLAIN.columns) == share(ROWS) == Fraction(1, 10)
    given = check_spec(SPEC)
    assert given.joint_epsilon <= 3.0
    first = mechanism_named("ranges").cost(SPEC.model_copy(update={"terms": SPEC.terms.first}))  # type: ignore[attr-defined]
    assert float(first.joint / given.joint_mu2) == pytest.approx(0.1375, rel=1e-6)
    assert float(first.charges["lab"] / first.joint) == pytest.approx(1.5 / 5.5)


def test_plans_charge_what_a_proposal_does() -> None:
    parties = SPEC.columns_by_party
    asked = planned(ROWS, parties, SPEC.target, "moments", "cost", ("age", "dose"))
    (only,) = mechanism_named("moments").plans(asked)
    prices = proposed(only).prices
    charges = mechanism_of(SPEC).cost(SPEC).charges
    assert {name: float(price) for name, price in prices.items()} == pytest.approx(
        {name: float(price) for name, price in charges.items()}, rel=1e-6
    )
    assert [each.plan for each in compare(asked).scenarios] == ["moments in ranges"]
    with pytest.raises(InvalidInput, match="has unknown bounds"):
        compare(planned(ROWS, parties, SPEC.target, "moments", "cost", ("age",), outcomes=("cost",)))


@pytest.mark.usefixtures("half_chains")
@pytest.mark.parametrize("noise", [ZeroNoise(), SeededNoise(6)], ids=["exact", "noisy"])
def test_fits_are_in_the_unit_of_the_data(noise: NoiseSource) -> None:
    release = released(SPEC, noise)
    assert set(release.ranged) == {*UNKNOWN, "dose"}
    assert 0 < release.ranged["age"].lower < 40 < 60 < release.ranged["age"].upper < 110
    assert release.width("age") == release.ranged["age"].upper - release.ranged["age"].lower
    found = fit(release, ["cost"])
    slopes = dict(zip(found.features, found.coef[0], strict=True))
    assert slopes["age"] == pytest.approx(2000, rel=0.2)
    assert slopes["small"] == pytest.approx(1e8, rel=0.3)
    assert found.feature_ends[:, found.features.index("age")].tolist() == [
        release.ranged["age"].lower,
        release.ranged["age"].upper,
    ]
    raw = cells()
    table = pd.DataFrame(raw | {"smokes=yes": [float(each == "yes") for each in raw["smokes"]]})
    predicted = found.predict(table[list(found.features)])[:, 0]
    assert np.mean((predicted[1:] - raw["cost"][1:]) ** 2) < 0.2 * np.var(raw["cost"])
    assert abs(predicted[0]) < 1e6  # a feature beyond its range is at its end


@pytest.mark.usefixtures("half_chains")
def test_a_dry_run_fits_made_up_rows(tmp_path: Path) -> None:
    """0 to 100, evenly: a third of the range lies beyond the norm's reach, so the fit is a little off."""
    found = trial(simulated(SPEC, "cost", tmp_path, SeededNoise(9)), "cost")
    assert found.signal > 0.3
    assert found.r2 > found.signal - 0.15


def test_a_range_has_a_box_where_bounds_are_unknown_and_nowhere_else() -> None:
    terms: Any = SPEC.terms
    whole = {
        name: Range(name=name, centre=0, half_width=1 << 24, box=Box(low=60, high=97) if name in UNKNOWN else None)
        for name in ("age", "cost", "dose", "small")
    }

    def spec(**other: Range) -> ReleaseSpec:
        clipping = terms.clipping.model_copy(update={"ranges": tuple((whole | other).values()), "source": "ab" * 32})
        changed = terms.model_copy(update={"first": None, "clipping": clipping})
        return ReleaseSpec.from_bytes(SPEC.model_copy(update={"terms": changed}).to_bytes())

    assert spec().terms.clipping.ranges == tuple(whole.values())  # type: ignore[attr-defined]
    for wrong in (Range.whole("age"), whole["age"].model_copy(update={"name": "dose"})):
        with pytest.raises(InvalidInput, match="a range has a box where the column's bounds are unknown"):
            spec(**{wrong.name: wrong})


def test_no_spec_multiplies_such_numbers_in_their_public_bounds() -> None:
    with pytest.raises(ValueError, match=r'age has unknown bounds; ask for ranges = "first" with mechanism mixed'):
        build_spec({"a": (NumericColumn(name="age", bounds="unknown"), numeric("x"))}, mechanism="moments")


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_a_stream_in_public_bounds_is_neither_planned_nor_proposed(of: str) -> None:
    columns = SPEC.columns_by_party
    facts = {name: getattr(SPEC, name) for name in ("roster", "rows", "rows_per_subject", "alignment")}
    draft = Draft(columns, Catalogue(party="clinic", columns=SPEC.columns, **facts), SPEC.target, 16, bytes)
    stream = mechanism_named("stream")
    with pytest.raises(InvalidInput, match="age, cost, small has unknown bounds"):
        stream.propose(read_options("stream", {"of": of, "checkpoints": 4}), draft)
    asked = planned(ROWS, columns, SPEC.target, "stream", "cost", ("age", "dose"), of=of, checkpoints=4)
    assert stream.plans(asked) == ()


WHOLE_PARTIES: dict[str, tuple[Column, ...]] = {
    "north": (numeric("age", 18, 104), categorical("smoker", "yes"), numeric("bmi", 11, 70)),
    "south": (
        categorical("ward", "a", "b", "c", exhaustive=True, fill="a"),
        numeric("year", 1990, 2020, public=True),
        numeric("dose", 0, 7),
    ),
}
NAMES = tuple(name for own in WHOLE_PARTIES.values() for name in numbers_of(own))


def in_whole_ranges(spec: ReleaseSpec) -> ReleaseSpec:
    """The spec with clipping that changes no row."""
    layout, terms = layout_of(spec), joint_moments(spec)
    unit = 1 << spec.grid_bits
    clipping = Clipping(
        constant=unit, weights=(unit,) * len(spec.columns), ranges=tuple(map(Range.whole, NAMES)), square_weight="1/2"
    )
    weight = RowBounds.of(layout, clipping).best_weight()
    clipping = clipping.model_copy(update={"square_weight": str(weight)})
    shape = len(spec.parties), terms.curious, terms.dealer, spec.grid_bits, spec.rows_per_subject
    found = least_noise(layout, budget(spec.target), *shape, clipping=clipping)
    return with_terms(spec, **{name: getattr(found, name) for name in ("scale", "diagonal_scale", "clipping", "mu2")})


def released_whole(spec: ReleaseSpec) -> tuple[Integers, NoisyMoments, list[RecordingNoise]]:
    """The released integers, what a learner reads in them, and the noise of each party."""
    rows = {part.party: random_rows(spec, part.party, 4) for part in spec.parties}
    noise = {party: RecordingNoise(SeededNoise(seed)) for seed, party in enumerate(rows)}
    blocks = compute(spec, rows, noise).blocks
    read = one_block_each(spec, blocks).moments()
    largest = limits(layout_of(spec), spec.rows, spec.grid_bits, joint_moments(spec).scales, len(rows))
    return add_up([block.values for block in blocks.values()], largest, FIELD), read, list(noise.values())


@pytest.mark.parametrize(("grid_bits", "rows_per_subject"), [(8, 1), (16, 3), (24, 1)])
def test_every_number_is_that_of_public_bounds(grid_bits: int, rows_per_subject: int) -> None:
    bounds = build_spec(WHOLE_PARTIES, mechanism="moments", grid_bits=grid_bits, rows_per_subject=rows_per_subject)
    whole = in_whole_ranges(bounds)
    assert joint_moments(whole).scales == joint_moments(bounds).scales
    assert check_spec(whole) == check_spec(bounds)
    assert moved_by(bounds) == moved_by(whole)
    for party in WHOLE_PARTIES:
        rows = random_rows(bounds, party, 4)
        assert np.array_equal(coded(rows, whole), coded(rows, bounds))
    (values, read, noise), (others, again, drawn) = map(released_whole, (bounds, whole))
    for one, two in zip(noise, drawn, strict=True):
        assert [draw.scale for draw in one.draws] == [draw.scale for draw in two.draws]
        assert all(np.array_equal(a.values, b.values) for a, b in zip(one.draws, two.draws, strict=True))
    assert np.array_equal(values, others)
    assert read.gram.tobytes() == again.gram.tobytes()
    assert read.noise_sd.tobytes() == again.noise_sd.tobytes()
