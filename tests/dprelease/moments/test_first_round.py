"""Ranges as the first round of moments: the split, what a spec may say of it, and that no number is coded in public bounds."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.data.ranges import Range, share
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.mechanisms.draft import Draft, PublishedRanges
from dprelease.mechanisms.moments.clipping import clip_rows, numbers_of
from dprelease.mechanisms.moments.clipping_rule import Situation, choose_clipping
from dprelease.mechanisms.moments.terms import JointMoments
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, read_options, read_terms
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import check_spec
from dprelease.release.block import values_of
from dprelease.release.spec import ReleaseSpec
from tests.support.noise import SeededNoise
from tests.support.rounds import first_blocks, in_published_ranges, ranges_first
from tests.support.specs import TWO_PARTIES, build_spec, numeric, random_rows, with_terms

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
    ranges, moments = mechanism_of(before).cost(before), mechanism_of(SPEC).cost(with_terms(SPEC, first=None))
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
    situation = Situation(mu, 2000, 2, 1, 16)
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
        coded = mechanism.matrix(rows, SPEC, values_of(first))
        assert not np.array_equal(coded, mechanism.matrix(rows, PLAIN))


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
