"""Paying twice for the same private columns is noticed, whatever else a release shows."""

import pytest

from dprelease.data.columns import Column
from dprelease.release.spec import ReleaseSpec
from party_node.decision.decision import repetitions
from party_node.state.journal import Record, Status
from tests.party_node.known import KEYS
from tests.support.specs import TWO_PARTIES, build_spec
from tests.support.streams import first_spec


def spec(title: str, *exact: str, **changed: tuple[Column, ...]) -> ReleaseSpec:
    """A release over both hospitals in which some of the north's columns are public."""
    north = tuple(
        column.model_copy(update={"public": column.name in exact})
        for column in changed.get("north", TWO_PARTIES["north"])
    )
    return build_spec({**TWO_PARTIES, "north": north}, keys=KEYS, title=title)


def found(before: ReleaseSpec, now: ReleaseSpec) -> bool:
    """Whether the second would have the north pay for what it was charged for in the first."""
    record = Record(before.digest(), before, Status.DELIVERED, "", "", "", None, None, None)
    return bool(repetitions(now, "north", [record], {before.digest(): "send"}))


def test_the_same_private_columns_are_the_same_content() -> None:
    assert found(spec("one"), spec("two"))
    assert not found(spec("one"), spec("two", north=TWO_PARTIES["north"][:1]))


def test_a_column_that_became_public_hides_no_second_payment_for_the_others() -> None:
    assert found(spec("one"), spec("two", "sex"))
    assert found(spec("one", "sex"), spec("two", "sex"))
    assert found(spec("one", north=TWO_PARTIES["north"][:1]), spec("two", "sex"))


def test_other_outcomes_are_other_content() -> None:
    def moments(title: str, *outcomes: str) -> ReleaseSpec:
        return build_spec(keys=KEYS, mechanism="moments", title=title, outcomes=outcomes)

    assert found(moments("one", "glucose"), moments("two", "glucose"))
    assert not found(moments("one", "glucose"), moments("two", "age"))
    # Whether a peer's column is an outcome only changes nothing of ours: our features' covariance would be paid for again.
    assert found(moments("one", "glucose"), moments("two"))
    assert found(moments("one"), moments("two", "glucose"))


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_a_stream_and_a_release_of_the_whole_table_are_the_same_content(of: str) -> None:
    other = {"mixed": "moments", "moments": "mixed"}[of]
    whole = {each: build_spec(keys=KEYS, mechanism=each, title="whole", rows=80) for each in (of, other)}
    whole = {each: made.model_copy(update={"alignment": "7a" * 32}) for each, made in whole.items()}
    began = first_spec(build_spec(keys=KEYS), of=of, checkpoints=3)
    assert found(began, whole[of])
    assert found(whole[of], began)
    assert not found(began, whole[other])
    assert not found(began, whole[of].model_copy(update={"roster": "another"}))
    later = began.model_copy(update={"terms": began.terms.following(began, 2, 40)})
    assert not found(later, whole[of])


def test_what_is_public_is_not_paid_for() -> None:
    everything = ("age", "sex")
    assert not found(spec("one"), spec("two", *everything))
    assert not found(spec("one", *everything), spec("two", *everything))
