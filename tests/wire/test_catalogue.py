"""The catalogue: what a party tells about its table, and nothing more.

The invite token: one word that survives copying, or a clear refusal.
"""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalogue import Catalogue
from dprelease.errors import InvalidInput
from dprelease.identity.invite import Invite
from tests.support.specs import categorical, numeric

CATALOGUE = Catalogue(
    party="north",
    roster="cohort",
    rows=40,
    rows_per_subject=1,
    alignment="ab" * 32,
    columns=(numeric("age", 0.0, 120.0), categorical("sex", "female", "male")),
)


def altered(**fields: object) -> bytes:
    copy = CATALOGUE.model_copy(update=fields)
    return copy.to_bytes()


def test_it_reads_back_and_finds_its_columns() -> None:
    assert Catalogue.from_bytes(CATALOGUE.to_bytes()) == CATALOGUE
    assert CATALOGUE.column("sex") == CATALOGUE.columns[1]
    assert CATALOGUE.column("weight") is None


def test_it_has_no_field_for_a_cell_or_an_identifier() -> None:
    fields = {"format", "party", "roster", "rows", "rows_per_subject", "alignment", "columns", "batches", "identifiers"}
    fields |= {"subjects", "aligned", "comparable"}
    assert set(Catalogue.model_fields) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"rows": 0},
        {"rows_per_subject": 0},
        {"columns": ()},
        {"columns": (numeric("age"), numeric("age"))},
        {"alignment": "AB" * 32},
        {"alignment": "ab"},
        {"party": "north ward"},
        {"format": 2},
    ],
)
def test_one_that_means_nothing_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="not a valid Catalogue"):
        Catalogue.from_bytes(altered(**fields))


def test_other_bytes_of_the_same_catalogue_are_refused() -> None:
    with pytest.raises(InvalidInput, match="canonical"):
        Catalogue.from_bytes(CATALOGUE.to_bytes().replace(b'"rows":40', b'"rows": 40'))


INVITE = Invite(
    consortium="trial",
    party="north",
    address="office.example.org:7444",
    root="-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n",
    secret="s3cret",
    cap_mu2="1/10",
    expires="2026-12-01T12:00:00Z",
)


def token_of(fields: dict[str, object]) -> str:
    data = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_token_is_one_word_and_reads_back() -> None:
    token = INVITE.token()
    assert token.isascii()
    assert not set(token) & set(" \n\t=+/'\"")
    assert Invite.from_token(token) == INVITE


@given(secret=st.text(max_size=40), cut=st.lists(st.integers(1, 400), max_size=6))
def test_line_breaks_and_blanks_from_a_mail_do_no_harm(secret: str, cut: list[int]) -> None:
    invite = INVITE.model_copy(update={"secret": secret})
    token = invite.token()
    for position in cut:
        token = token[:position] + " \r\n\t" + token[position:]
    assert Invite.from_token(f"  {token}\n") == invite


@given(st.text(max_size=200))
def test_any_other_text_is_refused_as_invalid_input(text: str) -> None:
    with pytest.raises(InvalidInput):
        Invite.from_token(text)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 50])
def test_a_token_that_lost_its_end_is_refused(cut: int) -> None:
    with pytest.raises(InvalidInput):
        Invite.from_token(INVITE.token()[:-cut])


def test_the_ellipsis_of_a_manual_is_refused_in_words() -> None:
    with pytest.raises(InvalidInput, match="copy it whole"):
        Invite.from_token("eyJhZGRyZXNzIjoi…")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cap_mu2", "0"),
        ("cap_mu2", "-1/10"),
        ("cap_mu2", "2/20"),
        ("cap_mu2", "much"),
        ("cap_mu2", 0.1),
        ("party", "north ward"),
        ("party", ""),
        ("expires", "tomorrow"),
        ("format", 2),
        ("extra", "x"),
    ],
)
def test_an_invite_that_means_nothing_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        Invite.from_token(token_of(INVITE.model_dump(mode="json") | {field: value}))


@pytest.mark.parametrize("field", sorted(set(Invite.model_fields) - {"format"}))
def test_every_field_is_needed(field: str) -> None:
    fields = INVITE.model_dump(mode="json")
    del fields[field]
    with pytest.raises(InvalidInput, match=field):
        Invite.from_token(token_of(fields))
