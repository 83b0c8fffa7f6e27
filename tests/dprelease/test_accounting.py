"""What a spec costs, recomputed from its declarations, and the refusal of every number that does not follow.

What joint moments cost: one mechanism over all parties' columns, charged whole to each; every other number is refused.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from dprelease.data.columns import Column
from dprelease.errors import SpecRefused
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mechanisms.noisy_rows.calibration import party_noise
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.gaussian import epsilon_of
from dprelease.privacy.price import epsilon_figure, rounded_up
from dprelease.release.accounting import NEIGHBOURS_IN_WORDS, Guarantee, PartyGuarantee, check_spec, guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target, Terms
from tests.support.specs import TWO_PARTIES, build_spec, categorical, numeric, with_terms


@pytest.mark.parametrize("scope", ["joint", "per-party"])
@pytest.mark.parametrize(("mechanism", "weight"), [("mixed", "1/10"), ("mixed", "0"), ("rows", "0")])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_a_sound_spec_reaches_its_target_and_stays_within_it(
    scope: str, mechanism: str, weight: str, epsilon: float
) -> None:
    spec = build_spec(scope=scope, mechanism=mechanism, anchor_weight=weight, epsilon=epsilon, grid_bits=14)
    given = check_spec(spec)
    reached = given.joint_epsilon if scope == "joint" else max(part.epsilon for part in given.parties)
    assert epsilon * (1 - 1e-3) <= reached <= epsilon
    assert given == guarantee(spec)


def equal_parties(count: int, scope: str) -> ReleaseSpec:
    return build_spec({f"p{i}": (numeric(f"x{i}"),) for i in range(count)}, scope=scope, mechanism="rows", grid_bits=20)


@pytest.mark.parametrize(("parties", "joint"), [(2, 1.46517), (3, 1.83497), (5, 2.44208), (10, 3.61859), (20, 5.40693)])
def test_joint_guarantee_of_equal_parties_with_one_each(parties: int, joint: float) -> None:
    given = check_spec(equal_parties(parties, "per-party"))
    assert given.joint_epsilon == pytest.approx(joint, rel=5e-6)
    assert all(part.epsilon == pytest.approx(1.0, rel=1e-6) for part in given.parties)


@pytest.mark.parametrize(
    ("parties", "mu"), [(2, 0.189541), (3, 0.154759), (5, 0.119876), (10, 0.084765), (20, 0.059938)]
)
def test_share_of_equal_parties_in_a_joint_target(parties: int, mu: float) -> None:
    given = check_spec(equal_parties(parties, "joint"))
    assert all(math.sqrt(part.mu2) == pytest.approx(mu, rel=1e-5) for part in given.parties)
    assert given.joint_epsilon == pytest.approx(1.0, rel=1e-6)


def three_parties() -> Guarantee:
    shares = {"a": Fraction(1, 100), "b": Fraction(9, 400), "c": Fraction(4, 100)}
    parts = tuple(PartyGuarantee(name, mu2, mu2, 0.5) for name, mu2 in shares.items())
    figures = dict.fromkeys(shares, epsilon_figure(0.5))
    said = mechanism_of(build_spec()).guarantee(build_spec(), figures, epsilon_figure(1.0049465), rounded_up(1e-5))
    return Guarantee(1e-5, sum(shares.values(), Fraction(0)), 1.0049465, parts, sentences=said)


def test_a_coalition_still_learns_what_the_others_leak() -> None:
    given = three_parties()
    assert given.against(set()) == pytest.approx(1.0049465, rel=1e-7)
    assert given.against({"c"}) == pytest.approx(0.64770322, rel=1e-7)
    assert given.against({"a", "b", "c"}) == 0


def test_the_guarantee_is_said_in_words_with_its_numbers() -> None:
    joint, each, neighbours = three_parties().words()
    assert "(1.00495, 1e-05)" in joint
    assert "provided every hospital added its declared noise" in joint
    assert all(f"{name}: epsilon = 0.5" in each for name in "abc")
    assert "replaced" in neighbours
    assert "Membership" in neighbours
    assert three_parties().party("b").mu2 == Fraction(9, 400)


def with_noise(spec: ReleaseSpec, **changes: object) -> ReleaseSpec:
    first, *rest = spec.terms.noise
    return with_terms(spec, noise=(first.model_copy(update=changes), *rest))


@pytest.mark.parametrize("towards", [0.0, math.inf])
@pytest.mark.parametrize("field", ["scale", "anchor_scale"])
def test_a_scale_off_by_one_double_is_refused(field: str, towards: float) -> None:
    spec = build_spec()
    moved = math.nextafter(getattr(spec.terms.noise[0], field), towards)
    with pytest.raises(SpecRefused, match="north: the noise scales are not those"):
        check_spec(with_noise(spec, **{field: moved}))


@pytest.mark.parametrize("share", ["0", "-1/10"])
def test_a_share_that_is_not_positive_is_refused(share: str) -> None:
    with pytest.raises(SpecRefused, match="not positive"):
        check_spec(with_noise(build_spec(), mu2=share))


def test_a_share_other_than_the_scales_is_refused() -> None:
    with pytest.raises(SpecRefused, match="noise scales are not those"):
        check_spec(with_noise(build_spec(), mu2="1/100"))


def test_wider_declared_bounds_do_not_ride_on_old_noise() -> None:
    spec = build_spec()
    wider = spec.parties[0].model_copy(update={"columns": (*spec.parties[0].columns, numeric("bmi"))})
    with pytest.raises(SpecRefused, match="noise scales are not those"):
        check_spec(spec.model_copy(update={"parties": (wider, *spec.parties[1:])}))


def weighing(spec: ReleaseSpec, *weights: tuple[int, ...]) -> ReleaseSpec:
    parts = zip(spec.parties, weights, strict=True)
    return spec.model_copy(update={"parties": tuple(part.model_copy(update={"weights": w}) for part, w in parts)})


@pytest.mark.parametrize(
    ("forged", "party"),
    [
        (weighing(build_spec(), (2, 1), ()), "north"),
        (weighing(build_spec(), (), (2,)), "south"),
        (weighing(build_spec(weights={"age": 2}), (3, 1), ()), "north"),
        (weighing(build_spec(weights={"age": 2}), (), ()), "north"),
        (weighing(build_spec(weights={"age": 2}), (1, 2), ()), "north"),
    ],
)
def test_other_weights_do_not_ride_on_old_noise(forged: ReleaseSpec, party: str) -> None:
    with pytest.raises(SpecRefused, match=f"{party}: the noise scales are not those"):
        check_spec(forged)


@pytest.mark.parametrize("scope", ["joint", "per-party"])
@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_weights_move_noise_between_columns_within_the_same_target(scope: str, mechanism: str) -> None:
    plain, weighed = (
        check_spec(build_spec(scope=scope, mechanism=mechanism, grid_bits=14, weights=weights))
        for weights in (None, {"glucose": 4})
    )
    assert weighed.joint_epsilon <= plain.joint_epsilon * (1 + 1e-9)
    assert float(weighed.joint_mu2) == pytest.approx(float(plain.joint_mu2), rel=1e-4)
    if scope == "joint":  # shares go with weighted sensitivities: 4 + 2 of the north's, 16 * 4 of the south's
        assert float(weighed.party("south").mu2 / weighed.joint_mu2) == pytest.approx(64 / 70, rel=1e-4)


def test_weighted_integers_must_stay_exact_too() -> None:
    sound = {"rows": 1 << 26, "epsilon": 10.0, "grid_bits": 24, "anchor_weight": "1/2"}
    check_spec(build_spec(**sound, weights={"glucose": 7}))
    with pytest.raises(SpecRefused, match="could reach 2\\^53"):
        check_spec(build_spec(**sound, weights={"glucose": 8}))


@pytest.mark.parametrize("subject_rows", [2, 3])
def test_more_rows_for_each_subject_do_not_ride_on_old_noise(subject_rows: int) -> None:
    with pytest.raises(SpecRefused, match="noise scales are not those"):
        check_spec(build_spec().model_copy(update={"rows_per_subject": subject_rows}))
    check_spec(build_spec(rows_per_subject=subject_rows))


@pytest.mark.parametrize(
    "claimed",
    [
        Target(scope="joint", epsilon=0.999, delta=1e-5),
        Target(scope="joint", epsilon=1.0, delta=0.99e-5),
        Target(scope="per-party", epsilon=0.7, delta=1e-5),
    ],
)
def test_noise_for_a_weaker_target_is_refused(claimed: Target) -> None:
    with pytest.raises(SpecRefused, match="does not reach the"):
        check_spec(build_spec().model_copy(update={"target": claimed}))


def test_noise_for_each_party_is_not_noise_for_all_together() -> None:
    spec = build_spec(scope="per-party")
    check_spec(spec)
    with pytest.raises(SpecRefused, match="does not reach the joint target"):
        check_spec(spec.model_copy(update={"target": Target(scope="joint", epsilon=1.0, delta=1e-5)}))


@pytest.mark.parametrize("place", [0, 1])
def test_every_party_is_held_to_a_per_party_target(place: int) -> None:
    spec = build_spec(scope="per-party")
    noise = list(spec.terms.noise)
    name, mu2 = noise[place].party, Fraction(noise[place].mu2)
    noise[place] = party_noise(
        name,
        mu2 * Fraction(101, 100),
        spec.terms.squared_sensitivity(spec, name),
        spec.terms.squared_norm,
        Fraction(1, 10),
    )
    with pytest.raises(SpecRefused, match="does not reach the per-party target"):
        check_spec(with_terms(spec, noise=tuple(noise)))


def test_one_party_may_not_take_more_than_its_share_of_a_joint_target() -> None:
    spec = build_spec()
    greedy = party_noise(
        "north",
        Fraction(spec.terms.noise[0].mu2) * 2,
        spec.terms.squared_sensitivity(spec, "north"),
        spec.terms.squared_norm,
        Fraction(1, 10),
    )
    with pytest.raises(SpecRefused, match="does not reach the joint target"):
        check_spec(with_terms(spec, noise=(greedy, *spec.terms.noise[1:])))


@pytest.mark.parametrize(("bits", "accepted"), [(2, False), (3, False), (4, True), (10, True)])
def test_a_grid_too_coarse_for_the_noise_is_refused(bits: int, accepted: bool) -> None:
    # One category, mu = 1/7.03: Delta_int / mu = sqrt(2) 2^b / mu passes 100 between b = 3 (79.6) and b = 4 (159).
    spec = build_spec({"a": (categorical("sex", "f"),)}, grid_bits=bits, epsilon=0.5)
    if accepted:
        check_spec(spec)
    else:
        with pytest.raises(SpecRefused, match="too coarse"):
            check_spec(spec)


def test_integers_that_could_reach_two_to_the_53_are_refused() -> None:
    with pytest.raises(SpecRefused, match="2\\^53"):
        check_spec(build_spec(rows=1 << 31, grid_bits=24))
    with pytest.raises(SpecRefused, match="2\\^53"):
        check_spec(build_spec(epsilon=1e-6, delta=1e-12, grid_bits=24))


HUGE = "1" + "0" * 400


def _noise(**changes: object) -> dict[str, Terms]:
    terms = build_spec().terms
    return {"terms": terms.model_copy(update={"noise": tuple(n.model_copy(update=changes) for n in terms.noise)})}


@pytest.mark.parametrize(
    "change",
    [
        {"terms": build_spec().terms.model_copy(update={"anchor_weight": f"1/{HUGE}"})},
        {"rows_per_subject": 10**300},
        _noise(mu2=f"1/{HUGE}{HUGE}"),
        _noise(mu2=HUGE),
        {"target": Target(scope="joint", epsilon=1e-300, delta=1e-300)},
        {"target": Target(scope="joint", epsilon=1.0, delta=5e-324)},
        _noise(scale=1e308, anchor_scale=1e308),
        _noise(scale=5e-324, anchor_scale=5e-324),
    ],
)
def test_absurd_numbers_are_refused_like_any_other(change: dict[str, object]) -> None:
    with pytest.raises(SpecRefused):
        check_spec(build_spec().model_copy(update=change))


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
def test_a_scale_of_moments_off_by_one_double_is_refused(field: str, towards: float) -> None:
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
def test_noise_of_moments_for_a_weaker_target_is_refused(weaker: dict[str, float]) -> None:
    target = moments().target
    with pytest.raises(SpecRefused, match="does not reach the joint target epsilon = 1"):
        check_spec(moments(**weaker).model_copy(update={"target": target}))


@pytest.mark.parametrize(("bits", "accepted"), [(1, False), (2, False), (3, True)])
def test_a_grid_too_coarse_for_the_noise_of_moments_is_refused(bits: int, accepted: bool) -> None:
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
    most = ((1 << 60) - 1 - noise) >> (2 * bits)
    assert most < (1 << 60) >> (2 * bits)  # the noise counts
    check_spec(spec.model_copy(update={"rows": most}))
    with pytest.raises(SpecRefused, match=r"2\^60"):
        check_spec(spec.model_copy(update={"rows": most + 1}))


def test_noise_beyond_what_the_sampler_draws_is_refused() -> None:
    spec = moments(ONE, grid_bits=24, epsilon=0.01, delta=1e-6, rows=1)
    assert 2.0**56 <= spec.terms.scale < 2.0**63 / 40  # nothing would wrap yet
    with pytest.raises(SpecRefused, match=r"2\^60"):
        check_spec(spec)


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
def test_absurd_numbers_of_moments_are_refused_like_any_other(change: dict[str, Any]) -> None:
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
