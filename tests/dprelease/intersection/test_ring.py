"""Who sends what to whom in a run, and of which size."""

import pytest

from dprelease.errors import InvalidInput
from dprelease.intersection.ring import Ring
from dprelease.mpc.messages import MessageHeader
from tests.dprelease.intersection.driver import RUN, ring_of

SESSION, SOME = "77" * 32, "ab" * 32


def header(kind: str, sender: str, **fields: object) -> MessageHeader:
    session = {} if kind == "hello" else {"session": SESSION}
    return MessageHeader.model_validate({"task": RUN, "round": 1, "kind": kind, "sender": sender, **session, **fields})


def points(**fields: object) -> MessageHeader:
    standard = {"receivers": ("b",), "dealer": "c", "size": 80 + 32 * 9000 + 2 * 16, "sha256": SOME}
    return header("points", "a", **{**standard, **fields})


def table(**fields: object) -> MessageHeader:
    standard = {"receivers": ("b", "c"), "payload": SOME, "size": 8 * (3 * 3900 + 128) + 16, "sha256": SOME}
    return header("table", "a", **{**standard, **fields})


def key(**fields: object) -> MessageHeader:
    return header("key", "a", **{"receivers": ("c",), "size": 80, "sha256": SOME, **fields})


RING = ring_of(40, 1, 9000)


def test_elements_go_once_around() -> None:
    party, way = "b", []
    for _ in RING.parties:
        way.append(party)
        assert RING.before(RING.after(party)) == party
        party = RING.after(party)
    assert (way, party) == (["b", "c", "a"], "b")


def test_its_messages_fit() -> None:
    for fits in (points(), points(dealer="a", size=80 + 32 * 40 + 16), table(), key(), key(receivers=("b",))):
        assert RING.fits(fits)
    for kind in ("hello", "transcript", "result"):
        assert RING.fits(header(kind, "c", payload=SOME))


@pytest.mark.parametrize(
    "wrong",
    [
        points(size=80 + 32 * 9001 + 2 * 16),  # one guess more than was announced
        points(size=80 + 32 * 8999 + 2 * 16),
        points(receivers=("c",)),  # past a neighbour
        points(receivers=("b", "c")),
        points(dealer="d"),
        points(dealer=""),
        points(payload=SOME),
        table(receivers=("b",)),  # so that one of them never sees it
        table(size=8),
        table(payload=""),
        table(dealer="a"),
        key(receivers=("a",)),
        key(size=81),
        key(payload=SOME),
        header("hello", "a"),
        header("hello", "a", payload=SOME, session=SESSION),
        header("transcript", "a", payload=SOME, session=""),
        header("transcript", "a", payload=SOME, sha256=SOME),
        header("result", "a"),
        header("result", "d", payload=SOME),
        header("columns", "a", receivers=("b",), payload=SOME, size=8, sha256=SOME),
        header("deal", "a", receivers=("b",), size=80, sha256=SOME),
        header("hello", "a", payload=SOME, task=SOME),
    ],
)
def test_others_do_not(wrong: MessageHeader) -> None:
    assert not RING.fits(wrong)


def test_sizes_follow_from_what_was_announced() -> None:
    assert RING.segment == 3900
    assert RING.cells == 3 * 3900 + 128
    assert RING.most_bytes("a") == 3 * 80 + 32 * 9041 + 16 * 4 + 8 * RING.cells + 16 + 2 * 80
    assert ring_of(1, 1).cells == 3 + 128


def test_who_waits_for_a_message() -> None:
    assert RING.awaiting(points()) == ("b",)
    assert RING.awaiting(header("result", "b", payload=SOME)) == ("a", "c")


@pytest.mark.parametrize("count", [1, 11])
def test_two_to_ten_parties(count: int) -> None:
    with pytest.raises(InvalidInput, match="2 to 10"):
        Ring(RUN, {f"p{number}": 1 for number in range(count)})
