"""A statement of charges: exact, signed by the root, for one hospital."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.release.accounting import guarantee
from dprelease.release.charges import SignedStatement, charge, check_statement, state
from tests.support.certificates import Authority
from tests.support.specs import TWO_PARTIES, build_spec

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def test_a_charge_is_what_the_ledger_is_charged() -> None:
    spec = build_spec(TWO_PARTIES)
    for party in TWO_PARTIES:
        made = charge(spec, party, published=True)
        assert Fraction(made.mu2) == guarantee(spec).party(party).mu2
        assert (made.release, made.roster) == (spec.digest(), spec.roster)


def test_a_statement_is_believed_as_it_was_signed() -> None:
    authority, party = Authority("trial"), next(iter(TWO_PARTIES))
    made = charge(build_spec(TWO_PARTIES), party, published=False)
    signed = SignedStatement.from_bytes(authority.statement(party, made))
    assert check_statement(signed, authority.root, "trial", party).charges == (made,)
    less = signed.statement.model_copy(update={"charges": ()})
    with pytest.raises(IntegrityError, match="not valid"):
        check_statement(signed.model_copy(update={"statement": less}), authority.root, "trial", party)
    with pytest.raises(IntegrityError, match="not valid"):
        check_statement(signed, Authority("trial").root, "trial", party)
    for consortium, name in (("other", party), ("trial", "somebody")):
        with pytest.raises(IntegrityError, match="a statement of charges is for"):
            check_statement(signed, authority.root, consortium, name)


@pytest.mark.parametrize("changed", [{"mu2": "-"}, {"release": "ab"}, {"roster": ""}])
def test_what_is_no_charge_is_refused(changed: dict[str, str]) -> None:
    authority = Authority("trial")
    good = charge(build_spec(TWO_PARTIES), next(iter(TWO_PARTIES)), published=False)
    bad = good.model_construct(**(good.model_dump() | changed))
    with pytest.raises(InvalidInput):
        SignedStatement.from_bytes(state("trial", "north", [bad], authority.member("x", "party").key, NOW).to_bytes())
