"""Requests that name outcomes: what the spec says, the label that follows, and every reason for refusing."""

from fractions import Fraction
from typing import Any

import pytest

from coordinator.proposals.proposals import CheckedProposal, make_proposal
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import best_split
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import check_spec
from tests.coordinator.office import AGE, GLUCOSE, NOW, SEX, Office, catalogue, request

OPEN_AGE, OPEN_SEX, OPEN_GLUCOSE = (column.model_copy(update={"public": True}) for column in (AGE, SEX, GLUCOSE))


def propose(office: Office, **changed: Any) -> CheckedProposal:
    with office.store.reading() as tx:
        return make_proposal(request(**{"mechanism": "moments", **changed}), "Trio", tx.members, NOW)


def refusal(office: Office, **changed: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        propose(office, **changed)
    return refused.value.message


def test_outcomes_get_noise_of_their_own_out_of_one_budget(office: Office) -> None:
    made = propose(office, outcomes=["glucose"])
    moments = joint_moments(made.spec)
    assert moments.association is not None
    assert moments.outcomes == ("glucose",)
    assert Fraction(moments.association.split) == best_split(layout_of(made.spec))
    assert made.spec.guarantee == "DP"
    assert made.guarantee == check_spec(made.spec)
    assert {part.exposure for part in made.guarantee.parties} == {made.guarantee.joint_mu2}
    assert sum(part.mu2 for part in made.guarantee.parties) == made.guarantee.joint_mu2
    assert budget(made.spec.target) * (1 - Fraction(1, 10**6)) < made.guarantee.joint_mu2 <= budget(made.spec.target)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"outcomes": []}, "outcomes: name at least one outcome, or leave it out"),
        ({"outcomes": ["glucos"]}, "outcomes: not in this release: glucos; it has age, sex, glucose"),
        ({"outcomes": ["sex=male"]}, "outcomes"),
        ({"outcomes": ["glucose", "age", "glucose"]}, "outcomes: glucose is named more than once"),
        ({"outcomes": ["age", "sex", "glucose"]}, "outcomes: every column is one; leave at least one as a feature"),
        ({"outcomes": ["age"], "parties": {"south": "*"}}, "not in this release: age; it has glucose"),
        ({"outcomes": ["age"], "mechanism": "mixed"}, "belongs to mechanism 'moments'; mechanism 'mixed' has none"),
        ({"outcomes": ["age"], "mechanism": "rows"}, "belongs to mechanism 'moments'; mechanism 'rows' has none"),
        ({"outcomes": ["age"], "public_side": "mixed"}, "none of these columns is public; leave out --public-side"),
    ],
)
def test_what_does_not_fit_is_refused(office: Office, changed: dict[str, Any], message: str) -> None:
    assert message in refusal(office, **changed)


@pytest.mark.parametrize(
    ("north", "outcomes", "label", "side"),
    [
        ((OPEN_AGE, OPEN_SEX), ["glucose"], "label-DP", "features"),
        ((OPEN_AGE, SEX), ["glucose"], "label-DP", None),
        ((OPEN_AGE, OPEN_SEX), ["age", "sex"], "feature-DP", "outcomes"),
        ((OPEN_AGE, SEX), ["age"], "feature-DP", "outcomes"),
        ((OPEN_AGE, SEX), ["age", "sex"], "feature-DP", None),
        ((OPEN_AGE, OPEN_SEX), ["age", "glucose"], "mixed", "mixed"),
    ],
)
def test_the_label_follows_from_the_outcomes(
    office: Office, north: Any, outcomes: list[str], label: str, side: str | None
) -> None:
    office.report(catalogue("north", columns=north))
    made = propose(office, outcomes=outcomes)
    assert made.spec.guarantee == label
    assert made.guarantee == check_spec(made.spec)
    if side is not None:
        assert propose(office, outcomes=outcomes, public_side=side).spec == made.spec


@pytest.mark.parametrize(
    ("north", "outcomes", "side", "message"),
    [
        ((AGE, SEX), ["glucose"], "outcomes", "says that the outcomes are public, but glucose of south is private"),
        ((OPEN_AGE, SEX), ["age", "sex"], "outcomes", "says that the outcomes are public, but sex of north is private"),
        ((OPEN_AGE, SEX), ["glucose"], "features", "says that the features are public, but sex of north is private"),
        ((OPEN_AGE, OPEN_SEX), ["age"], "outcomes", "the public columns are some of both; leave out --public-side"),
        ((OPEN_AGE, OPEN_SEX), ["glucose"], "mixed", "the public columns are features; leave out --public-side"),
        ((OPEN_AGE, SEX), ["age"], "mixed", "the public columns are outcomes; leave out --public-side"),
    ],
)
def test_a_side_that_is_not_public_is_refused_with_its_owner(
    office: Office, north: Any, outcomes: list[str], side: str, message: str
) -> None:
    office.report(catalogue("north", columns=north))
    said = refusal(office, outcomes=outcomes, public_side=side)
    assert message in said
    if "private" in message:
        assert "let its owner declare it (party-node public declare), or leave out --public-side" in said
