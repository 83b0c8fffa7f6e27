"""An invite survives copying and pasting, or is refused as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dprelease.errors import InvalidInput
from dprelease.identity.invite import Invite


def invite(**changes: object) -> Invite:
    return Invite.model_validate(
        {
            "consortium": "trial",
            "party": "north",
            "address": "office.example:7443",
            "root": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            "secret": "s3cret",
            "cap_mu2": "1/10",
            "expires": "2026-03-02T12:00:00Z",
            **changes,
        }
    )


@given(st.text(max_size=20))
def test_a_token_is_one_word_that_gives_back_the_invite(secret: str) -> None:
    token = invite(secret=secret).token()
    assert token.replace("-", "").replace("_", "").isalnum()
    assert Invite.from_token(token) == invite(secret=secret)


def test_a_token_broken_over_lines_is_mended() -> None:
    token = invite().token()
    assert Invite.from_token(f"  {token[:50]}\n{token[50:]}\n") == invite()


@pytest.mark.parametrize("lost", [1, 2, 3, 4, 40])
def test_a_token_that_lost_an_end_is_refused(lost: int) -> None:
    token = invite().token()
    for rest in (token[lost:], token[:-lost]):
        with pytest.raises(InvalidInput, match="copy it whole"):
            Invite.from_token(rest)


@pytest.mark.parametrize("token", ["", "a", "é", "a+b/", "e30", "not a token!"])
def test_text_that_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput):
        Invite.from_token(token)


@pytest.mark.parametrize("cap", ["0", "-1/10", "0.1", "2/20"])
def test_a_cap_is_a_positive_rational(cap: str) -> None:
    with pytest.raises(ValidationError):
        invite(cap_mu2=cap)
