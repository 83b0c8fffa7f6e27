"""Requests for joint moments: what the spec says, who deals, what is charged, and every reason for refusing."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from coordinator.proposals.proposals import LARGEST_DEAL_BYTES, CheckedProposal, create, make_proposal
from coordinator.store.store import Store
from dprelease.data.columns import CategoricalColumn, NumericColumn
from dprelease.errors import Conflict, InvalidInput
from dprelease.mechanisms.moments.calibration import share_scales
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import JointMoments, joint_moments, layout_of
from dprelease.mpc.schedule import COORDINATOR, SEAL_BYTES
from dprelease.privacy.calibration import budget
from dprelease.privacy.price import mu2_text
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.coordinator.office import NOW, RUN_TIME, Office, catalogue, request

SMOKER = CategoricalColumn(name="smoker", levels=("yes",))
BMI = NumericColumn(name="bmi", lower=10.0, upper=60.0, unit="kg/m2", fill=25.0)
ALL_THREE = {"north": "*", "south": "*", "west": "*"}


@pytest.fixture
def office(store: Store) -> Office:
    """Three hospitals with six declared columns: three numbers, a binary and a group of three levels."""
    office = Office(store)
    office.enrol("north", "south", "west")
    office.report(catalogue("north"), catalogue("south"), catalogue("west", columns=(SMOKER, BMI)))
    return office


def propose(office: Office, **changed: Any) -> CheckedProposal:
    with office.store.reading() as tx:
        return make_proposal(request(**{"mechanism": "moments", **changed}), "Trio", tx.members, NOW)


def moments_of(proposal: CheckedProposal) -> JointMoments:
    return joint_moments(proposal.spec)


def wide(width: int, prefix: str) -> tuple[NumericColumn, ...]:
    return tuple(
        NumericColumn(name=f"{prefix}{number}", lower=0.0, upper=1.0, unit="", fill=0.5) for number in range(width)
    )


def test_a_spec_of_moments_has_the_least_shares_and_nothing_of_a_block(office: Office) -> None:
    made = propose(office, parties=ALL_THREE)
    spec, moments = made.spec, moments_of(made)
    assert spec.mechanism == "moments"
    assert not {"mixing", "anchor_weight", "noise"} & spec.terms.model_dump().keys()
    assert (spec.target.scope, spec.grid_bits) == ("joint", 16)
    mu2 = budget(spec.target)
    assert Fraction(moments.mu2) == mu2
    bound = sensitivity(layout_of(spec).variables)
    assert moments.scales == share_scales(bound, mu2, 3, 1, 16, 1)
    assert made.guarantee == check_spec(spec)
    assert made.guarantee.joint_epsilon == pytest.approx(1.0, rel=1e-6)
    assert made.guarantee.joint_epsilon <= 1.0


@pytest.mark.parametrize(
    ("parties", "asked", "expected"),
    [
        (("south",), {}, (0, "none")),
        (("south",), {"collusion_threshold": 0, "dealer": "none"}, (0, "none")),
        (("north", "south"), {}, (1, "coordinator")),
        (("north", "south"), {"collusion_threshold": 1, "dealer": "coordinator"}, (1, "coordinator")),
        (("north", "south", "west"), {}, (1, "rotating")),
        (("north", "south", "west"), {"collusion_threshold": 1}, (1, "rotating")),
        (("north", "south", "west"), {"dealer": "rotating"}, (1, "rotating")),
        (("north", "south", "west"), {"dealer": "coordinator"}, (1, "coordinator")),
        (("north", "south", "west"), {"collusion_threshold": 2}, (2, "coordinator")),
    ],
)
def test_who_deals_and_how_many_may_be_curious(
    office: Office, parties: tuple[str, ...], asked: dict[str, Any], expected: tuple[int, str]
) -> None:
    moments = moments_of(propose(office, parties=dict.fromkeys(parties, "*"), **asked))
    assert (moments.curious, moments.dealer) == expected


def test_many_hospitals_deal_in_groups(store: Store) -> None:
    office, names = Office(store), [f"h{place:02}" for place in range(13)]
    office.enrol(*names, share=Fraction(1, 13))
    office.report(*(catalogue(name, columns=wide(1, f"{name}x")) for name in names))

    def groups(count: int, **asked: Any) -> int:
        return moments_of(propose(office, parties=dict.fromkeys(names[:count], "*"), **asked)).groups

    assert (groups(12), groups(13), groups(13, dealer="coordinator")) == (0, 3, 0)


@pytest.mark.parametrize(
    ("parties", "asked", "message"),
    [
        (("south",), {"collusion_threshold": 1}, "one party alone computes its moments itself"),
        (("south",), {"dealer": "coordinator"}, "one party alone computes its moments itself"),
        (("south",), {"dealer": "rotating"}, "one party alone computes its moments itself"),
        (
            ("north", "south"),
            {"collusion_threshold": 0},
            "collusion_threshold must lie between 1 and 1 with 2 parties, not 0",
        ),
        (
            ("north", "south"),
            {"collusion_threshold": 2},
            "collusion_threshold must lie between 1 and 1 with 2 parties, not 2",
        ),
        (("north", "south"), {"collusion_threshold": -1}, "collusion_threshold"),
        (("north", "south"), {"dealer": "rotating"}, "a rotating dealer needs three parties or more"),
        (("north", "south"), {"dealer": "none"}, "several parties need a dealer"),
        (("north", "south"), {"dealer": "the hub"}, "dealer"),
        (
            tuple(ALL_THREE),
            {"collusion_threshold": 3},
            "collusion_threshold must lie between 1 and 2 with 3 parties, not 3",
        ),
        (
            tuple(ALL_THREE),
            {"collusion_threshold": 2, "dealer": "rotating"},
            "a rotating dealer needs three parties or more",
        ),
        (tuple(ALL_THREE), {"scope": "per-party"}, "scope must be 'joint'"),
    ],
)
def test_what_does_not_fit_is_refused(
    office: Office, parties: tuple[str, ...], asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        propose(office, parties=dict.fromkeys(parties, "*"), **asked)
    assert message in refused.value.message


def test_the_parties_are_charged_parts_that_add_up(office: Office) -> None:
    charged = propose(office).guarantee
    assert {part.mu2 for part in charged.parties} == {charged.joint_mu2 / 2}
    assert {part.exposure for part in charged.parties} == {charged.joint_mu2}
    assert {part.epsilon for part in charged.parties} == {charged.joint_epsilon}
    assert propose(office, epsilon=1.9).spec.mechanism == "moments"  # half of it is within both caps of a third
    with pytest.raises(InvalidInput) as refused:
        propose(office, epsilon=2.9)
    half = mu2_text(budget(request(epsilon=2.9).target()) / 2)
    assert f"north: mu^2 = {half}, epsilon = " in refused.value.message
    assert f"south: mu^2 = {half}, epsilon = " in refused.value.message
    assert "name other parts of the charge" in refused.value.message


def test_the_request_may_name_other_parts(office: Office) -> None:
    made = propose(office, charge={"north": "1/4", "south": 0.75})
    assert moments_of(made).parts == ("1/4", "3/4")
    total = made.guarantee.joint_mu2
    assert [part.mu2 for part in made.guarantee.parties] == [total / 4, total * 3 / 4]
    assert {part.exposure for part in made.guarantee.parties} == {total}
    assert "Its price is charged in parts: north 1/4, south 3/4." in made.guarantee.words()[0]
    equal = propose(office, charge={"north": "1/2", "south": "1/2"})
    assert moments_of(equal).parts == ()


@pytest.mark.parametrize(
    ("charge", "words"),
    [
        ({"north": "1/2"}, "charge names the hospitals with a private column, each once: north, south"),
        ({"north": "1/2", "south": "1/3"}, "parts of the charge add up to 1, not to 5/6"),
        ({"north": "0", "south": "1"}, "charge.north"),
        ({"north": "1/2", "south": "1/2", "west": "0"}, "each once: north, south"),
    ],
)
def test_parts_that_do_not_add_up_are_refused(office: Office, charge: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        propose(office, charge=charge)
    assert words in refused.value.message


def wide_spec(office: Office, north: int, south: int, **changed: Any) -> ReleaseSpec:
    office.report(catalogue("north", columns=wide(north, "a")), catalogue("south", columns=wide(south, "b")))
    return propose(office, parties={"north": "*", "south": "*"}, epsilon=0.5, **changed).spec


def test_a_deal_of_the_coordinator_must_fit_in_a_message(office: Office) -> None:
    fits = wide_spec(office, 512, 767)  # the correction's 8 * 512 * 767 bytes, a seed and the seal
    assert schedule_of(fits).deal_size("south", COORDINATOR) + SEAL_BYTES <= LARGEST_DEAL_BYTES
    with pytest.raises(InvalidInput, match=r"deal 3\.0 MiB to south, and at most 3 MiB"):
        wide_spec(office, 512, 768)


def test_hospitals_that_deal_for_one_another_have_no_such_limit(office: Office) -> None:
    office.report(
        catalogue("north", columns=wide(512, "a")),
        catalogue("south", columns=wide(768, "b")),
        catalogue("west", columns=(BMI,)),
    )
    assert moments_of(propose(office, parties=ALL_THREE, epsilon=0.5)).dealer == "rotating"
    with pytest.raises(InvalidInput, match="release fewer columns"):
        propose(office, parties=ALL_THREE, epsilon=0.5, collusion_threshold=2)


def test_moments_of_the_same_columns_again_are_paid_again(office: Office) -> None:
    mixed = create(office.store, request(), RUN_TIME, NOW)
    first = create(office.store, request(mechanism="moments"), RUN_TIME, NOW)
    assert mixed.similar is first.similar is None
    second = create(office.store, request(mechanism="moments", grid_bits=15), RUN_TIME, NOW)
    assert second.similar == first.release
    assert second.release.digest != first.release.digest


def test_the_same_request_twice_in_one_second_is_one_release(office: Office) -> None:
    """No mixing seed tells them apart; the digest is the release's identity."""
    first = create(office.store, request(mechanism="moments"), RUN_TIME, NOW)
    with pytest.raises(Conflict, match=f"release {first.release.digest[:12]} is exactly this one"):
        create(office.store, request(mechanism="moments"), RUN_TIME, NOW)
    with office.store.reading() as tx:
        assert [release.digest for release in tx.releases.all()] == [first.release.digest]
    create(office.store, request(mechanism="moments"), RUN_TIME, NOW + timedelta(seconds=1))


def test_only_what_several_parties_compute_is_joint(office: Office) -> None:
    assert create(office.store, request(mechanism="moments"), RUN_TIME, NOW).release.record.joint
    alone = create(office.store, request(mechanism="moments", parties={"south": "*"}), RUN_TIME, NOW)
    assert not alone.release.record.joint
    assert not create(office.store, request(), RUN_TIME, NOW).release.record.joint
