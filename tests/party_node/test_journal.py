"""The hospital's own record of releases: once decided, nothing that anybody says elsewhere changes it."""

from pathlib import Path

import pytest

from dprelease.errors import Conflict, InvalidInput, NotFound
from party_node.state.journal import FINAL, Journal, Status
from tests.support.specs import build_spec

SPEC = build_spec()
RELEASE = SPEC.digest()


@pytest.fixture
def journal(folder: Path) -> Journal:
    return Journal(folder / "journal.sqlite")


def stand(journal: Journal, status: Status) -> None:
    journal.offer(SPEC, status, "new")


def test_what_was_offered_is_kept_as_it_was(journal: Journal, folder: Path) -> None:
    first = journal.offer(SPEC, Status.WAITING, "new")
    journal.move(RELEASE, {Status.WAITING}, Status.ACCEPTED, "yes")
    again = journal.offer(SPEC, Status.WAITING, "offered again")
    assert (first.spec, again.spec) == (SPEC, SPEC)
    assert (again.status, again.note, again.seen) == (Status.ACCEPTED, "yes", first.seen)
    assert Journal(folder / "journal.sqlite").releases() == [again]


def test_a_release_is_found_by_the_beginning_of_its_digest(journal: Journal) -> None:
    stand(journal, Status.WAITING)
    journal.offer(build_spec(title="another"), Status.WAITING, "new")
    assert journal.find(RELEASE[:10].upper()).digest == RELEASE
    assert journal.get(RELEASE) is not None
    assert journal.get(RELEASE[:10]) is None
    with pytest.raises(NotFound, match="review list"):
        journal.find("zz")
    with pytest.raises(InvalidInput, match="fits 2 of those"):
        journal.find("")


@pytest.mark.parametrize("status", Status)
def test_a_move_is_made_only_from_where_the_caller_believes(journal: Journal, status: Status) -> None:
    stand(journal, status)
    with pytest.raises(Conflict, match=f"is {status.value} here"):
        journal.move(RELEASE, set(Status) - {status}, Status.ENDED, "x")
    assert journal.find(RELEASE).status == status
    journal.move(RELEASE, {status}, Status.ENDED, "x")
    assert (journal.find(RELEASE).status, journal.find(RELEASE).note) == (Status.ENDED, "x")


def test_an_unknown_release_does_not_move(journal: Journal) -> None:
    with pytest.raises(Conflict, match="unknown here"):
        journal.move(RELEASE, set(Status), Status.ENDED)


@pytest.mark.parametrize("status", Status)
def test_a_note_says_why_it_waits_but_not_over_the_last_words(journal: Journal, status: Status) -> None:
    stand(journal, status)
    journal.annotate(RELEASE, "the hub is away")
    assert journal.find(RELEASE).note == ("new" if status in FINAL else "the hub is away")


def test_the_digest_of_the_columns_is_recorded_once(journal: Journal) -> None:
    stand(journal, Status.ACCEPTED)
    journal.commit(RELEASE, "a" * 64, b"salt")
    journal.commit(RELEASE, "a" * 64, b"another salt")
    record = journal.find(RELEASE)
    assert (record.codes, record.salt) == ("a" * 64, b"salt")
    with pytest.raises(Conflict, match="other data"):
        journal.commit(RELEASE, "b" * 64, b"salt")
    with pytest.raises(Conflict):
        journal.commit("0" * 64, "a" * 64, b"salt")


@pytest.mark.parametrize("status", Status)
def test_only_an_accepted_release_is_signed(journal: Journal, status: Status) -> None:
    stand(journal, status)
    if status == Status.ACCEPTED:
        journal.sign(RELEASE, b"approval")
        assert (journal.find(RELEASE).status, journal.find(RELEASE).consent) == (Status.APPROVED, b"approval")
    else:
        with pytest.raises(Conflict, match="nothing was changed"):
            journal.sign(RELEASE, b"approval")
        assert (journal.find(RELEASE).status, journal.find(RELEASE).consent) == (status, None)
