"""Agreement, of releases: all parties, over this very spec, under the keys that it names and people pinned.

The canonical order: the same for the same patients, and another digest for anything else.

A statement of charges: exact, signed by the root, for one hospital.
"""

import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.agreement import SignedAcceptance, accept, check_all, check_consent
from dprelease.canonical import sha256
from dprelease.errors import DataRefused, IntegrityError, InvalidInput
from dprelease.identity.signing import APPROVAL, BLOCK, sign
from dprelease.intersection.task import Member, Task
from dprelease.release.accounting import guarantee
from dprelease.release.approval import Approval, SignedApproval, commit, new_salt
from dprelease.release.charges import SignedStatement, charge, check_statement, state
from party_node.source.alignment import Alignment, Names, align, as_names, pseudonym, subjects_in
from tests.support.certificates import NOW, Authority, certify
from tests.support.specs import TWO_PARTIES, Consortium, build_spec, new_consortium, sign_approval

TRIAL = new_consortium(*TWO_PARTIES)
NORTH, SOUTH = TRIAL.parties["north"], TRIAL.parties["south"]
SPEC = build_spec(keys=TRIAL.keys)
ROOT = TRIAL.root.certificate
BOTH = [sign_approval(NORTH, SPEC), sign_approval(SOUTH, SPEC)]


def test_all_parties_approved() -> None:
    check_all(BOTH, SPEC, ROOT)
    check_all(BOTH[::-1], SPEC, ROOT, TRIAL.keys)
    assert BOTH[0].approval == Approval(
        party="north", spec=SPEC.digest(), commitment=sha256(b"commitment"), approved="2026-03-01T12:00:00Z"
    )


@pytest.mark.parametrize(
    ("approvals", "sentence"),
    [
        ([], "no approval by north, south"),
        (BOTH[:1], "no approval by south"),
        ([BOTH[0], BOTH[0]], "north approved twice"),
        ([*BOTH, BOTH[1]], "south approved twice"),
    ],
)
def test_missing_or_doubled_approvals_are_refused(approvals: Sequence[SignedApproval], sentence: str) -> None:
    with pytest.raises(IntegrityError, match=sentence):
        check_all(approvals, SPEC, ROOT)


def altered(**changes: object) -> SignedApproval:
    signed = BOTH[0]
    return signed.model_copy(update={"approval": signed.approval.model_copy(update=changes)})


def signed_again(**changes: object) -> SignedApproval:
    """North signs something else, properly."""
    approval = BOTH[0].approval.model_copy(update=changes)
    key = NORTH.key
    return BOTH[0].model_copy(update={"approval": approval, "signature": sign(key, BLOCK, approval.to_bytes())})


WRONG: dict[str, tuple[Callable[[], SignedApproval], str]] = {
    "a stranger": (lambda: sign_approval(certify("west", "party", by=TRIAL.root), SPEC), "for another release"),
    "another time": (lambda: altered(approved="2026-03-01T12:00:01Z"), "not valid"),
    "another purpose": (signed_again, "not valid"),
    "the name of another": (lambda: altered(party="south"), "not made with the key"),
    "the certificate of another": (
        lambda: BOTH[0].model_copy(update={"certificate": SOUTH.certificate}),
        "not made with the key",
    ),
    "a certificate in another name": (
        lambda: BOTH[0].model_copy(
            update={"certificate": certify("west", "party", by=TRIAL.root, key=NORTH.key).certificate}
        ),
        "not made with the key",
    ),
    "no certificate": (lambda: BOTH[0].model_copy(update={"certificate": "hello"}), "certificate"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_approval_is_refused(case: str) -> None:
    make, sentence = WRONG[case]
    with pytest.raises(IntegrityError, match=sentence):
        check_consent(make(), SPEC, ROOT)


@pytest.mark.parametrize("pins", [{}, {"north": "0" * 64}, {"south": "0" * 64}])
def test_keys_that_people_did_not_pin_are_refused(pins: dict[str, str]) -> None:
    pinned = {**TRIAL.keys, **pins} if pins else {}
    with pytest.raises(IntegrityError, match="is not the one pinned here"):
        check_all(BOTH, SPEC, ROOT, pinned)


def test_a_commitment_binds_the_codes_and_hides_behind_its_salt() -> None:
    salt, codes = bytes(32), sha256(b"codes")
    assert commit(salt, codes) == commit(salt, codes)
    assert commit(salt, codes) == sha256(b"dprelease/commitment/v1" + salt + bytes.fromhex(codes))
    assert len({commit(salt, codes), commit(new_salt(), codes), commit(salt, sha256(b"others"))}) == 3
    assert len({new_salt() for _ in range(100)}) == 100
    assert len(new_salt()) == 32


KEY = bytes(range(32))


def in_order(pseudonyms: Sequence[bytes]) -> Names:
    return np.sort(as_names(pseudonyms))


def aligned(subjects: Sequence[str], key: bytes = KEY, roster: str = "r") -> Alignment:
    return align(key, in_order([pseudonym(key, subject) for subject in subjects]), roster)


@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 7), st.randoms(use_true_random=False))
def test_rows_in_pieces_are_the_same_table(subjects: int, most: int, at_a_time: int, random: Any) -> None:
    """Duplicates, subjects with too many rows, and rows that are left out, on either side of the pieces' ends."""
    names = [
        pseudonym(KEY, f"{each}", f"{record}") for each in range(subjects) for record in range(random.randint(1, 4))
    ]
    names += random.choices(names, k=random.choice([0, 0, 3]))
    chosen = np.array([random.random() < 0.8 for _ in names])
    everything = in_order(names)

    def found(pieces_of: int) -> str:
        with patch("dprelease.arrays.PIECE_BYTES", pieces_of):
            try:
                return align(KEY, everything, "r", most, chosen).digest
            except DataRefused as error:
                return error.message

    assert found(64 * at_a_time) == found(1 << 20)
    alone = everything[chosen].tolist()
    if len(set(alone)) < len(alone):
        assert found(64).startswith(f"{len(alone) - len(set(alone))} rows repeat")


