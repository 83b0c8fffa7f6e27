"""Joining: one invite, one call over TLS pinned to the invite's root, and a budget that is fixed for good."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from dprelease.errors import (
    Conflict,
    DpReleaseError,
    IntegrityError,
    InvalidInput,
    NotFound,
    PeerUnavailable,
    Unauthenticated,
)
from dprelease.identity.certificates import read_identity
from dprelease.identity.invite import Invite
from dprelease.release.charges import Charge
from dprelease.spec_base import instant
from dprelease.wire.boundary import exit_code
from dprelease.wire.listener import Listener, listen
from dprelease.wire.v1 import enrolment_pb2, enrolment_pb2_grpc
from party_node.cli.main import main
from party_node.identity import KeyFolder
from party_node.outgoing.joining import trade
from party_node.state.ledger import Ledger
from tests.support.certificates import HOST, Authority

PARTY_TOML = """
name = "north"
roster = "cohort"
[source]
path = "rows.csv"
subject = "patient"
[columns.age]
kind = "numeric"
lower = 0
upper = 120
"""


@dataclass
class Office(enrolment_pb2_grpc.EnrolmentServiceServicer):
    """Signs what it is asked to, unless a test makes it do otherwise."""

    authority: Authority
    asked: list[enrolment_pb2.EnrolRequest] = field(default_factory=list)
    certify: Callable[[Any], str] | None = None
    raises: DpReleaseError | None = None
    charges: tuple[Charge, ...] = ()
    delta: float = 0.0

    def Enrol(self, request: Any, context: Any) -> enrolment_pb2.EnrolResponse:
        self.asked.append(request)
        if self.raises is not None:
            raise self.raises
        key = x509.load_pem_x509_csr(request.signing_request.encode()).public_key()
        certificate = (self.certify or (lambda key: self.authority.issue("north", "party", key)))(key)
        return enrolment_pb2.EnrolResponse(
            certificate=certificate,
            root="a root that nobody pinned",
            consortium="a name that nobody asked for",
            coordinator="office.example.org:7443",
            hub="hub.example.org:7443",
            charges=self.authority.statement("north", *self.charges),
            delta=self.delta,
        )


@pytest.fixture
def office(authority: Authority) -> Office:
    return Office(authority)


@pytest.fixture
def listener(office: Office, authority: Authority) -> Iterator[Listener]:
    add = enrolment_pb2_grpc.add_EnrolmentServiceServicer_to_server
    member = authority.member("office", "coordinator")
    listener = listen(
        f"{HOST}:0", member.credentials(authority.root), [lambda server: add(office, server)], mutual=False
    )
    yield listener
    listener.stop()


@pytest.fixture
def invite(listener: Listener, authority: Authority) -> Invite:
    return Invite(
        consortium="trial",
        party="north",
        address=f"{HOST}:{listener.port}",
        root=authority.root,
        secret="s3cret",
        cap_mu2="1/10",
        expires=instant(datetime.now(UTC) + timedelta(hours=1)),
    )


@pytest.fixture
def identity(folder: Path) -> KeyFolder:
    return KeyFolder(folder / "state")


def enrol(folder: Path, invite: Invite, *options: str) -> Result:
    (folder / "party.toml").write_text(PARTY_TOML)
    return CliRunner().invoke(main, ["enrol", invite.token(), *options, "--config", str(folder / "party.toml")])


@pytest.mark.parametrize(("told", "shown"), [(1e-5, "1e-05"), (0.0, "1e-06"), (math.nan, "1e-06"), (2.0, "1e-06")])
def test_a_budget_is_shown_at_the_delta_of_the_consortium(
    folder: Path, invite: Invite, office: Office, told: float, shown: str
) -> None:
    office.delta = told
    result = enrol(folder, invite)
    config = ["--config", str(folder / "party.toml")]
    account = CliRunner().invoke(main, ["ledger", "show", *config])
    for each in (result, account):
        assert f"at delta = {shown}" in each.output


def test_an_invite_becomes_a_certificate_a_budget_and_two_addresses(
    folder: Path, invite: Invite, office: Office, identity: KeyFolder
) -> None:
    result = enrol(folder, invite)
    assert result.exit_code == 0, result.output
    enrolment = identity.enrolment()
    assert (enrolment.party, enrolment.consortium, enrolment.root) == ("north", "trial", invite.root)
    assert (enrolment.coordinator, enrolment.hub) == ("office.example.org:7443", "hub.example.org:7443")
    assert read_identity(enrolment.certificate).fingerprint == identity.fingerprint()
    assert identity.fingerprint() in result.output
    balance = Ledger(folder / "state" / "ledger.sqlite").balance("cohort")
    assert (str(balance.cap), balance.charged, balance.reserved) == ("1/10", 0, 0)
    (asked,) = office.asked
    assert asked.secret == "s3cret"
    assert "PRIVATE" not in asked.signing_request
    assert identity.key().public_key() == x509.load_pem_x509_csr(asked.signing_request.encode()).public_key()


def test_enrolling_again_renews_the_certificate_and_keeps_key_and_budget(
    folder: Path, invite: Invite, identity: KeyFolder
) -> None:
    assert enrol(folder, invite).exit_code == 0
    before = identity.enrolment()
    assert enrol(folder, invite).exit_code == 0
    after = identity.enrolment()
    assert after.certificate != before.certificate
    assert read_identity(after.certificate).fingerprint == read_identity(before.certificate).fingerprint
    assert [entry.kind for entry in Ledger(folder / "state" / "ledger.sqlite").entries()] == ["open"]


def test_another_cap_is_refused_before_anybody_is_asked(
    folder: Path, invite: Invite, office: Office, identity: KeyFolder
) -> None:
    assert enrol(folder, invite).exit_code == 0
    before = identity.enrolment()
    result = enrol(folder, invite.model_copy(update={"cap_mu2": "1/5"}))
    assert (result.exit_code, len(office.asked)) == (exit_code(Conflict("")), 1)
    assert "another cap" in result.stderr
    assert identity.enrolment() == before


def test_a_ledger_that_is_there_fixes_the_cap_too(
    folder: Path, invite: Invite, office: Office, identity: KeyFolder
) -> None:
    assert enrol(folder, invite).exit_code == 0
    (folder / "state" / "identity" / "enrolment.json").unlink()
    result = enrol(folder, invite.model_copy(update={"cap_mu2": "1/5"}))
    assert (result.exit_code, len(office.asked)) == (exit_code(Conflict("")), 1)
    assert str(Ledger(folder / "state" / "ledger.sqlite").balance("cohort").cap) == "1/10"


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"party": "south"}, InvalidInput, "the invite is for south"),
        ({"expires": "2026-01-01T00:00:00Z"}, InvalidInput, "this invite has lapsed"),
        ({"root": Authority("trial").root}, PeerUnavailable, "not from the expected consortium"),
        ({"address": "no port"}, InvalidInput, "is not host:port"),
    ],
)
def test_an_invite_that_does_not_fit_asks_nobody(
    identity: KeyFolder, invite: Invite, office: Office, changes: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        trade(invite.model_copy(update=changes), identity, "north")
    assert office.asked == []
    with pytest.raises(DpReleaseError, match="not enrolled"):
        identity.enrolment()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "south"}, InvalidInput),
        ({"role": "hub"}, IntegrityError),
        ({"lasting": timedelta(days=-1)}, IntegrityError),
        ({"authority": True}, IntegrityError),
    ],
    ids=str,
)
def test_a_certificate_that_is_not_ours_is_not_kept(
    identity: KeyFolder, invite: Invite, office: Office, changes: dict[str, Any], error: type[Exception]
) -> None:
    office.certify = lambda key: office.authority.issue(**{"name": "north", "role": "party", "key": key, **changes})
    with pytest.raises(error):
        trade(invite, identity, "north")
    with pytest.raises(DpReleaseError, match="not enrolled"):
        identity.enrolment()


def test_an_office_that_does_not_know_the_invite(folder: Path, invite: Invite, office: Office) -> None:
    office.raises = Unauthenticated("used already")
    result = enrol(folder, invite)
    assert result.exit_code == exit_code(Unauthenticated(""))
    assert result.stderr == (
        "error: the coordinator: The certificate or invite is not valid. "
        "An invite serves once and lapses: ask the consortium's office for a new one\n"
    )


SEEN = Charge(release="ab" * 32, roster="cohort", mu2="1/100", exposure="1/50", published=True)
ELSEWHERE = Charge(release="cd" * 32, roster="another", mu2="1/50", exposure="1/50", published=True)


def test_a_new_ledger_begins_with_what_the_office_has_seen_charged(
    folder: Path, invite: Invite, office: Office
) -> None:
    office.charges = (SEEN, ELSEWHERE)
    assert enrol(folder, invite).exit_code == 0
    ledger = Ledger(folder / "state" / "ledger.sqlite")
    assert ledger.balance("cohort").charged == Fraction(1, 100)
    assert ledger.balance("cohort").exposed == Fraction(1, 50)
    assert ledger.stage("cohort", SEEN.release) == "close"
    assert enrol(folder, invite).exit_code == 0
    assert ledger.balance("cohort").charged == Fraction(1, 100)
    opened = CliRunner().invoke(main, ["ledger", "open", "another", "--config", str(folder / "party.toml")])
    assert opened.exit_code == 0, opened.output
    assert ledger.balance("another").charged == Fraction(1, 50)


def test_a_statement_that_the_root_did_not_sign_for_us_is_not_believed(
    folder: Path, invite: Invite, office: Office, identity: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statement in (Authority("trial").statement("north"), office.authority.statement("south")):
        monkeypatch.setattr(office.authority, "statement", lambda *_, given=statement: given)
        result = enrol(folder, invite)
        assert result.exit_code == exit_code(IntegrityError("")), result.output
        with pytest.raises(NotFound):
            identity.enrolment()
