"""Agreement, of releases: all parties, over this very spec, under the keys that it names and people pinned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from dprelease.agreement import check_all, check_consent
from dprelease.canonical import sha256
from dprelease.errors import IntegrityError
from dprelease.identity.signing import BLOCK, sign
from dprelease.release.approval import Approval, SignedApproval, approve, commit, new_salt
from tests.support.certificates import NOW, certify
from tests.support.specs import TWO_PARTIES, build_spec, new_consortium, sign_approval

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


def by_another_key() -> SignedApproval:
    # The consortium's authority certifies a second key under the party's name.
    return sign_approval(certify("north", "party", by=TRIAL.root), SPEC)


WRONG: dict[str, tuple[Callable[[], SignedApproval], str]] = {
    "another spec": (lambda: sign_approval(NORTH, build_spec(keys=TRIAL.keys, title="x")), "for another release"),
    "a stranger": (lambda: sign_approval(certify("west", "party", by=TRIAL.root), SPEC), "for another release"),
    "another commitment": (lambda: altered(commitment="0" * 64), "not valid"),
    "another time": (lambda: altered(approved="2026-03-01T12:00:01Z"), "not valid"),
    "another purpose": (signed_again, "not valid"),
    "the name of another": (lambda: altered(party="south"), "not made with the key"),
    "another key": (by_another_key, "not made with the key"),
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
    "another root": (lambda: sign_approval(certify("north", "party", key=NORTH.key), SPEC), "not issued by"),
    "another role": (
        lambda: sign_approval(certify("north", "hub", by=TRIAL.root, key=NORTH.key), SPEC),
        "holds a hub certificate",
    ),
    "an expired certificate": (
        lambda: approve(SPEC, "north", "0" * 64, NORTH.key, NORTH.certificate, NOW + timedelta(days=91)),
        "not valid at",
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


def test_a_coordinator_that_shows_each_party_its_own_spec_is_found_out() -> None:
    # Each spec gives its reader nearly the whole budget; neither party's consent fits the other's spec.
    to_south = build_spec(keys=TRIAL.keys, epsilon=0.9)
    shown = [sign_approval(NORTH, SPEC), sign_approval(SOUTH, to_south)]
    for spec in (SPEC, to_south):
        with pytest.raises(IntegrityError, match="for another release"):
            check_all(shown, spec, ROOT)


def test_a_commitment_binds_the_codes_and_hides_behind_its_salt() -> None:
    salt, codes = bytes(32), sha256(b"codes")
    assert commit(salt, codes) == commit(salt, codes)
    assert commit(salt, codes) == sha256(b"dprelease/commitment/v1" + salt + bytes.fromhex(codes))
    assert len({commit(salt, codes), commit(new_salt(), codes), commit(salt, sha256(b"others"))}) == 3
    assert len({new_salt() for _ in range(100)}) == 100
    assert len(new_salt()) == 32
