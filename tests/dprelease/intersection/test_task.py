"""A run's task: canonical, and refused where two of its members are one."""

import pytest

from dprelease.errors import InvalidInput
from dprelease.intersection.ring import Ring
from dprelease.intersection.task import Member, Task


def member(name: str, patients: int = 5) -> Member:
    return Member(party=name, key=name.encode().hex() * 32, patients=patients)


def task(*members: Member, **fields: str) -> Task:
    times = {"created": "2026-01-31T12:00:00Z", "expires": "2026-02-01T12:00:00Z"}
    return Task(consortium="north", roster="cohort", members=members, nonce="5e" * 32, **{**times, **fields})


def test_its_digest_is_the_run_and_its_order_the_ring() -> None:
    one = task(member("b", 7), member("a"))
    assert Task.from_bytes(one.to_bytes()) == one
    assert Ring.of(one) == Ring(one.digest(), {"b": 7, "a": 5})
    assert (
        len({one.digest(), task(member("a"), member("b", 7)).digest(), task(member("b", 8), member("a")).digest()}) == 3
    )
    assert (one.member("a"), one.member("c")) == (member("a"), None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: task(member("a")), "at least 2"),
        (lambda: task(*(member(name) for name in "abcdef_ABCD")), "at most 10"),
        (lambda: task(member("a"), member("a")), "one party"),
        (lambda: task(member("a"), Member(party="b", key="61" * 32, patients=1)), "one key"),
        (lambda: task(member("a"), member("b"), expires="2026-01-31T12:00:00Z"), "expires after"),
    ],
)
def test_what_no_run_can_be_is_refused(data, words) -> None:
    with pytest.raises(ValueError, match=words):
        data()


def test_sizes_are_positive_and_bounded() -> None:
    with pytest.raises(InvalidInput, match="patients"):
        Member.from_bytes(member("a").to_bytes().replace(b'"patients":5', b'"patients":0'))
    with pytest.raises(InvalidInput, match="patients"):
        Member.from_bytes(member("a").to_bytes().replace(b'"patients":5', b'"patients":134217729'))
