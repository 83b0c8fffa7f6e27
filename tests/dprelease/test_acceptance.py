"""Consent to an alignment run is checked as an approval is (`test_agreement`), and is for just that run."""

from typing import Any

import pytest

from dprelease.acceptance import SignedAcceptance, accept
from dprelease.agreement import check_all
from dprelease.errors import IntegrityError
from dprelease.identity.signing import APPROVAL, sign
from dprelease.intersection.task import Member, Task
from tests.support.certificates import NOW
from tests.support.specs import Consortium, new_consortium

NAMES = ("north", "south", "west")
TRIO: Consortium = new_consortium(*NAMES)


def task(**changes: Any) -> Task:
    members = tuple(Member(party=name, key=TRIO.keys[name], patients=10) for name in NAMES)
    fields: dict[str, Any] = {
        "consortium": "trial",
        "roster": "cohort",
        "members": members,
        "nonce": "5e" * 32,
        "created": "2026-03-01T00:00:00Z",
        "expires": "2026-04-01T00:00:00Z",
    }
    return Task.model_validate(fields | changes)


def signed(run: Task, name: str, by: str = "") -> SignedAcceptance:
    member = TRIO.parties[by or name]
    return accept(run, name, member.key, member.certificate, NOW)


def signed_for_a_release() -> SignedAcceptance:
    said = signed(task(), "north")
    signature = sign(TRIO.parties["north"].key, APPROVAL, said.acceptance.to_bytes())
    return said.model_copy(update={"signature": signature})


def test_all_of_them_under_the_pins_are_enough() -> None:
    said = [signed(task(), name) for name in NAMES]
    check_all(said, task(), TRIO.root.certificate, TRIO.keys)
    assert SignedAcceptance.from_bytes(said[0].to_bytes()) == said[0]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (signed(task(nonce="77" * 32), "north"), "for another alignment run"),
        (signed(task(), "north", by="south"), "not made with the key that the alignment run names"),
        (signed_for_a_release(), "is not valid"),
    ],
)
def test_what_is_no_consent_to_this_run_is_refused(first: SignedAcceptance, words: str) -> None:
    with pytest.raises(IntegrityError, match=words):
        check_all([first, *(signed(task(), name) for name in NAMES[1:])], task(), TRIO.root.certificate)
