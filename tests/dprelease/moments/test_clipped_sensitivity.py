"""The sensitivity of clipped rows: searched for by coordinate ascent over shapes, weights and norms, never above the value used.

Ranges as the first round of moments: the split, what a spec may say of it, and that no number is coded in public bounds.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.data.ranges import REACHES, STEPS, Range, share
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.mechanisms.draft import Draft, PublishedRanges
from dprelease.mechanisms.moments.clipping import Clipping, Norm, clip_rows, numbers_of
from dprelease.mechanisms.moments.clipping_rule import ClippingInputs, choose_clipping
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.sensitivity import RowBounds, clipped_sensitivity, sensitivity
from dprelease.mechanisms.moments.terms import JointMoments
from dprelease.mechanisms.ranges.released import later_range
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, read_options, read_terms
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.dprelease.moments.clipped_shapes import BITS, UNIT, climbed, drawn, multiplied, shape, squared_distances
from tests.support.noise import SeededNoise
from tests.support.rounds import after, first_blocks, in_published_ranges, ranges_first
from tests.support.specs import TWO_PARTIES, build_spec, categorical, numeric, random_rows, with_terms


@dataclass(frozen=True)
class Search:
    """How far apart the search brought two rows of a shape.

    Attributes:
        rows: what rows of the shape can be.
        weight: v.
        found: the largest squared distance.
    """

    rows: RowBounds
    weight: Fraction
    found: Fraction

    @property
    def claimed(self) -> Fraction:
        """The squared sensitivity in use."""
        return self.rows.squared_sensitivity(self.weight)


def search(seed: int) -> Search:
    """The best of 400 random pairs of a random shape, and from there coordinate ascent."""
    random = np.random.default_rng(seed)
    parties, clipping = shape(random)
    layout = Layout(tuple(column for own in parties for column in own))
    weight = Fraction(clipping.square_weight)
    cells = drawn(random, parties, 400)
    partners = random.permutation(cells)
    rows, others = (multiplied(each, parties, clipping) for each in (cells, partners))
    distances = squared_distances(layout, weight, rows, others)
    best = max(range(len(distances)), key=distances.__getitem__)
    found, pair = climbed(parties, clipping, np.array([cells[best], partners[best]]))
    assert found >= distances[best]
    for norm in clipping.norms:
        inner = [index for index, each in enumerate(layout.variables, 1) if each.name in norm.columns]
        assert (multiplied(pair, parties, clipping)[:, inner] ** 2).sum(axis=1).max() <= norm.squared
    return Search(RowBounds.of(layout, clipping), weight, found)


@pytest.fixture(scope="module")
def searches() -> list[Search]:
    return [search(seed) for seed in range(30)]


def test_no_pair_of_rows_is_further_apart(searches: list[Search]) -> None:
    assert [seed for seed, each in enumerate(searches) if each.found > each.claimed] == []


@pytest.mark.parametrize("seed", range(12))
def test_however_far_columns_reach_rows_are_no_further_apart(seed: int) -> None:
    """Ranges of any centre and width, as reaches make them, are in no sensitivity, and no pair of rows exceeds it."""
    random = np.random.default_rng(100 + seed)
    parties, clipping = shape(random)
    layout, weight = Layout(tuple(column for own in parties for column in own)), Fraction(clipping.square_weight)
    claimed = clipped_sensitivity(layout, clipping, BITS)
    for _ in range(4):
        reached = clipping.model_copy(
            update={
                "ranges": tuple(
                    later_range(
                        each.name,
                        int(random.integers(-STEPS, STEPS + 1)),
                        int(random.integers(1, STEPS // 2)),
                        int(random.integers(REACHES)),
                    )
                    for each in clipping.ranges
                )
            }
        )
        assert clipped_sensitivity(layout, reached, BITS) == claimed
        cells = drawn(random, parties, 200)
        rows, others = (multiplied(each, parties, reached) for each in (cells, random.permutation(cells)))
        assert max(squared_distances(layout, weight, rows, others)) <= RowBounds.of(
            layout, clipping
        ).squared_sensitivity(weight)


def test_the_search_comes_close(searches: list[Search]) -> None:
    """Otherwise it would find nothing wrong with a value that is too small."""
    ratios = np.array([float(each.found / each.claimed) for each in searches])
    clipped = np.array([bool(each.rows.clipped) for each in searches])
    assert np.mean(ratios > 0.95) > 0.5
    assert np.sum(ratios[clipped] > 0.99) > 5


@pytest.mark.parametrize(
    "claim",
    [
        lambda each: each.claimed * Fraction(99, 100),
        lambda each: each.rows.squared_sensitivity(Fraction(1, 2)),
        lambda each: each.claimed - (each.rows.excess**2 if each.rows.excess <= 0 else 0),
    ],
    ids=["one percent too small", "squares as if v were 1/2", "an excess of public columns that is none"],
)
def test_a_claim_that_is_too_small_is_caught(searches: list[Search], claim: Callable[[Search], Fraction]) -> None:
    assert sum(each.found > claim(each) for each in searches if each.rows.clipped) > 3


def test_two_orthogonal_rows_at_their_norms_attain_it() -> None:
    columns = (numeric("x"), numeric("y"), numeric("z"))
    clipping = Clipping(
        constant=UNIT,
        weights=(UNIT,) * 3,
        ranges=tuple(Range.whole(each.name) for each in columns),
        norms=(Norm(columns=("x", "y", "z"), squared=2 * UNIT**2),),
        square_weight="1/2",
    )
    layout = Layout(columns)
    before, after = (np.array([[UNIT, *(sign * UNIT for sign in signs)]]) for signs in ((1, 1, 0), (-1, 0, 1)))
    assert before[0] @ after[0] == 0
    exact = RowBounds.of(layout, clipping).squared_sensitivity(Fraction(1, 2))
    assert squared_distances(layout, Fraction(1, 2), before, after) == [exact] == [9 * UNIT**4]


def test_whole_boxes_of_equal_weight_cost_what_boxes_cost() -> None:
    columns = (numeric("x"), numeric("y"), categorical("b", "yes"), categorical("g", "a", "b"))
    layout = Layout(columns)
    clipping = Clipping(
        constant=UNIT, weights=(UNIT,) * 4, ranges=(Range.whole("x"), Range.whole("y")), square_weight="1/2"
    )
    weight = RowBounds.of(layout, clipping).best_weight()
    clipping = clipping.model_copy(update={"square_weight": str(weight)})
    assert clipped_sensitivity(layout, clipping, BITS) == sensitivity(layout.variables)


def test_weights_of_squares_that_are_not_covered_are_refused() -> None:
    layout = Layout((numeric("x"), numeric("y")))
    clipping = Clipping(
        constant=UNIT, weights=(UNIT,) * 2, ranges=(Range.whole("x"), Range.whole("y")), square_weight="1/2"
    )
    rows = RowBounds.of(layout, clipping)
    assert rows.largest_weight is not None
    for weight in (Fraction(1, 4), rows.largest_weight + Fraction(1, 100)):
        with pytest.raises(InvalidInput, match="weight of at least 1/2"):
            rows.squared_sensitivity(weight)


def test_a_norm_too_small_for_the_noise_is_found_out() -> None:
    """Rows longer than the norm that the noise is for exceed its sensitivity: the search sees what it is to see."""
    columns = tuple(numeric(f"x{i}") for i in range(4))
    names = tuple(each.name for each in columns)
    honest = Clipping(
        constant=UNIT,
        weights=(UNIT,) * 4,
        ranges=tuple(map(Range.whole, names)),
        norms=(Norm(columns=names, squared=2 * UNIT**2),),
        square_weight="1/2",
    )
    broken = honest.model_copy(update={"norms": ()})
    rows = multiplied(drawn(np.random.default_rng(1), [columns], 400), [columns], broken)
    most = RowBounds.of(Layout(columns), honest).squared_sensitivity(Fraction(1, 2))
    assert max(squared_distances(Layout(columns), Fraction(1, 2), rows, rows[::-1])) > most


PLAIN = build_spec(mechanism="moments", grid_bits=16)
SPEC = ranges_first(PLAIN)
TERMS: Any = SPEC.terms


@pytest.mark.parametrize(("rows", "part"), [(40, Fraction(3, 20)), (1499, Fraction(3, 20)), (1500, Fraction(1, 10))])
def test_the_budget_is_split_by_n_alone(rows: int, part: Fraction) -> None:
    assert share(rows) == part
    spec = ranges_first(build_spec(mechanism="moments", grid_bits=16, rows=rows))
    terms: Any = spec.terms
    whole = budget(spec.target)
    assert Fraction(terms.first.mu2) == part * whole
    assert Fraction(terms.mu2) == (1 - part) * whole
    given = check_spec(spec)
    assert whole * (1 - Fraction(1, 10**6)) < given.joint_mu2 <= whole
    assert sum(each.mu2 for each in given.parties) == given.joint_mu2


def test_charges_follow_the_numbers_and_exposure_the_whole_of_the_moments() -> None:
    before = SPEC.model_copy(update={"terms": TERMS.first})
    alone = with_terms(SPEC, first=None)
    ranges, moments = (mechanism_of(each).cost(each) for each in (before, alone))
    cost = mechanism_of(SPEC).cost(SPEC)
    for party in ("north", "south"):
        assert cost.charges[party] == ranges.charges[party] + moments.charges[party]
        assert cost.exposures[party] == ranges.exposures[party] + moments.joint
    assert cost.collusion_threshold == 1


def test_specs_of_one_round_say_nothing_of_it() -> None:
    assert b'"first"' not in PLAIN.to_bytes()
    assert PLAIN.rounds() == (range(1),)
    assert SPEC.rounds() == (range(1), range(1, 2))
    assert ReleaseSpec.from_bytes(SPEC.to_bytes()) == SPEC


def changed(**fields: Any) -> Any:
    data = SPEC.model_dump(mode="json")
    data["terms"] |= fields
    return json.dumps(data)


def nested(depth: int) -> Any:
    found: Any = None
    for _ in range(depth):
        found = {**SPEC.terms.model_dump(mode="json"), "first": found}
    return found


REFUSED = {
    "moments first": {"first": PLAIN.terms.model_dump(mode="json")},
    "moments in moments, again and again": {"first": nested(20)},
    "rows first": {"first": build_spec(mechanism="rows").terms.model_dump(mode="json")},
    "no terms": {"first": {"mechanism": "ranges"}},
    "a list": {"first": []},
    "no clipping": {"clipping": None},
    "ranges in the spec": {
        "clipping": TERMS.clipping.model_dump(mode="json")
        | {"ranges": [{"name": name, "centre": 0, "half_width": 1} for name in ("age", "glucose")]}
    },
    "a source": {"clipping": TERMS.clipping.model_dump(mode="json") | {"source": "ab" * 32}},
}


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED)
def test_specs_without_sense_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"terms|first|mechanism|ranges|clipp"):
        ReleaseSpec.model_validate_json(changed(**fields))


def test_terms_of_a_first_round_are_read_as_part_of_a_spec_alone() -> None:
    data = TERMS.model_dump(mode="json")
    assert read_terms(data) == TERMS
    with pytest.raises(ValueError, match="as part of a spec"):
        JointMoments.model_validate_json(json.dumps(data))


@pytest.mark.parametrize("mu", [0.05, 0.2, 3.0])
def test_rows_are_clipped_as_in_ranges_that_were_published_before(mu: float) -> None:
    """Whatever they will be: nothing but the ranges themselves depends on them."""
    columns = {party: (*own, numeric(f"more_{party}")) for party, own in TWO_PARTIES.items()}
    names = [name for own in columns.values() for name in numbers_of(own)]
    situation = ClippingInputs(mu, 2000, 2, 1, 16)
    published = choose_clipping(columns, [Range.whole(name) for name in names], situation, {"glucose": 1.7})
    later = choose_clipping(columns, None, situation, {"glucose": 1.7})
    assert later == published.model_copy(update={"ranges": ()})


@pytest.mark.parametrize("field", ["counts_scale", "sum_scale", "square_scale"])
def test_a_first_round_with_less_noise_than_it_says_is_refused(field: str) -> None:
    first = TERMS.first.model_copy(update={field: getattr(TERMS.first, field) * 0.99})
    with pytest.raises(SpecRefused, match="noise scales are not those"):
        check_spec(with_terms(SPEC, first=first))


def test_both_rounds_together_keep_to_the_target() -> None:
    """Either round alone would."""
    whole = ranges_first(build_spec(mechanism="moments", grid_bits=16, epsilon=1.2))
    more: Any = whole.terms
    lie = with_terms(SPEC, first=more.first, **{key: getattr(more, key) for key in ("mu2", "scale", "diagonal_scale")})
    with pytest.raises(SpecRefused, match="does not reach the joint target"):
        check_spec(lie)


def test_numbers_are_coded_in_the_ranges_that_were_published() -> None:
    tables = {party: random_rows(SPEC, party) for party in TWO_PARTIES}
    first = first_blocks(SPEC, tables, SeededNoise(3))
    known: Any = in_published_ranges(SPEC, first).terms
    mechanism = mechanism_of(SPEC)
    for party, rows in tables.items():
        own = [each for each in known.clipping.ranges if each.name in {column.name for column in rows.columns}]
        centre, scale, reach = first[party][0].values[0, -3:].tolist()
        assert (own[0].centre, own[0].half_width) == (centre, 3 * scale * 5**reach // 4**reach)
        assert own[0].reach == reach
        coded = mechanism.matrix(rows, SPEC, after(SPEC, first))
        assert not np.array_equal(coded, mechanism_of(PLAIN).matrix(rows, PLAIN))


def test_no_number_is_coded_in_its_public_bounds_for_want_of_a_range() -> None:
    rows = random_rows(SPEC, "south")
    with pytest.raises(InvalidInput, match="not coded in its public bounds instead"):
        clip_rows(rows.codes, rows.columns, (1 << 16,), TERMS.clipping, 16)


def test_a_folder_called_first_has_another_spelling() -> None:
    asked: list[str] = []

    def ranges(folder: str) -> PublishedRanges:
        asked.append(folder)
        raise InvalidInput("no such folder")

    def propose(folder: str, **more: Any) -> Any:
        columns = {"a": (numeric("x"),)}
        options = read_options("moments", {"ranges": folder, **more})
        agreed: Any = SPEC
        return mechanism_named("moments").propose(options, Draft(columns, agreed, SPEC.target, 16, bytes, ranges))

    assert propose("first").terms.first is not None
    assert asked == []
    with pytest.raises(InvalidInput, match="no such folder"):
        propose("./first")
    assert asked == ["./first"]


@pytest.mark.parametrize("clip", ["much", "2", -1, 1000.5, True, None, [1.0]])
def test_how_far_to_clip_is_refused_in_one_sentence(clip: object) -> None:
    with pytest.raises(ValueError, match="clip") as refused:
        read_options("moments", {"ranges": "first", "clip": clip})
    words = f'write "auto", "none" or how far rows are clipped, a number from 0 to 1000; not {clip}'
    assert str(refused.value) == f"clip: {words}"


@pytest.mark.parametrize("clip", ["auto", "none", 0, 2, 2.5, 1000])
def test_how_far_to_clip(clip: object) -> None:
    assert read_options("moments", {"ranges": "first", "clip": clip}).clip == clip
