"""Invites and the caps that go with them; the call itself is tested over the wire in test_service.py."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from coordinator.lifecycle import Approved
from coordinator.service import enrolment
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.errors import Conflict, InvalidInput, Unauthenticated
from dprelease.files.settings import read_settings
from dprelease.identity.certificates import read_identity, signing_request
from dprelease.identity.invite import Invite
from dprelease.identity.signing import new_private_key
from dprelease.privacy.gaussian import epsilon_of
from dprelease.spec_base import moment
from dprelease.wire.v1.enrolment_pb2 import EnrolRequest
from tests.coordinator.office import NOW, Office, catalogue, founded

DAY = timedelta(hours=24)
THIRD = Fraction(1, 3)


@pytest.fixture
def settings(tmp_path: Path) -> CoordinatorSettings:
    return read_settings(founded(tmp_path / "office", NOW).settings, CoordinatorSettings)


@pytest.fixture
def office(store: Store) -> Office:
    return Office(store)


def invite(
    office: Office, settings: CoordinatorSettings, party: str, share: Fraction | None, now: datetime = NOW
) -> Invite:
    cap = None if share is None else enrolment.share_of(office.store.consortium, share)
    return enrolment.invite(office.store, settings, office.authority.root_pem, party, cap, now, DAY)


def join(office: Office, settings: CoordinatorSettings, made: Invite, subject: str = "whoever") -> str:
    request = EnrolRequest(secret=made.secret, signing_request=signing_request(subject, new_private_key()).decode())
    return enrolment.enrol(request, office.store, office.authority, settings, NOW).certificate


def test_an_invite_carries_what_a_hospital_needs(office: Office, settings: CoordinatorSettings) -> None:
    made = Invite.from_token(invite(office, settings, "north", THIRD).token())
    assert (made.consortium, made.party) == ("Trio", "north")
    assert made.address == "localhost:7442"
    assert made.root == office.authority.root_pem.decode()
    assert Fraction(made.cap_mu2) == office.store.consortium.mu2 / 3
    assert moment(made.expires) == NOW + DAY
    assert invite(office, settings, "north", THIRD).secret != made.secret


def test_the_name_in_the_certificate_is_the_invites(office: Office, settings: CoordinatorSettings) -> None:
    certificate = join(office, settings, invite(office, settings, "north", THIRD), subject="south")
    assert read_identity(certificate).name == "north"
    with office.store.reading() as tx:
        known = tx.members.find("north")
    assert known is not None
    assert known.certificate == certificate
    assert known.cap_mu2 == office.store.consortium.mu2 / 3


def test_caps_sum_to_at_most_the_consortiums(office: Office, settings: CoordinatorSettings) -> None:
    join(office, settings, invite(office, settings, "north", THIRD))
    invite(office, settings, "south", THIRD)
    with pytest.raises(Conflict, match=r"0\.3333 of it is left, 0\.5 was asked for"):
        invite(office, settings, "west", Fraction(1, 2))
    invite(office, settings, "west", THIRD)
    with pytest.raises(Conflict, match="0 of it is left"):
        invite(office, settings, "east", Fraction(1, 10**9))
    with office.store.reading() as tx:
        assert sum(enrolment.caps(tx, NOW).values()) == office.store.consortium.mu2


def test_a_lapsed_invite_frees_its_cap(office: Office, settings: CoordinatorSettings) -> None:
    old = invite(office, settings, "north", Fraction(1))
    invite(office, settings, "south", Fraction(1), now=NOW + DAY)
    with pytest.raises(Unauthenticated):
        enrolment.enrol(
            EnrolRequest(secret=old.secret, signing_request="late"), office.store, office.authority, settings, NOW + DAY
        )


def test_inviting_again_before_enrolment_replaces_invite_and_cap(office: Office, settings: CoordinatorSettings) -> None:
    first = invite(office, settings, "north", Fraction(1))
    second = invite(office, settings, "north", THIRD)
    assert Fraction(second.cap_mu2) == office.store.consortium.mu2 / 3
    assert invite(office, settings, "north", None).cap_mu2 == second.cap_mu2
    invite(office, settings, "south", Fraction(2, 3))
    with pytest.raises(Unauthenticated):
        join(office, settings, first)


def test_an_enrolled_party_keeps_its_cap(office: Office, settings: CoordinatorSettings) -> None:
    first = join(office, settings, invite(office, settings, "north", THIRD))
    assert Fraction(invite(office, settings, "north", None).cap_mu2) == office.store.consortium.mu2 / 3
    with pytest.raises(Conflict, match="was fixed when it joined"):
        invite(office, settings, "north", Fraction(1, 2))
    second = join(office, settings, invite(office, settings, "north", THIRD))
    assert read_identity(second).serial != read_identity(first).serial
    with office.store.reading() as tx:
        assert enrolment.caps(tx, NOW) == {"north": office.store.consortium.mu2 / 3}


def test_a_new_party_needs_a_cap_and_a_proper_name(office: Office, settings: CoordinatorSettings) -> None:
    with pytest.raises(InvalidInput, match="--share 1/3"):
        invite(office, settings, "north", None)
    with pytest.raises(InvalidInput, match="cannot name a hospital"):
        invite(office, settings, "no spaces please", THIRD)
    for part in (Fraction(0), Fraction(-1), Fraction(3, 2)):
        with pytest.raises(InvalidInput, match="share"):
            invite(office, settings, "north", part)
    with office.store.reading() as tx:
        assert tx.members.invitations(NOW) == ()


def test_a_cap_may_be_said_as_an_epsilon(office: Office) -> None:
    cap = enrolment.cap_of_epsilon(office.store.consortium, 1.5)
    assert epsilon_of(math.sqrt(cap), 1e-6) == pytest.approx(1.5, rel=1e-9)
    assert epsilon_of(math.sqrt(cap), 1e-6) <= 1.5
    with pytest.raises(InvalidInput):
        enrolment.cap_of_epsilon(office.store.consortium, 0.0)


def test_a_revoked_partys_cap_is_free_only_if_it_can_have_spent_nothing(
    office: Office, settings: CoordinatorSettings
) -> None:
    office.enrol("north", "south", share=Fraction(1, 2))
    office.store.revoke("north", NOW)
    invite(office, settings, "west", Fraction(1, 2))
    office.store.revoke("west", NOW)
    office.enrol("north", share=Fraction(1, 2))
    office.report(catalogue("north"), catalogue("south"))
    release = office.propose(epsilon=0.5)
    with office.store.writing() as tx:
        for party in ("north", "south"):
            tx.releases.advance(release.digest, Approved(party), NOW, b"signed")
    office.store.revoke("north", NOW)
    with pytest.raises(Conflict, match="0 of it is left"):
        invite(office, settings, "west", Fraction(1, 10))
    assert Fraction(invite(office, settings, "north", None).cap_mu2) == office.store.consortium.mu2 / 2


def test_a_refused_signing_request_leaves_the_invite_good(office: Office, settings: CoordinatorSettings) -> None:
    made = invite(office, settings, "north", THIRD)
    with pytest.raises(InvalidInput):
        enrolment.enrol(
            EnrolRequest(secret=made.secret, signing_request="rubbish"), office.store, office.authority, settings, NOW
        )
    join(office, settings, made)
