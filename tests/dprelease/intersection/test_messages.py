"""Messages of a run: signed by their senders, of this run, and each with a place in its transcript."""

import pytest

from dprelease.errors import IntegrityError
from dprelease.intersection.ring import check_message, transcript_digest
from dprelease.mpc.messages import MessageHeader, sign_message
from tests.dprelease.intersection.driver import KEYS, RUN, ring_of

RING = ring_of(2, 3)
PUBLIC = {name: KEYS[name].public_key() for name in "ab"}


def result(**fields: str) -> MessageHeader:
    standard = {"task": RUN, "sender": "a", "payload": "ab" * 32, "session": "77" * 32}
    return MessageHeader(round=1, kind="result", **{**standard, **fields})


def test_a_message_is_of_its_sender_and_of_this_run() -> None:
    check_message(sign_message(KEYS["a"], result()), RING, PUBLIC)
    check_message(sign_message(KEYS["b"], result()), RING)  # the relay knows who calls
    with pytest.raises(IntegrityError, match="its key did not sign"):
        check_message(sign_message(KEYS["b"], result()), RING, PUBLIC)
    with pytest.raises(IntegrityError, match="its key did not sign"):
        check_message(sign_message(KEYS["c"], result(sender="c")), RING, PUBLIC)
    with pytest.raises(IntegrityError, match="a sent a result that this alignment run does not have"):
        check_message(sign_message(KEYS["a"], result(task="ee" * 32)), RING, PUBLIC)


def test_a_transcript_covers_run_session_and_messages_in_any_order() -> None:
    one, two = result(), result(sender="b")
    digest = transcript_digest(RING, "77" * 32, [one, two])
    assert digest == transcript_digest(RING, "77" * 32, [two, one])
    others = [
        transcript_digest(RING, "77" * 32, [one]),
        transcript_digest(RING, "78" * 32, [one, two]),
        transcript_digest(ring_of(2, 3, 4), "77" * 32, [one, two]),
    ]
    assert digest not in others[:2]
    assert others[2] == digest  # the run's digest stands for its sizes
