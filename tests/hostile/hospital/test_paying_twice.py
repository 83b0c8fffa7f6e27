"""What counts as the same content, and which earlier releases count as paid for."""

from collections.abc import Callable

import pytest

from dprelease.release.spec import ReleaseSpec
from party_node.decision.decision import repetitions
from party_node.state.journal import Record, Status
from tests.party_node.world import World
from tests.support.specs import TWO_PARTIES, build_spec, numeric

SPEC = build_spec()
NORTH, SOUTH = SPEC.parties
AGE, SEX = TWO_PARTIES["north"]


def record(spec: ReleaseSpec, status: Status, note: str = "") -> Record:
    return Record(spec.digest(), spec, status, note, "", "", None, None, None)


def paid(spec: ReleaseSpec) -> tuple[str, ...]:
    """What is said of a proposal after `SPEC` was published."""
    return repetitions(spec, "north", [record(SPEC, Status.ENDED, "published")], {SPEC.digest(): "send"})


AGAIN: dict[str, Callable[[], ReleaseSpec]] = {
    "another title": lambda: build_spec(title="another"),
    "another seed": lambda: build_spec(seed=bytes(32)),
    "another target": lambda: build_spec(epsilon=0.5),
    "another weight": lambda: build_spec(anchor_weight="1/5"),
    "another k": lambda: build_spec(outputs=9),
    "another grid": lambda: build_spec(grid_bits=11),
    "other companions": lambda: build_spec({"north": (AGE, SEX), "east": (numeric("height"),)}),
    "another alignment run": lambda: SPEC.model_copy(update={"aligned": "77" * 32, "alignment": "00" * 32}),
    "columns in another order": lambda: build_spec({"north": (SEX, AGE), "south": TWO_PARTIES["south"]}),
}
ANOTHER: dict[str, Callable[[], ReleaseSpec]] = {
    "fewer columns": lambda: build_spec({"north": (AGE,), "south": TWO_PARTIES["south"]}),
    "other bounds": lambda: build_spec({"north": (numeric("age", 0, 99), SEX), "south": TWO_PARTIES["south"]}),
    "another mechanism": lambda: build_spec(mechanism="rows"),
    "other patients": lambda: SPEC.model_copy(update={"alignment": "00" * 32}),
}


@pytest.mark.parametrize("made", AGAIN.values(), ids=AGAIN)
def test_the_same_content_is_recognised(made: Callable[[], ReleaseSpec]) -> None:
    sentence = f"you would pay again for what release {SPEC.digest()[:12]} published already"
    assert paid(made()) == (sentence,)


@pytest.mark.parametrize("made", ANOTHER.values(), ids=ANOTHER)
def test_other_content_is_another_release(made: Callable[[], ReleaseSpec]) -> None:
    assert paid(made()) == ()


def test_a_release_does_not_repeat_itself() -> None:
    assert paid(SPEC) == ()


@pytest.mark.parametrize(
    ("status", "note", "stage", "words"),
    [
        (Status.WAITING, "", "", ""),
        (Status.DECLINED, "no", "refund", ""),
        (Status.ENDED, "published", "refund", ""),  # the coordinator lied: nothing of ours was ever made
        (Status.ACCEPTED, "", "", "was promised budget for"),
        (Status.APPROVED, "", "reserve", "was promised budget for"),
        (Status.APPROVED, "", "charge", "was charged for"),
        (Status.SEALED, "", "charge", "was charged for"),
        (Status.DELIVERED, "", "send", "was charged for"),
        (Status.ENDED, "failed: no block in time", "send", "was charged for"),
        (Status.ENDED, "published", "send", "published"),
    ],
)
def test_what_was_paid_or_promised_counts(status: Status, note: str, stage: str, words: str) -> None:
    found = repetitions(build_spec(title="x"), "north", [record(SPEC, status, note)], {SPEC.digest(): stage})
    assert [words in sentence for sentence in found] == ([True] if words else [])


def test_a_person_who_waits_is_told_when_it_becomes_a_repetition(careful: World) -> None:
    first, second = careful.propose("one"), careful.propose("two")
    north = careful.north
    north.cycle()
    assert "pay again" not in north.record(first).note + north.record(second).note
    north.hospital_state().accept(north.record(first))
    north.cycle()
    assert f"pay again for what release {first[:12]}" in north.record(second).note
    shown = north.run("review", "show", second)
    assert "pays again" in shown.output
