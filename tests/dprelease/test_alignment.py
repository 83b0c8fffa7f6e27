"""The canonical order: the same for the same patients, and another digest for anything else."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import DataRefused, InvalidInput
from party_node.source.alignment import Alignment, align, new_key, pseudonym

KEY = bytes(range(32))

subjects_lists = st.lists(st.text("abc019", min_size=1, max_size=6), min_size=1, max_size=12, unique=True)


def aligned(subjects: Sequence[str], key: bytes = KEY, roster: str = "r") -> Alignment:
    return align(key, [pseudonym(key, subject) for subject in subjects], roster)


@given(subjects_lists, st.randoms(use_true_random=False))
def test_files_in_any_order_align_to_the_same_patients(subjects: list[str], random: object) -> None:
    shuffled = list(subjects)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = aligned(subjects), aligned(shuffled)
    assert one.digest == two.digest
    assert [subjects[i] for i in one.order] == [shuffled[i] for i in two.order]
    assert sorted(one.order) == list(range(one.rows))


@given(subjects_lists, st.data())
def test_one_different_patient_changes_the_digest(subjects: list[str], data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(subjects) - 1))
    other = [*subjects[:where], "another patient", *subjects[where + 1 :]]
    assert aligned(subjects).digest != aligned(other).digest
    assert aligned(subjects).digest != aligned([*subjects, "another patient"]).digest


def test_key_and_roster_are_part_of_the_digest() -> None:
    subjects = ["a", "b", "c"]
    digests = {
        aligned(subjects).digest,
        aligned(subjects, roster="s").digest,
        aligned(subjects, key=bytes(32)).digest,
        align(bytes(32), [pseudonym(KEY, subject) for subject in subjects], "r").digest,
    }
    assert len(digests) == 4


def test_order_follows_the_key_and_not_the_identifiers() -> None:
    subjects = [f"{i:03d}" for i in range(100)]
    assert list(aligned(subjects).order) != list(range(100))
    assert list(aligned(subjects).order) != list(aligned(subjects, key=bytes(32)).order)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("é", "e\u0301", True),
        (" 17 ", "17", True),
        ("17", "017", False),
        ("a17", "A17", False),
        ("1 7", "17", False),
    ],
)
def test_identifiers_are_compared_as_trimmed_unicode_text(one: str, two: str, same: bool) -> None:
    assert (pseudonym(KEY, one) == pseudonym(KEY, two)) is same


def test_a_record_extends_its_subject() -> None:
    subject, record = pseudonym(KEY, "17"), pseudonym(KEY, "17", "visit 1")
    assert len(subject) == 32
    assert len(record) == 64
    assert record.startswith(subject)
    assert record[32:] != pseudonym(KEY, "visit 1")


def test_a_repeated_identifier_is_refused_with_counts_only() -> None:
    with pytest.raises(DataRefused, match="2 rows repeat an identifier") as refused:
        aligned(["secret", "b", "secret", "c", "secret"])
    assert "secret" not in refused.value.message


def records(subjects: Sequence[tuple[str, str]]) -> list[bytes]:
    return [pseudonym(KEY, subject, record) for subject, record in subjects]


VISITS = [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2")]


def test_subjects_may_have_as_many_records_as_declared() -> None:
    one = align(KEY, records(VISITS), "r", rows_per_subject=2)
    two = align(KEY, records(VISITS[::-1]), "r", rows_per_subject=2)
    assert one.digest == two.digest
    order = [VISITS[i] for i in one.order]
    assert order == [VISITS[::-1][i] for i in two.order]
    assert sum(order[i][0] != order[i + 1][0] for i in range(4)) == 2  # records of a subject stay together


@pytest.mark.parametrize(("allowed", "over"), [(1, 2), (2, 0), (3, 0)])
def test_more_records_than_declared_are_refused(allowed: int, over: int) -> None:
    if not over:
        align(KEY, records(VISITS), "r", rows_per_subject=allowed)
        return
    with pytest.raises(DataRefused, match=rf"rows_per_subject = {allowed} rows \({over} too many\)"):
        align(KEY, records(VISITS), "r", rows_per_subject=allowed)


def test_the_same_record_twice_is_refused_even_where_two_are_allowed() -> None:
    with pytest.raises(DataRefused, match="1 rows repeat"):
        align(KEY, records([*VISITS, ("c", "1")]), "r", rows_per_subject=3)


def test_no_rows_and_short_keys_are_refused() -> None:
    with pytest.raises(DataRefused, match="no rows"):
        align(KEY, [], "r")
    with pytest.raises(InvalidInput, match="32 bytes, not 16"):
        align(bytes(16), records(VISITS), "r", 2)


def test_keys_are_fresh() -> None:
    assert len({new_key() for _ in range(100)}) == 100
    assert len(new_key()) == 32


def test_digest_written_out() -> None:
    ordered = sorted(hmac.digest(KEY, b"subject\0" + name, "sha256") for name in (b"17", b"42"))
    digest = hmac.digest(KEY, b"dprelease/alignment/v1|r|2|" + b"".join(ordered), "sha256").hex()
    assert digest == "6d24b86942a61d2253d0278065185c4040c7aa04a42578e2c4b645d931f6f5bd"
    assert aligned(["42", "17"]).digest == digest
