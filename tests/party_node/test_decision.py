"""May we take part? The coordinator may say what it likes; every number is recomputed, every limit kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest

from dprelease.data.columns import squared_sensitivity
from dprelease.errors import SpecRefused
from dprelease.mechanisms.noisy_rows.calibration import party_noise, shares
from dprelease.mechanisms.noisy_rows.terms import PartyNoise
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import PartyColumns, Target, instant
from tests.party_node.known import KEYS, KNOWN, SPEC
from tests.support.certificates import NOW
from tests.support.specs import TWO_PARTIES, build_spec, numeric, with_terms


def test_an_honest_proposal_costs_what_its_declarations_say() -> None:
    assessment = KNOWN.assess(SPEC)
    assert assessment.automatic
    assert assessment.guarantee == guarantee(SPEC)
    # A joint target is shared in proportion to the squared ranges: 4 + 2 of the north's, 4 of the south's.
    assert float(assessment.cost) == pytest.approx(float(budget(SPEC.target) * 6 / 10), rel=1e-6)
    assert assessment.cost <= budget(SPEC.target) * 6 / 10


@pytest.mark.parametrize("scope", ["joint", "per-party"])
@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_honest_proposals_of_every_kind_pass(scope: str, mechanism: str) -> None:
    assert KNOWN.assess(build_spec(keys=KEYS, scope=scope, mechanism=mechanism)).automatic


def test_a_weight_costs_what_it_says_and_needs_no_other_approval() -> None:
    assessment = KNOWN.assess(build_spec(keys=KEYS, weights={"age": 3}))
    assert assessment.automatic
    assert float(assessment.cost) == pytest.approx(float(budget(SPEC.target) * 38 / 42), rel=1e-6)


def part_of(spec: ReleaseSpec, whose: str, **changes: object) -> dict[str, object]:
    """The spec's parties with one of them changed."""
    return {"parties": tuple(part.model_copy(update=changes) if part.party == whose else part for part in spec.parties)}


def new_noise(spec: ReleaseSpec, noise: tuple[PartyNoise, ...]) -> dict[str, object]:
    return {"terms": with_terms(spec, noise=noise).terms}


def noise_of(spec: ReleaseSpec, party: str, change: Callable[[PartyNoise], PartyNoise]) -> dict[str, object]:
    return new_noise(spec, tuple(change(noise) if noise.party == party else noise for noise in spec.terms.noise))


def with_shares(spec: ReleaseSpec, given: dict[str, Fraction], sensitivity2: dict[str, int]) -> dict[str, object]:
    """Noise for shares and sensitivities that somebody made up."""
    weight = Fraction(spec.terms.anchor_weight)
    return new_noise(
        spec,
        tuple(
            party_noise(party, mu2, sensitivity2[party], spec.terms.squared_norm, weight)
            for party, mu2 in given.items()
        ),
    )


def sensitivities(spec: ReleaseSpec) -> dict[str, int]:
    return {part.party: spec.terms.squared_sensitivity(spec, part.party) for part in spec.parties}


def half_the_noise(noise: PartyNoise) -> PartyNoise:
    return noise.model_copy(update={"scale": noise.scale / 2})


def half_the_anchors_noise(noise: PartyNoise) -> PartyNoise:
    assert noise.anchor_scale is not None
    return noise.model_copy(update={"anchor_scale": noise.anchor_scale / 2})


def twice_the_share(noise: PartyNoise) -> PartyNoise:
    return noise.model_copy(update={"mu2": str(Fraction(noise.mu2) * 2)})


def shares_of(target: Target, sensitivity2: dict[str, int]) -> dict[str, Fraction]:
    return dict(shares(budget(target), target.scope, sensitivity2))


def whole_budget_for_each(spec: ReleaseSpec) -> dict[str, object]:
    return with_shares(spec, dict.fromkeys(KEYS, budget(spec.target)), sensitivities(spec))


