"""A certificate that is about to end: renewed by the daemon over the same key, and everything goes on."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from dprelease.errors import IntegrityError, PeerUnavailable, Unauthenticated
from dprelease.files.durable import write_durably
from dprelease.identity.certificates import read_identity
from dprelease.identity.signing import key_fingerprint
from dprelease.wire.transport import Credentials, connect
from party_node.outgoing.hub import check_reachable
from party_node.outgoing.office import Coordinator
from party_node.state.journal import Status
from tests.party_node.world import Hospital, World, full_for

LATER = timedelta(days=90)


def give(hospital: Hospital, lasting: timedelta) -> str:
    """Put another certificate over the hospital's key in its folder; it began 30 days ago."""
    identity = hospital.hospital_state().identity
    key = identity.key().public_key()
    certificate = hospital.world.authority.issue(hospital.member.name, "party", key, lasting=lasting)
    changed = identity.enrolment().model_copy(update={"certificate": certificate})
    write_durably(hospital.folder / "state" / "identity" / "enrolment.json", changed.to_bytes())
    return certificate


def certificate(hospital: Hospital) -> str:
    return hospital.hospital_state().enrolment.certificate


@pytest.fixture
def renewing(world: World) -> list[str]:
    """The coordinator gives north a certificate over the key in the request; the requests."""
    asked: list[str] = []

    def renew(request: str) -> str:
        asked.append(request)
        key = x509.load_pem_x509_csr(request.encode()).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return world.authority.issue("north", "party", key, lasting=LATER)

    world.coordinator.renews = renew
    return asked


def test_little_life_left_means_a_new_certificate_over_the_same_key(world: World, renewing: list[str]) -> None:
    old = give(world.north, timedelta(days=10))
    before = world.north.hospital_state().identity.fingerprint()
    world.north.cycle(2)
    new = certificate(world.north)
    assert len(renewing) == 1
    assert new != old
    assert read_identity(new).fingerprint == before == key_fingerprint(world.members["north"].key.public_key())
    assert read_identity(new).expires > read_identity(old).expires


def test_a_release_goes_on_across_a_renewal(world: World, renewing: list[str]) -> None:
    """Approved under the old certificate, computed, sealed and sent under the new one."""
    old = give(world.north, timedelta(days=10))
    release = world.propose()
    world.coordinator.renews = None  # not yet
    world.north.cycle(2)
    record = world.north.record(release)
    assert record.consent is not None
    assert old.encode() in record.consent.replace(b"\\n", b"\n")
    world.south_approves(release)
    world.coordinator.renews = lambda request: world.authority.issue(
        "north", "party", world.members["north"].key.public_key(), lasting=LATER
    )
    world.north.cycle(2)
    assert certificate(world.north) != old
    assert world.north.record(release).status is Status.DELIVERED
    assert world.north.record(release).consent == record.consent


def test_the_new_certificate_is_shown_from_the_next_dial_on(world: World, renewing: list[str]) -> None:
    old = give(world.north, timedelta(days=10))
    stop = threading.Event()
    daemon = threading.Thread(target=world.north.daemon().run, args=(stop,))
    daemon.start()
    try:
        new = ""
        while new in ("", old):  # ends with the first call on the next connection
            world.coordinator.asked.clear()
            assert world.coordinator.asked.wait(60)
            new = world.coordinator.shown
    finally:
        stop.set()
        daemon.join()
    assert new == certificate(world.north)
    assert len(renewing) == 1


@pytest.mark.parametrize("wrong", ["key", "name", "root", "end", "rubbish", "disk"])
def test_a_wrong_answer_or_a_full_disk_changes_nothing_and_holds_up_nothing(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    old = give(world.north, timedelta(days=10))
    key = world.members["north"].key.public_key()
    answers: dict[str, Callable[[], str]] = {
        "key": lambda: world.authority.issue("north", "party", world.members["south"].key.public_key(), lasting=LATER),
        "name": lambda: world.authority.issue("south", "party", key, lasting=LATER),
        "root": lambda: type(world.authority)("trial").issue("north", "party", key, lasting=LATER),
        "end": lambda: old,
        "rubbish": lambda: "rubbish",
        "disk": lambda: world.authority.issue("north", "party", key, lasting=LATER),
    }
    if wrong == "disk":
        monkeypatch.setattr("dprelease.files.durable.os.open", full_for("enrolment.json"))
    world.coordinator.renews = lambda request: answers[wrong]()
    release = world.propose()
    daemon = world.north.daemon()
    with world.north.dialled() as coordinator:
        for _ in range(3):
            daemon.cycle(coordinator)
    assert certificate(world.north) == old
    assert world.north.record(release).consent is not None
    assert caplog.text.count("the certificate was not renewed") == 1  # told once, not every few seconds
    assert "party-node enrol TOKEN" in caplog.text


def test_a_certificate_over_a_key_that_was_moved_away_is_not_shown(world: World) -> None:
    give(world.north, timedelta(days=10))
    (world.north.folder / "state" / "identity" / "key.pem").unlink()
    with pytest.raises(Unauthenticated, match=r"over another key than .*key\.pem.* party-node enrol TOKEN"):
        world.north.hospital_state().identity.credentials()


def test_an_expired_certificate_is_told_here_with_what_to_do(
    world: World, renewing: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    expired = give(world.north, timedelta(seconds=-1))
    with pytest.raises(Unauthenticated, match=r"expired at .* party-node enrol TOKEN"):
        world.north.hospital_state().identity.credentials()
    result = world.north.run("check", "--json")
    assert "party-node enrol TOKEN" in result.stdout
    caplog.set_level(logging.WARNING)
    stop = threading.Event()
    said = threading.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "party-node enrol TOKEN" in record.getMessage():
                said.set()

    handler = Heard()
    logging.getLogger("party_node.daemon").addHandler(handler)
    daemon = threading.Thread(target=world.north.daemon().run, args=(stop,))
    daemon.start()
    try:
        assert said.wait(60)
        give(world.north, timedelta(days=20))  # as `party-node enrol` does, while the daemon runs
        assert world.coordinator.asked.wait(60)
    finally:
        stop.set()
        daemon.join()
        logging.getLogger("party_node.daemon").removeHandler(handler)
    assert expired not in world.coordinator.shown


def test_both_servers_refuse_an_expired_certificate(world: World) -> None:
    expired = give(world.north, timedelta(seconds=-1))
    whole = world.members["north"].credentials(world.authority.root)
    late = Credentials(whole.root, expired.encode(), whole.key)
    with (
        Coordinator.dial(world.office.address, late) as coordinator,
        pytest.raises(PeerUnavailable, match="it may have expired"),
    ):
        coordinator.releases.pending()
    with connect(world.shelf.address, late) as hub, pytest.raises(PeerUnavailable, match="it may have expired"):
        check_reachable(hub, "the hub")
    assert world.coordinator.received == []


def test_a_kept_certificate_is_checked_first(world: World) -> None:
    identity = world.north.hospital_state().identity
    with pytest.raises(IntegrityError):
        identity.keep_certificate(world.members["south"].certificate)
    assert identity.enrolment().certificate == world.members["north"].certificate
