"""Consent to an alignment run: nobody's can be forged, moved to another run, or left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dprelease.acceptance import SignedAcceptance, accept, check_all_accepted
from dprelease.errors import IntegrityError
from dprelease.intersection.task import Member, Task
from tests.support.certificates import NOW, mint
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


def check(acceptances: list[SignedAcceptance], pins: dict[str, str] | None = None) -> None:
    check_all_accepted(acceptances, task(), TRIO.root.certificate, pins)


def test_all_of_them_under_the_pins_are_enough() -> None:
    said = [signed(task(), name) for name in NAMES]
    check(said, dict(TRIO.keys))
    check(said[::-1])
    assert SignedAcceptance.from_bytes(said[0].to_bytes()) == said[0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda said: said[:2], "no acceptance by west"),
        (lambda said: [*said, said[0]], "north accepted twice"),
        (lambda said: [signed(task(nonce="77" * 32), "north"), *said[1:]], "for another alignment run"),
        (lambda said: [signed(task(), "north", by="south"), *said[1:]], "not made with the key that the run names"),
        (lambda said: [said[0].model_copy(update={"signature": said[1].signature}), *said[1:]], "is not valid"),
        (lambda said: [_of_a_stranger(), *said[1:]], "not made with the key"),
    ],
)
def test_what_is_not_the_consent_of_all_is_refused(changed: Any, words: str) -> None:
    with pytest.raises(IntegrityError, match=words):
        check(changed([signed(task(), name) for name in NAMES]))


def _of_a_stranger() -> SignedAcceptance:
    now = datetime.now(UTC)
    stranger = mint("north", "party", TRIO.root)
    return accept(task(), "north", stranger.key, stranger.certificate, now)


@pytest.mark.parametrize("pins", [{"north": TRIO.keys["north"]}, TRIO.keys | {"west": "ab" * 32}])
def test_a_key_that_people_did_not_compare_is_refused(pins: dict[str, str]) -> None:
    with pytest.raises(IntegrityError, match="is not the one pinned here"):
        check([signed(task(), name) for name in NAMES], pins)


def test_a_certificate_that_was_not_valid_then_is_refused() -> None:
    member = TRIO.parties["north"]
    late = accept(task(), "north", member.key, member.certificate, NOW + timedelta(days=40 * 365))
    with pytest.raises(IntegrityError, match="was not valid at"):
        check([late, *(signed(task(), name) for name in NAMES[1:])])