def test_a_record_extends_its_subject() -> None:
    subject, record = pseudonym(KEY, "17"), pseudonym(KEY, "17", "visit 1")
    assert len(subject) == 32
    assert len(record) == 64
    assert record.startswith(subject)
    assert record[32:] != pseudonym(KEY, "visit 1")


def records(subjects: Sequence[tuple[str, str]]) -> Names:
    return in_order([pseudonym(KEY, subject, record) for subject, record in subjects])


VISITS = [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2")]


def test_subjects_may_have_as_many_records_as_declared() -> None:
    one = align(KEY, records(VISITS), "r", rows_per_subject=2)
    two = align(KEY, records(VISITS[::-1]), "r", rows_per_subject=2)
    assert one.digest == two.digest
    subjects = subjects_in(records(VISITS))
    assert np.sum(subjects[1:] != subjects[:-1]) == 2  # records of a subject stay together


def test_the_same_record_twice_is_refused_even_where_two_are_allowed() -> None:
    with pytest.raises(DataRefused, match="1 rows repeat"):
        align(KEY, records([*VISITS, ("c", "1")]), "r", rows_per_subject=3)


def test_no_rows_and_short_keys_are_refused() -> None:
    with pytest.raises(DataRefused, match="no rows"):
        align(KEY, in_order([]), "r")
    with pytest.raises(InvalidInput, match="32 bytes, not 16"):
        align(bytes(16), records(VISITS), "r", 2)


def test_digest_written_out() -> None:
    ordered = sorted(hmac.digest(KEY, b"subject\0" + name, "sha256") for name in (b"17", b"42"))
    digest = hmac.digest(KEY, b"dprelease/alignment/v1|r|2|" + b"".join(ordered), "sha256").hex()
    assert digest == "6d24b86942a61d2253d0278065185c4040c7aa04a42578e2c4b645d931f6f5bd"
    assert aligned(["42", "17"]).digest == digest


CHARGED_AT = datetime(2026, 1, 31, tzinfo=UTC)


def test_a_charge_is_what_the_ledger_is_charged() -> None:
    spec = build_spec(TWO_PARTIES)
    for party in TWO_PARTIES:
        made = charge(spec, party, published=True)
        assert Fraction(made.mu2) == guarantee(spec).party(party).mu2
        assert (made.release, made.roster) == (spec.digest(), spec.roster)


def test_a_statement_is_believed_as_it_was_signed() -> None:
    authority, party = Authority("trial"), next(iter(TWO_PARTIES))
    made = charge(build_spec(TWO_PARTIES), party, published=False)
    signed = SignedStatement.from_bytes(authority.statement(party, made))
    assert check_statement(signed, authority.root, "trial", party).charges == (made,)
    less = signed.statement.model_copy(update={"charges": ()})
    with pytest.raises(IntegrityError, match="not valid"):
        check_statement(signed.model_copy(update={"statement": less}), authority.root, "trial", party)
    with pytest.raises(IntegrityError, match="not valid"):
        check_statement(signed, Authority("trial").root, "trial", party)
    for consortium, name in (("other", party), ("trial", "somebody")):
        with pytest.raises(IntegrityError, match="a statement of charges is for"):
            check_statement(signed, authority.root, consortium, name)


@pytest.mark.parametrize("changed", [{"mu2": "-"}, {"release": "ab"}, {"roster": ""}])
def test_what_is_no_charge_is_refused(changed: dict[str, str]) -> None:
    authority = Authority("trial")
    good = charge(build_spec(TWO_PARTIES), next(iter(TWO_PARTIES)), published=False)
    bad = good.model_construct(**(good.model_dump() | changed))
    with pytest.raises(InvalidInput):
        SignedStatement.from_bytes(
            state("trial", "north", [bad], authority.member("x", "party").key, CHARGED_AT).to_bytes()
        )


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


def signed_for_a_release() -> SignedAcceptance:
    said = signed(task(), "north")
    signature = sign(TRIO.parties["north"].key, APPROVAL, said.acceptance.to_bytes())
    return said.model_copy(update={"signature": signature})


def test_all_of_them_under_the_pins_are_enough() -> None:
    said = [signed(task(), name) for name in NAMES]
    check_all(said, task(), TRIO.root.certificate, TRIO.keys)
    assert SignedAcceptance.from_bytes(said[0].to_bytes()) == said[0]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (signed(task(nonce="77" * 32), "north"), "for another alignment run"),
        (signed(task(), "north", by="south"), "not made with the key that the alignment run names"),
        (signed_for_a_release(), "is not valid"),
    ],
)
def test_what_is_no_consent_to_this_run_is_refused(first: SignedAcceptance, words: str) -> None:
    with pytest.raises(IntegrityError, match=words):
        check_all([first, *(signed(task(), name) for name in NAMES[1:])], task(), TRIO.root.certificate)
