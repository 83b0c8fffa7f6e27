"""An invite survives copying and pasting, or is refused as a whole."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("token", ["", "a", "é", "a+b/", "e30", "not a token!", "eyJhZGRyZXNzIjoi…"])
def test_text_that_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput):
        Invite.from_token(token)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cap_mu2", "0"),
        ("cap_mu2", "-1/10"),
        ("cap_mu2", "0.1"),
        ("cap_mu2", "2/20"),
        ("cap_mu2", 0.1),
        ("party", "north ward"),
        ("party", ""),
        ("expires", "tomorrow"),
        ("format", 2),
        ("extra", "x"),
        *((field, None) for field in Invite.model_fields if field != "format"),
    ],
)
def test_an_invite_that_means_nothing_or_lacks_a_field_is_refused(field: str, value: object) -> None:
    fields = invite().model_dump(mode="json") | {field: value}
    if value is None:
        del fields[field]
    data = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(InvalidInput, match=field):
        Invite.from_token(base64.urlsafe_b64encode(data).decode().rstrip("="))
