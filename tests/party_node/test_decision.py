"""May we take part? The coordinator may say what it likes; every number is recomputed, every limit kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from dprelease.errors import SpecRefused
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant
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
    "a number that `check_spec` recomputes": (
        lambda spec: {"terms": with_terms(spec, noise=build_spec(keys=KEYS, epsilon=2.0).terms.noise).terms},
        "does not reach the joint target",
    ),
}


@pytest.mark.parametrize(("lie", "words"), LIES.values(), ids=LIES)
def test_a_lie_is_refused_and_named(lie: Callable[[ReleaseSpec], dict[str, object]], words: str) -> None:
    with pytest.raises(SpecRefused) as caught:
        KNOWN.assess(SPEC.model_copy(update=lie(SPEC)))
    assert words in caught.value.message


@pytest.mark.parametrize("before", [timedelta(seconds=1), timedelta(days=7)])
def test_until_it_expires_it_can_be_approved(before: timedelta) -> None:
    assert KNOWN.assess(SPEC, NOW + timedelta(days=7) - before).automatic


def test_a_part_of_our_columns_in_another_order_is_ours_too() -> None:
    columns = {"north": TWO_PARTIES["north"][::-1], "south": TWO_PARTIES["south"]}
    assert KNOWN.assess(build_spec(columns, keys=KEYS)).automatic
    alone = {"north": TWO_PARTIES["north"][1:], "south": TWO_PARTIES["south"]}
    assert KNOWN.assess(build_spec(alone, keys=KEYS)).automatic
