"""What joint moments cost: one mechanism over all parties' columns, charged whole to each; every other number is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from dprelease.data.columns import Column
from dprelease.errors import SpecRefused
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.privacy.gaussian import epsilon_of
from dprelease.release.accounting import NEIGHBOURS_IN_WORDS, check_spec, guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target
from tests.support.specs import TWO_PARTIES, build_spec, categorical, numeric, with_terms

ONE: Mapping[str, tuple[Column, ...]] = {"a": (numeric("x"),)}
FOUR: Mapping[str, tuple[Column, ...]] = {
    "a": (numeric("age"), numeric("weight")),
    "b": (categorical("sex", "female", "male"),),
    "c": (categorical("smoker", "yes"), numeric("glucose")),
    "d": (categorical("region", "north", "south", "east"),),
}


def moments(parties: Mapping[str, tuple[Column, ...]] = FOUR, **more: Any) -> ReleaseSpec:
    return build_spec(parties, mechanism="moments", **more)


def changed(spec: ReleaseSpec, **fields: Any) -> ReleaseSpec:
    """The same spec with other parameters of the mechanism."""
    return with_terms(spec, **fields)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("parties", "curious", "dealer"),
    [
        (ONE, 0, "none"),
        (TWO_PARTIES, 1, "coordinator"),
        (FOUR, 1, "rotating"),
        (FOUR, 1, "coordinator"),
        (FOUR, 3, "coordinator"),
    ],
)
def test_a_sound_spec_reaches_its_target_and_every_party_is_charged_its_part(
    parties: Mapping[str, tuple[Column, ...]], curious: int, dealer: str, epsilon: float
) -> None:
    spec = moments(parties, curious=curious, dealer=dealer, epsilon=epsilon, grid_bits=14)
    given = check_spec(spec)
    assert epsilon * (1 - 1e-3) <= given.joint_epsilon <= epsilon
    assert [part.party for part in given.parties] == list(parties)
    assert {(part.exposure, part.epsilon) for part in given.parties} == {(given.joint_mu2, given.joint_epsilon)}
    assert {part.mu2 for part in given.parties} == {given.joint_mu2 / len(parties)}
    assert sum(part.mu2 for part in given.parties) == given.joint_mu2
    assert given.collusion_threshold == curious
    assert given == guarantee(spec)


@pytest.mark.parametrize("rows_per_subject", [1, 3])
@pytest.mark.parametrize("curious", [1, 2, 3])
def test_what_the_honest_parties_add_covers_the_sensitivity(curious: int, rows_per_subject: int) -> None:
    spec = moments(curious=curious, rows_per_subject=rows_per_subject)
    # Three numbers, one binary, two groups: beta = 6, gamma = 4, P2 = 1.
    delta = rows_per_subject * 7 << (2 * spec.grid_bits)
    weight = 1 + 2 + 1 + Fraction(3 + 1, 2)
    assert sensitivity(layout_of(spec).variables).diagonal_weight == weight
    needed = Fraction(delta**2) / Fraction(spec.terms.mu2)
    honest = len(FOUR) - curious
    for scale, least in ((spec.terms.scale, needed), (spec.terms.diagonal_scale, needed / weight)):
        assert honest * Fraction(scale) ** 2 >= least + 4 > honest * Fraction(math.nextafter(scale, 0)) ** 2
    assert guarantee(spec).joint_mu2 <= Fraction(spec.terms.mu2)


def test_a_coalition_up_to_t_learns_no_more_and_a_larger_one_has_no_guarantee() -> None:
    given = check_spec(moments(curious=2))
    for coalition in (set[str](), {"a"}, {"a", "d"}):
        assert given.against(coalition) == given.joint_epsilon
    assert given.against({"a", "b", "d"}) == math.inf
    assert given.against({"a", "b", "c", "d"}) == 0  # nobody is left to learn about
    alone = check_spec(moments(ONE))
    assert (alone.against(set()), alone.against({"a"})) == (alone.joint_epsilon, 0)


@pytest.mark.parametrize(
    ("parties", "curious", "words"),
    [
        (ONE, 0, "provided the hospital added its declared noise"),
        (FOUR, 1, "against the public, the hub, and any single hospital, also with the hub"),
        (FOUR, 3, "against the public, the hub, and any 3 hospitals that pool what they saw, also with the hub"),
    ],
)
def test_the_guarantee_in_words(parties: Mapping[str, tuple[Column, ...]], curious: int, words: str) -> None:
    given = check_spec(moments(parties, curious=curious, epsilon=2.0))
    joint, neighbours = given.words()
    assert neighbours == NEIGHBOURS_IN_WORDS
    assert f"({given.joint_epsilon:.6g}, 1e-05) for all released columns of a patient" in joint
    assert words in joint
    assert ("Its price is charged to the hospitals in equal parts." in joint) is (curious > 0)


@pytest.mark.parametrize("towards", [0.0, math.inf])
@pytest.mark.parametrize("field", ["scale", "diagonal_scale"])
def test_a_scale_off_by_one_double_is_refused(field: str, towards: float) -> None:
    spec = moments()
    with pytest.raises(SpecRefused, match="the noise scales are not those"):
        check_spec(changed(spec, **{field: math.nextafter(getattr(spec.terms, field), towards)}))


def test_scales_for_fewer_curious_hospitals_other_columns_or_rows_are_refused() -> None:
    spec, more = moments(curious=1, dealer="coordinator"), moments(curious=2)
    wrong = [
        changed(more, scale=spec.terms.scale, diagonal_scale=spec.terms.diagonal_scale),
        changed(spec, curious=2),
        changed(spec, scale=spec.terms.diagonal_scale),
        changed(spec, mu2=str(Fraction(spec.terms.mu2) / 2)),
        spec.model_copy(update={"rows_per_subject": 2}),
        spec.model_copy(update={"grid_bits": 11}),
        spec.model_copy(update={"parties": moments({**FOUR, "d": (numeric("z"), numeric("y"))}).parties}),
        spec.model_copy(update={"parties": spec.parties[:3]}),
    ]
    for each in wrong:
        with pytest.raises(SpecRefused, match="the noise scales are not those"):
            check_spec(each)


@pytest.mark.parametrize("mu2", ["0", "-1/10"])
def test_a_budget_that_is_not_positive_is_refused(mu2: str) -> None:
    with pytest.raises(SpecRefused, match="not positive"):
        check_spec(changed(moments(), mu2=mu2))


@pytest.mark.parametrize("weaker", [{"epsilon": 1.001}, {"delta": 1.01e-5}])
def test_noise_for_a_weaker_target_is_refused(weaker: dict[str, float]) -> None:
    target = moments().target
    with pytest.raises(SpecRefused, match="does not reach the joint target epsilon = 1"):
        check_spec(moments(**weaker).model_copy(update={"target": target}))


@pytest.mark.parametrize(("bits", "accepted"), [(1, False), (2, False), (3, True)])
def test_a_grid_too_coarse_for_the_noise_is_refused(bits: int, accepted: bool) -> None:
    # One number, Delta = 2, v = 2, 1/mu = 3.73: the share for its square has scale 2 4^b 3.73 / sqrt 2, which passes 100
    # between b = 2 (84, although that of other entries is 119) and b = 3 (338).
    spec = moments(ONE, grid_bits=bits)
    assert (spec.terms.scale > 100) is (bits > 1)
    if accepted:
        check_spec(spec)
    else:
        with pytest.raises(SpecRefused, match="too coarse"):
            check_spec(spec)


@pytest.mark.parametrize("parties", [ONE, TWO_PARTIES, FOUR])
@pytest.mark.parametrize("bits", [16, 20, 24])
def test_sums_are_kept_from_wrapping_to_the_last_row(parties: Mapping[str, tuple[Column, ...]], bits: int) -> None:
    spec = moments(parties, grid_bits=bits)
    noise = int(20 * spec.terms.scale * math.sqrt(len(parties))) + 1
    most = ((1 << 63) - 1 - noise) >> (2 * bits)
    assert most < (1 << 63) >> (2 * bits)  # the noise counts
    check_spec(spec.model_copy(update={"rows": most}))
    with pytest.raises(SpecRefused, match=r"2\^63"):
        check_spec(spec.model_copy(update={"rows": most + 1}))


def test_noise_beyond_what_the_sampler_draws_is_refused() -> None:
    spec = moments(ONE, grid_bits=24, epsilon=0.01, delta=1e-6, rows=1)
    assert 2.0**56 <= spec.terms.scale < 2.0**63 / 40  # nothing would wrap yet
    with pytest.raises(SpecRefused, match=r"2\^63"):
        check_spec(spec)


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    "change",
    [
        {"terms": {"mu2": HUGE}},
        {"terms": {"mu2": f"1/{HUGE}{HUGE}"}},
        {"terms": {"scale": 1e308, "diagonal_scale": 1e308}},
        {"terms": {"scale": 5e-324, "diagonal_scale": 5e-324}},
        {"rows_per_subject": 10**300},
        {"rows": 10**300},
        {"target": Target(scope="joint", epsilon=1e-300, delta=1e-300)},
        {"target": Target(scope="joint", epsilon=1.0, delta=5e-324)},
    ],
)
def test_absurd_numbers_are_refused_like_any_other(change: dict[str, Any]) -> None:
    spec = moments()
    spec = changed(spec, **change.pop("terms", {})).model_copy(update=change)
    with pytest.raises(SpecRefused):
        check_spec(spec)


def test_the_noise_of_a_curator_needs_no_dealer_and_costs_nothing_more() -> None:
    spec = moments(ONE)
    sd = spec.terms.scale / 4**spec.grid_bits
    assert sd == pytest.approx(2 / math.sqrt(guarantee(spec).joint_mu2), rel=1e-6)
    assert guarantee(spec).joint_epsilon == epsilon_of(math.sqrt(guarantee(spec).joint_mu2), 1e-5)


def test_too_many_entries_are_refused_before_they_are_laid_out() -> None:
    levels = tuple(f"level{number}" for number in range(900))
    wide = {"north": tuple(categorical(f"c{number}", *levels) for number in range(7))}
    sound = build_spec({"north": wide["north"][:6]}, mechanism="moments", grid_bits=8)
    assert check_spec(sound).joint_mu2 > 0
    with pytest.raises(SpecRefused, match="6307 variables make more than 16777216 entries"):
        check_spec(build_spec(wide, mechanism="moments", grid_bits=8))