def peers_sensitivity_shrunk(spec: ReleaseSpec) -> dict[str, object]:
    told = sensitivities(spec) | {"south": sensitivities(spec)["south"] // 4}
    return with_shares(spec, shares_of(spec.target, told), told)


def share_of_nothing(spec: ReleaseSpec) -> dict[str, object]:
    return noise_of(spec, "south", lambda noise: noise.model_copy(update={"mu2": "0"}))


LIES: dict[str, tuple[Callable[[ReleaseSpec], dict[str, object]], str]] = {
    "rows": (lambda spec: {"rows": spec.rows + 1}, "rows = 41, and here it is 40"),
    "alignment": (lambda spec: {"alignment": "00" * 32}, "alignment = 0000"),
    "roster": (lambda spec: {"roster": "others"}, "roster = others, and here it is roster-1"),
    "q": (lambda spec: {"rows_per_subject": 2}, "rows_per_subject = 2, and here it is 1"),
    "consortium": (lambda spec: {"consortium": "other"}, "consortium = other, and here it is trial"),
    "our key": (lambda spec: part_of(spec, "north", key="cc" * 32), f"our key = {'cc' * 32}, and here it is"),
    "our name": (lambda spec: part_of(spec, "north", party="nord"), "north is not a party"),
    "a column we do not have": (
        lambda spec: part_of(spec, "north", columns=(numeric("weight"), TWO_PARTIES["north"][1])),
        "column weight is not declared here",
    ),
    "our bounds": (
        lambda spec: part_of(spec, "north", columns=(numeric("age", 0.0, 60.0, unit="years"), TWO_PARTIES["north"][1])),
        "column age is not declared here",
    ),
    "our unit": (
        lambda spec: part_of(spec, "north", columns=(numeric("age", 0.0, 120.0, unit="months"),)),
        "column age is not declared here",
    ),
    "our fill": (
        lambda spec: part_of(
            spec, "north", columns=(TWO_PARTIES["north"][0].model_copy(update={"fill": 30.0}), TWO_PARTIES["north"][1])
        ),
        "column age is not declared here",
    ),
    "our levels": (
        lambda spec: part_of(
            spec, "north", columns=(TWO_PARTIES["north"][1].model_copy(update={"levels": ("female",)}),)
        ),
        "column sex is not declared here",
    ),
    "expiry": (lambda spec: {"expires": instant(NOW)}, "has expired"),
    "our weights": (lambda spec: part_of(spec, "north", weights=(2, 1)), "north: the noise scales are not those"),
    "a peer's weights": (lambda spec: part_of(spec, "south", weights=(3,)), "south: the noise scales are not those"),
    "our noise": (lambda spec: noise_of(spec, "north", half_the_noise), "north: the noise scales are not those"),
    "our anchor": (lambda spec: noise_of(spec, "north", half_the_anchors_noise), "north: the noise scales"),
    "a peer's noise": (lambda spec: noise_of(spec, "south", half_the_noise), "south: the noise scales are not those"),
    "a peer's sensitivity": (peers_sensitivity_shrunk, "south: the noise scales are not those"),
    "our share": (lambda spec: noise_of(spec, "north", twice_the_share), "north: the noise scales are not those"),
    "everybody's share": (whole_budget_for_each, "does not reach the joint target"),
    "no share": (share_of_nothing, "is not positive"),
    "a smaller epsilon": (
        lambda spec: {"target": Target(scope="joint", epsilon=0.9, delta=1e-5)},
        "does not reach the joint target epsilon = 0.9",
    ),
    "a smaller delta": (
        lambda spec: {"target": Target(scope="joint", epsilon=1.0, delta=1e-6)},
        "does not reach the joint target",
    ),
    "the grid": (lambda spec: {"grid_bits": 9}, "noise scales are not those"),
    "the weight of the anchor": (
        lambda spec: {"terms": with_terms(spec, anchor_weight="1/5").terms},
        "noise scales are not those",
    ),
}


@pytest.mark.parametrize(("lie", "words"), LIES.values(), ids=LIES)
def test_a_lie_is_refused_and_named(lie: Callable[[ReleaseSpec], dict[str, object]], words: str) -> None:
    with pytest.raises(SpecRefused) as caught:
        KNOWN.assess(SPEC.model_copy(update=lie(SPEC)))
    assert words in caught.value.message


def test_q_multiplies_the_sensitivity() -> None:
    thrice = build_spec(keys=KEYS, rows_per_subject=3)
    hospital_state = replace(KNOWN, own=KNOWN.own.model_copy(update={"rows_per_subject": 3}))
    assert hospital_state.assess(thrice).automatic
    quiet = with_terms(thrice, noise=SPEC.terms.noise)  # noise for one row of each patient
    with pytest.raises(SpecRefused, match="noise scales"):
        hospital_state.assess(quiet)


@pytest.mark.parametrize("before", [timedelta(seconds=1), timedelta(days=7)])
def test_until_it_expires_it_can_be_approved(before: timedelta) -> None:
    assert KNOWN.assess(SPEC, NOW + timedelta(days=7) - before).automatic


def test_a_part_of_our_columns_in_another_order_is_ours_too() -> None:
    columns = {"north": TWO_PARTIES["north"][::-1], "south": TWO_PARTIES["south"]}
    assert KNOWN.assess(build_spec(columns, keys=KEYS)).automatic
    alone = {"north": TWO_PARTIES["north"][1:], "south": TWO_PARTIES["south"]}
    assert KNOWN.assess(build_spec(alone, keys=KEYS)).automatic


def test_sensitivities_come_from_bounds_alone() -> None:
    part = SPEC.party("south")
    assert isinstance(part, PartyColumns)
    assert SPEC.terms.squared_sensitivity(SPEC, "south") == squared_sensitivity(part.columns) << 20
