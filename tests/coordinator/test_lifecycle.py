"""The state machine, event by event and under random sequences of events."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.lifecycle import (
    OPEN,
    PUBLICATION_TIME,
    Approved,
    Cancelled,
    Declined,
    Event,
    Finished,
    IntakeReported,
    PartyRevoked,
    PublicationAuthorized,
    PublicationReported,
    Stage,
    Standing,
    Tick,
    Topic,
    advance,
    propose,
    words,
)
from dprelease.errors import Conflict
from tests.coordinator.office import NOW, RUN_TIME

PARTIES = ("north", "south", "west")
EXPIRES = NOW + timedelta(hours=10)
LATER = NOW + timedelta(hours=1)
MANIFEST = "cd" * 32
BLOCKS = IntakeReported(frozenset(PARTIES))


def play(*events: Event, record: Standing | None = None, kind: Topic = Topic.RELEASE) -> Standing:
    record = record or propose(PARTIES, NOW, EXPIRES, RUN_TIME, kind=kind)
    for event in events:
        record = advance(record, event, LATER)
    return record


APPROVALS = tuple(Approved(party) for party in PARTIES)
STAGES: dict[str, tuple[Event, ...]] = {
    "PROPOSED": (),
    "APPROVED": APPROVALS,
    "RUNNING": (*APPROVALS, IntakeReported(frozenset({"south"}))),
    "publishing": (*APPROVALS, BLOCKS, PublicationAuthorized()),
    "PUBLISHED": (*APPROVALS, BLOCKS, PublicationAuthorized(), PublicationReported(MANIFEST)),
    "REJECTED": (Declined("west", "no"),),
    "CANCELLED": (Cancelled("wrong columns"),),
    "FAILED": (*APPROVALS, PartyRevoked("north")),
}


def test_the_whole_way_to_publication() -> None:
    record = propose(PARTIES, NOW, EXPIRES, RUN_TIME)
    assert (record.state, record.waits_for, record.deadline) == (Stage.PROPOSED, PARTIES, EXPIRES)
    record = play(Approved("south"), record=record)
    assert (record.state, record.waits_for) == (Stage.PROPOSED, ("north", "west"))
    record = play(Approved("west"), Approved("north"), record=record)
    assert (record.state, record.waits_for, record.since) == (Stage.APPROVED, PARTIES, LATER)
    assert record.deadline == LATER + RUN_TIME
    record = play(IntakeReported(frozenset({"west"})), record=record)
    assert (record.state, record.waits_for) == (Stage.RUNNING, ("north", "south"))
    assert record.deadline == LATER + RUN_TIME
    record = play(BLOCKS, record=record)
    assert record.waits_for == ("the hub",)
    record = play(PublicationAuthorized(), record=record)
    assert record.deadline == LATER + PUBLICATION_TIME
    record = play(PublicationReported(MANIFEST), record=record)
    assert (record.state, record.manifest, record.deadline, record.waits_for) == (Stage.PUBLISHED, MANIFEST, None, ())


SENT = IntakeReported(frozenset({"south"}))


@pytest.mark.parametrize(
    ("events", "state", "explanation"),
    [
        ((), Stage.PROPOSED, "waits for north, south, west to decide since 2026-03-01T12:00:00Z"),
        (APPROVALS[:2], Stage.PROPOSED, "waits for west to decide"),
        (APPROVALS, Stage.RUNNING, "waits for north, south, west to compute"),
        ((*APPROVALS, SENT), Stage.RUNNING, "waits for north, south, west to compute"),
        ((*APPROVALS, SENT, Finished("south")), Stage.RUNNING, "waits for north, west to compute"),
        ((*APPROVALS, BLOCKS, *map(Finished, PARTIES)), Stage.DONE, "releases may name it"),
        ((Approved("north"), Declined("south", "no time")), Stage.REJECTED, "south declined"),
        ((*APPROVALS, SENT, Declined("south")), Stage.FAILED, "south withdrew after approving"),
        ((*APPROVALS, BLOCKS, Cancelled("newer export")), Stage.CANCELLED, "cancelled: newer export"),
        ((*APPROVALS, PartyRevoked("south")), Stage.FAILED, "south was revoked"),
    ],
)
def test_an_alignment_run_lives_so(events: tuple[Event, ...], state: Stage, explanation: str) -> None:
    record = play(*events, kind=Topic.RUN)
    assert record.state is state
    assert explanation in record.explain()
    assert (record.deadline is None) is record.final


def test_nobody_has_the_result_before_the_hub_has_carried_its_own() -> None:
    running = play(*APPROVALS, SENT, kind=Topic.RUN)
    with pytest.raises(Conflict, match="north cannot have the result: the hub has not carried all that it sends"):
        advance(running, Finished("north"), LATER)
    assert running.deadline is not None
    ended = advance(play(Finished("south"), record=running), Tick(), running.deadline)
    assert ended.reason == "no result in time at north, west"


@pytest.mark.parametrize("stage", ["APPROVED", "RUNNING"])
def test_what_is_computed_jointly_says_so_and_whose_numbers_are_missing(stage: str) -> None:
    fresh = propose(PARTIES, NOW, EXPIRES, RUN_TIME, joint=True)
    assert fresh.explain() == propose(PARTIES, NOW, EXPIRES, RUN_TIME).explain()
    record = play(*STAGES[stage], record=fresh)
    waits = ", ".join(record.waits_for)
    assert record.waits_for == {"APPROVED": PARTIES, "RUNNING": ("north", "west")}[stage]
    assert record.explain() == (
        f"is being computed jointly; waits for {waits} to send their numbers since 2026-03-01T13:00:00Z; "
        "fails at 2026-03-04T13:00:00Z"
    )
    assert "jointly" not in play(*STAGES[stage]).explain()
    complete = play(BLOCKS, record=record)
    assert complete.explain().startswith("waits for the hub to publish since")


def test_a_decline_rejects_and_keeps_its_reason_from_the_other_parties() -> None:
    record = play(Declined("south", "our board said no"))
    assert record.state is Stage.REJECTED
    assert "south declined" in record.explain()
    assert "board" not in record.explain()
    assert "our board said no" in words(Declined("south", "our board said no"))


def test_a_party_may_change_its_mind_until_its_block_is_in() -> None:
    assert play(Approved("south"), Declined("south")).state is Stage.REJECTED
    assert play(*APPROVALS, Declined("south")).state is Stage.FAILED
    running = play(*STAGES["RUNNING"])
    with pytest.raises(Conflict, match="the hub holds the block of south"):
        advance(running, Declined("south"), LATER)
    assert advance(running, Declined("north"), LATER).explain().endswith("north withdrew after approving")


def test_nobody_can_cancel_what_may_be_public() -> None:
    publishing = play(*STAGES["publishing"])
    with pytest.raises(Conflict, match="can no longer be cancelled"):
        advance(publishing, Cancelled("too late"), LATER)
    assert advance(publishing, PartyRevoked("north"), LATER) == publishing
    with pytest.raises(Conflict, match="can no longer decline"):
        advance(publishing, Declined("north"), LATER)


@pytest.mark.parametrize(
    ("stage", "state"), [("PROPOSED", Stage.CANCELLED), ("APPROVED", Stage.FAILED), ("RUNNING", Stage.FAILED)]
)
def test_revoking_a_party_ends_its_releases(stage: str, state: Stage) -> None:
    before = play(*STAGES[stage])
    after = advance(before, PartyRevoked("west"), LATER)
    assert (after.state, after.reason) == (state, "west was revoked")
    assert advance(before, PartyRevoked("stranger"), LATER) == before


@pytest.mark.parametrize(
    ("stage", "state", "words_of_the_end"),
    [
        ("PROPOSED", Stage.EXPIRED, "no decision in time by north, south, west"),
        ("APPROVED", Stage.FAILED, "no block in time from north, south, west"),
        ("RUNNING", Stage.FAILED, "no block in time from north, west"),
        ("publishing", Stage.FAILED, "look there whether it did"),
    ],
)
def test_every_open_state_lapses_at_its_deadline_and_names_who_was_waited_for(
    stage: str, state: Stage, words_of_the_end: str
) -> None:
    record = play(*STAGES[stage])
    assert record.deadline is not None
    assert advance(record, Tick(), record.deadline - timedelta(seconds=1)) == record
    ended = advance(record, Tick(), record.deadline)
    assert (ended.state, ended.deadline) == (state, None)
    assert words_of_the_end in ended.explain()


def test_a_hub_that_holds_every_block_and_does_not_ask_is_named() -> None:
    record = play(*APPROVALS, BLOCKS)
    assert record.deadline is not None
    assert "the hub held every block" in advance(record, Tick(), record.deadline).reason


def test_a_deadline_counts_without_a_tick_but_a_publication_is_a_fact() -> None:
    with pytest.raises(Conflict, match="EXPIRED"):
        advance(play(), Approved("north"), EXPIRES)
    overdue = play(*STAGES["publishing"])
    assert overdue.deadline is not None
    assert advance(overdue, PublicationReported(MANIFEST), overdue.deadline).state is Stage.PUBLISHED
    assert advance(play(), PartyRevoked("north"), EXPIRES).state is Stage.EXPIRED


@pytest.mark.parametrize(
    ("stage", "event"),
    [
        ("PROPOSED", BLOCKS),
        ("PROPOSED", PublicationAuthorized()),
        ("PROPOSED", PublicationReported(MANIFEST)),
        ("APPROVED", PublicationReported(MANIFEST)),
        ("RUNNING", PublicationReported(MANIFEST)),
        ("PROPOSED", Approved("stranger")),
        ("PROPOSED", Declined("stranger")),
        ("APPROVED", IntakeReported(frozenset({"stranger"}))),
        ("PUBLISHED", PublicationReported("ef" * 32)),
        ("PUBLISHED", Cancelled("too late")),
        ("REJECTED", Approved("north")),
        ("CANCELLED", BLOCKS),
        ("CANCELLED", PublicationAuthorized()),
        ("FAILED", PublicationReported(MANIFEST)),
    ],
)
def test_what_does_not_fit_is_a_conflict(stage: str, event: Event) -> None:
    with pytest.raises(Conflict):
        advance(play(*STAGES[stage]), event, LATER)


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (Topic.RUN, PublicationAuthorized()),
        (Topic.RUN, PublicationReported(MANIFEST)),
        (Topic.RELEASE, Finished("north")),
        (Topic.RUN, Finished("stranger")),
    ],
)
def test_what_does_not_happen_to_a_kind_is_a_conflict(kind: Topic, event: Event) -> None:
    with pytest.raises(Conflict):
        advance(play(*APPROVALS, BLOCKS, kind=kind), event, LATER)


events = st.one_of(
    st.builds(Approved, st.sampled_from(PARTIES)),
    st.builds(Declined, st.sampled_from(PARTIES)),
    st.builds(IntakeReported, st.frozensets(st.sampled_from(PARTIES))),
    st.builds(Finished, st.sampled_from(PARTIES)),
    st.just(PublicationAuthorized()),
    st.builds(PublicationReported, st.sampled_from([MANIFEST, "ef" * 32])),
    st.just(Cancelled("why not")),
    st.builds(PartyRevoked, st.sampled_from(PARTIES)),
    st.just(Tick()),
)
# Most sequences begin with approvals, or few would get beyond PROPOSED.
before = st.sampled_from([(), APPROVALS[:1], APPROVALS, (*APPROVALS, BLOCKS)])
starts = st.tuples(st.sampled_from(Topic), before) | st.just((Topic.RELEASE, STAGES["publishing"]))
steps = st.tuples(events, st.integers(min_value=0, max_value=20))


@given(starts, st.lists(steps, max_size=20))
def test_no_sequence_of_events_breaks_the_rules(
    start: tuple[Topic, tuple[Event, ...]], sequence: list[tuple[Event, int]]
) -> None:
    now = LATER
    record = play(*start[1], kind=start[0])
    seen = [record]
    for event, hours in sequence:
        now += timedelta(hours=hours)
        try:
            record = advance(record, event, now)
        except Conflict:
            continue
        seen.append(record)
    for before, after in pairwise(seen):
        assert not before.final or after == before
        assert before.approved <= after.approved
        assert before.received <= after.received
        assert before.finished <= after.finished
        assert before.kind is after.kind
    for one in seen:
        assert (one.deadline is None) == one.final == (one.state not in OPEN)
        assert one.final == (not one.waits_for)
        if one.state in (Stage.APPROVED, Stage.RUNNING, Stage.PUBLISHED, Stage.DONE):
            assert one.approved == frozenset(PARTIES)
        if one.state is Stage.PUBLISHED:
            assert one.publishing is not None
            assert one.received == frozenset(PARTIES)
        assert one.finished <= one.received
        assert (one.state is Stage.DONE) == (one.finished == frozenset(PARTIES))
        assert one.kind is (Topic.RUN if one.finished else one.kind)
        assert one.explain()


@given(starts, st.lists(events, max_size=12))
def test_a_repeated_event_is_heard_once(start: tuple[Topic, tuple[Event, ...]], sequence: list[Event]) -> None:
    record = play(*start[1], kind=start[0])
    for event in sequence:
        try:
            record = advance(record, event, LATER)
        except Conflict:
            continue
        assert advance(record, event, LATER) == record
