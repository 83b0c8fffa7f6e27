"""A log that nobody can flood: each kind of refusal once a period, the others as a count."""

import logging

import pytest

from dprelease.errors import Conflict, InvalidInput, NotFound, OutOfTurn, PeerUnavailable, TooManyRequests
from dprelease.wire.boundary import row_for
from dprelease.wire.dispatch import LONGEST_QUOTE, MOST_KINDS, PERIOD_SECONDS, Refusals

METHOD = "/dprelease.wire.v1.PublicService/DownloadBlock"


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def refusals(time: Time, caplog: pytest.LogCaptureFixture) -> Refusals:
    caplog.set_level(logging.INFO)
    return Refusals(time)


def test_a_kind_is_told_once_and_then_counted(refusals: Refusals, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2_000):
        refusals.note(METHOD, "192.0.2.7", TooManyRequests("too many streams"))
    assert caplog.messages == [f"{METHOD} refused to 192.0.2.7: TooManyRequests: too many streams"]
    refusals.note(METHOD, "192.0.2.8", TooManyRequests("too many streams"))
    refusals.note(METHOD, "192.0.2.8", InvalidInput("an offset past the end"))
    assert len(caplog.messages) == 3
    caplog.clear()
    time.now += PERIOD_SECONDS
    refusals.tell()
    assert caplog.messages == [f"in 60 s again, and not told one by one: 1999 x {METHOD} TooManyRequests"]
    caplog.clear()
    refusals.tell()  # nothing is told twice
    assert caplog.messages == []
    refusals.note(METHOD, "192.0.2.7", TooManyRequests("too many streams"))
    assert len(caplog.messages) == 1


def test_callers_from_everywhere_do_not_make_more_lines(
    refusals: Refusals, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10_000):
        refusals.note(METHOD, f"2001:db8:{number:x}::/64", InvalidInput("x" * 5_000))
    assert len(caplog.messages) == MOST_KINDS
    assert max(map(len, caplog.messages)) < LONGEST_QUOTE + 200
    caplog.clear()
    time.now += PERIOD_SECONDS
    refusals.note(METHOD, "192.0.2.7", InvalidInput("one more"))
    assert caplog.messages[0].endswith(f": {10_000 - MOST_KINDS} x {METHOD} InvalidInput")
    assert len(caplog.messages) == 2


def test_answers_in_the_protocols_normal_course_do_not_read_as_refusals(
    refusals: Refusals, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [NotFound("no such release"), OutOfTurn("not begun yet"), PeerUnavailable("ask again")]
    for error in (*answers, TooManyRequests("too often"), Conflict("sealed other bytes before")):
        refusals.note(METHOD, "192.0.2.7", error)
    assert [line.split(" 192.0.2.7: ")[0] for line in caplog.messages] == [f"{METHOD} ended for"] * 3 + [
        f"{METHOD} refused to"
    ] * 2
    assert row_for(OutOfTurn("")) is row_for(Conflict(""))  # to the caller they are the same


def test_what_nobody_foresaw_is_told_with_its_traceback_once(
    refusals: Refusals, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("cell 4711")

    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as caught:
            fail()
        refusals.note(METHOD, "192.0.2.7", caught.value)
    assert caplog.messages == [f"{METHOD} failed for 192.0.2.7"]
    assert "in fail" in caplog.text
