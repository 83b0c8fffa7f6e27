"""The terms of joint moments: which outcomes, bases and norms make sense, and what the guarantee is then called."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pydantic import ValidationError

from dprelease.canonical import canonical_bytes
from dprelease.mechanisms.moments.entries import Kind
from dprelease.release.spec import ReleaseSpec
from tests.dprelease.moments.test_apart import spec_of, stated
from tests.support.specs import build_spec, numeric


def test_terms_without_outcomes_are_written_as_they_always_were() -> None:
    plain = build_spec({"a": (numeric("x"),)}, mechanism="moments")
    assert plain.terms.association is None
    assert b"association" not in plain.to_bytes()
    assert plain.terms.kinds == (Kind.PRODUCT, Kind.SQUARE)
    apart = spec_of("full")
    assert b"public_norm2" not in apart.to_bytes()
    for spec in (plain, apart, stated(Fraction(1))):
        assert ReleaseSpec.from_bytes(spec.to_bytes()) == spec
        assert canonical_bytes(spec.model_dump(mode="json")) == spec.to_bytes()


@pytest.mark.parametrize("outcomes", [("y1", "y1"), ("unknown",), ("y1", "x1", "s", "g", "h", "y2", "y3", "t")])
def test_outcomes_are_distinct_columns_and_leave_a_feature(outcomes: tuple[str, ...]) -> None:
    spec = spec_of("full")
    data = spec.model_dump()
    data["terms"]["association"]["outcomes"] = outcomes
    with pytest.raises(ValidationError, match="distinct columns of the release"):
        ReleaseSpec.model_validate(data)


@pytest.mark.parametrize(("name", "label"), [("features", "label-DP"), ("labels", "feature-DP"), ("labels", "mixed")])
def test_the_label_follows_from_the_outcomes(name: str, label: str) -> None:
    with pytest.raises(ValidationError, match="the guarantee is called"):
        ReleaseSpec.model_validate({**spec_of(name).model_dump(), "guarantee": label})


def test_a_norm_is_stated_where_one_party_has_all_public_outcomes() -> None:
    data = stated(Fraction(1)).model_dump()
    data["terms"]["association"]["public_norm2"] = "0"
    with pytest.raises(ValidationError, match="where one party has all of them"):
        ReleaseSpec.model_validate(data)
    with pytest.raises(ValidationError, match="where one party has all of them"):
        build_spec(
            {"a": (numeric("y1", public=True),), "b": (numeric("x1"), numeric("y2", public=True))},
            mechanism="moments",
            guarantee="feature-DP",
            outcomes=("y1", "y2"),
            public_norm2=Fraction(1),
        )
