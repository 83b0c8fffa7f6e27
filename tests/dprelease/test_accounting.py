"""What a spec costs, recomputed from its declarations, and the refusal of every number that does not follow."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dprelease.errors import SpecRefused
from dprelease.mechanisms.noisy_rows import words
from dprelease.mechanisms.noisy_rows.calibration import party_noise
from dprelease.privacy.price import epsilon_figure, rounded_up
from dprelease.release.accounting import Guarantee, PartyGuarantee, check_spec, guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target, Terms
from tests.support.specs import build_spec, categorical, numeric, with_terms


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
    said = words.guarantee(dict.fromkeys(shares, epsilon_figure(0.5)), epsilon_figure(1.0049465), rounded_up(1e-5))
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
