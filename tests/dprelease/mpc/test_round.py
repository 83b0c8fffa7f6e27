"""What a party makes of the messages of a round: what is missing, what does not belong, and what all must agree on."""

from __future__ import annotations

from itertools import permutations

import pytest

from dprelease.canonical import sha256
from dprelease.errors import IntegrityError
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mpc.messages import Message, MessageHeader, session_digest
from dprelease.mpc.round import Round, latest_round, transcript_digest
from dprelease.mpc.schedule import COORDINATOR
from tests.support.specs import build_spec, numeric

PARTIES = ("a", "b", "c")
SPEC = build_spec({name: (numeric(f"{name}0"),) for name in PARTIES}, mechanism="moments")
SCHEDULE = schedule_of(SPEC)
COMMITMENTS = [sha256(name.encode()) for name in PARTIES]


def message(kind: str, sender: str, number: int = 1, **fields: object) -> Message:
    """A message that nobody signed: a round is read from checked ones."""
    payload = sha256(f"{sender}{number}".encode())
    usual = {"task": SPEC.digest(), "round": number, "kind": kind, "sender": sender, "payload": payload}
    return Message(header=MessageHeader.model_validate({**usual, **fields}), signature="")


def hellos(number: int = 1, *names: str) -> list[Message]:
    return [message("hello", name, number) for name in names or PARTIES]


SESSION = session_digest(each.header for each in hellos())


def columns(sender: str, dealer: str, **fields: object) -> Message:
    receivers = SCHEDULE.partners(sender, dealer)
    usual = {
        "session": SESSION,
        "receivers": receivers,
        "dealer": dealer,
        "sha256": sha256(f"{sender}{dealer}".encode()),
    }
    return message("columns", sender, **{**usual, **fields})  # type: ignore[arg-type]


ALL_COLUMNS = [columns(sender, dealer) for sender in PARTIES for dealer in SCHEDULE.dealers_of(sender)]


def transcript(sender: str, payload: str) -> Message:
    return message("transcript", sender, session=SESSION, payload=payload)


def test_the_latest_round_is_the_highest_that_anybody_has_offered_for() -> None:
    assert latest_round([]) == 0
    assert latest_round(hellos()) == 1
    assert latest_round([*hellos(2, "b"), *hellos()]) == 2
    late = message("transcript", "a", 9, session=SESSION)
    assert latest_round([*hellos(), late]) == 1  # a key is what begins a round


def test_a_session_is_there_once_everybody_has_offered_a_key() -> None:
    for there in ([], ["a"], ["c", "a"]):
        at = Round.of(SCHEDULE, 1, [message("hello", name) for name in there])
        assert at.session == ""
        assert at.missing("hello") == tuple(name for name in PARTIES if name not in there)
    for order in permutations(hellos()):
        at = Round.of(SCHEDULE, 1, order)
        assert (at.session, at.missing("hello")) == (SESSION, ())
        assert [header.sender for header in at.hellos] == list(PARTIES)
    assert at.session_key("b") == bytes.fromhex(sha256(b"b1"))


def test_only_the_messages_of_the_round_are_looked_at() -> None:
    at = Round.of(SCHEDULE, 2, [*hellos(), *ALL_COLUMNS, *hellos(2, "a")])
    assert [(header.sender, header.round) for header in at.headers] == [("a", 2)]
    assert at.columns() == ()


def test_a_message_of_another_session_is_refused_and_its_sender_named() -> None:
    stale = columns("b", SCHEDULE.dealers_of("b")[0], session="00" * 32)
    with pytest.raises(IntegrityError, match="b sent a columns of another session"):
        Round.of(SCHEDULE, 1, [*hellos(), stale])
    with pytest.raises(IntegrityError, match="b sent a transcript of another session"):
        Round.of(SCHEDULE, 1, [*hellos(), message("transcript", "b", session="00" * 32)])


def test_a_message_that_comes_before_its_session_is_refused() -> None:
    with pytest.raises(IntegrityError, match="c sent a columns of another session"):
        Round.of(SCHEDULE, 1, [*hellos(1, "a", "b"), columns("c", SCHEDULE.dealers_of("c")[0])])


TWICE = {
    "hello": (message("hello", "b"), message("hello", "b", payload="00" * 32)),
    "columns": (columns("b", "c"), columns("b", "c", sha256="00" * 32)),
    "transcript": (transcript("b", "11" * 32), transcript("b", "22" * 32)),
    "deal": tuple(message("deal", "b", session=SESSION, receivers=("a",), sha256=each * 32) for each in ("11", "22")),
    "key": tuple(
        message("key", "b", session=SESSION, receivers=("a",), dealer="c", sha256=each * 32) for each in ("11", "22")
    ),
}


@pytest.mark.parametrize("kind", TWICE)
def test_two_messages_in_one_place_name_their_sender(kind: str) -> None:
    others = [each for each in hellos() if kind != "hello" or each.header.sender != "b"]
    with pytest.raises(IntegrityError, match=f"b sent two different messages of kind {kind} in one round"):
        Round.of(SCHEDULE, 1, [*others, *TWICE[kind]])


def test_one_message_listed_twice_is_one_message() -> None:
    """The relay's doing, and no reason to name the sender."""
    at = Round.of(SCHEDULE, 1, [*hellos(), *ALL_COLUMNS, *hellos(), *ALL_COLUMNS])
    assert len(at.headers) == len(PARTIES) + len(ALL_COLUMNS)


def test_messages_are_found_by_kind_sender_receiver_and_dealer() -> None:
    to_a, to_c = (message("deal", "b", session=SESSION, receivers=(name,)) for name in ("a", "c"))
    at = Round.of(SCHEDULE, 1, [*hellos(), to_a, to_c, *ALL_COLUMNS])
    assert at.find("deal", "b", "c") == to_c.header
    assert at.find("deal", "b", "b") is None
    assert at.find("deal", "a") is None
    assert at.find("columns", "a", "b", "c") == columns("a", "c").header
    assert at.find("columns", "a", "c", "c") is None  # the dealer is no receiver of what its own mask is on
    assert at.find("columns", "a", dealer="") is None


def test_who_lacks_masked_columns_is_told_in_the_specs_order() -> None:
    assert Round.of(SCHEDULE, 1, hellos()).missing_columns() == PARTIES
    for left_out in ALL_COLUMNS:
        there = [each for each in ALL_COLUMNS if each is not left_out]
        assert Round.of(SCHEDULE, 1, [*hellos(), *there]).missing_columns() == (left_out.header.sender,)
    assert Round.of(SCHEDULE, 1, [*hellos(), *ALL_COLUMNS]).missing_columns() == ()


def test_the_coordinators_columns_name_no_dealer() -> None:
    spec = build_spec({name: (numeric(f"{name}0"),) for name in "ab"}, mechanism="moments")
    schedule = schedule_of(spec)
    there = [message("hello", "a"), message("hello", "b")]
    session = session_digest(each.header for each in there)
    one = message("columns", "a", session=session, receivers=("b",), dealer=COORDINATOR)
    assert Round.of(schedule, 1, [*there, one]).missing_columns() == ("b",)


def test_a_transcript_covers_hellos_commitments_and_all_columns_in_any_order() -> None:
    digests = {
        Round.of(SCHEDULE, 1, [*hellos(), *order]).transcript(COMMITMENTS) for order in permutations(ALL_COLUMNS, 6)
    }
    assert digests == {transcript_digest(SPEC.digest(), SESSION, COMMITMENTS, [each.header for each in ALL_COLUMNS])}
    expected = digests.pop()
    changed = [columns("b", "c", sha256="00" * 32), *(each for each in ALL_COLUMNS if each != columns("b", "c"))]
    assert Round.of(SCHEDULE, 1, [*hellos(), *changed]).transcript(COMMITMENTS) != expected
    rekeyed = [columns("b", "c", payload="00" * 32), *(each for each in ALL_COLUMNS if each != columns("b", "c"))]
    assert Round.of(SCHEDULE, 1, [*hellos(), *rekeyed]).transcript(COMMITMENTS) != expected
    assert Round.of(SCHEDULE, 1, [*hellos(), *ALL_COLUMNS]).transcript(COMMITMENTS[::-1]) != expected


def test_a_party_that_signed_another_transcript_is_named() -> None:
    agreed = "11" * 32
    at = Round.of(SCHEDULE, 1, [*hellos(), transcript("a", agreed), transcript("b", agreed)])
    at.check_transcripts(agreed)
    assert at.missing("transcript") == ("c",)
    at = Round.of(SCHEDULE, 1, [*hellos(), transcript("a", agreed), transcript("c", "22" * 32)])
    with pytest.raises(IntegrityError, match="c has seen another session than we have; nothing is computed"):
        at.check_transcripts(agreed)
