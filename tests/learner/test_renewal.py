"""The hub's certificate before it ends: asked for, kept, shown to new connections and signed with, without a restart."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from dprelease.errors import IntegrityError
from dprelease.identity.certificates import read_identity
from dprelease.identity.signing import PrivateKey, key_fingerprint
from learner.hub.identity import HubIdentity, read_signer
from learner.hub.server import Hub
from learner.hub.settings import HubSettings
from tests.learner.world import FakeCoordinator, World, eventually
from tests.support.certificates import Member, mint, served, served_if_any

OFTEN = {"stop_seconds": 0.0, "revocation_seconds": 0.02}


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def expiring(world: World, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Settings of a hub whose certificate has some days of life left; it began 31 days ago."""

    def make(days: float) -> dict[str, Any]:
        member = mint("hub", "hub", world.root, key=world.hub.key, days=days)
        (tmp_path / "hub.pem").write_text(member.certificate)
        return {"certificate": tmp_path / "hub.pem", "limits": OFTEN}

    return make


def issue(world: World, key: PrivateKey, asked: list[str]) -> Callable[[str], str]:
    def renew(request: str) -> str:
        asked.append(request)
        return mint("hub", "hub", world.root, key=key).certificate

    return renew


def test_a_new_certificate_is_used_by_everything_without_a_restart(
    start_hub: Callable[..., Hub], coordinator: FakeCoordinator, world: World, expiring: Callable[..., dict[str, Any]]
) -> None:
    asked: list[str] = []
    settings = expiring(10)
    old = Path(settings["certificate"]).read_text()
    coordinator.renews = issue(world, world.hub.key, asked)
    hub = start_hub(**settings)
    eventually(lambda: served_if_any(hub.public_port) not in (None, old))
    renewed = settings["certificate"].read_text()
    assert served(hub.public_port) == served(hub.party_port) == renewed
    assert read_identity(renewed).fingerprint == read_identity(old).fingerprint
    looks = coordinator.looks
    coordinator.wait(lambda: coordinator.looks > looks + 2)  # the new channel to the coordinator works
    assert [call[1] for call in coordinator.named("RenewCertificate")] == [old]  # asked once
    key = x509.load_pem_x509_csr(asked[0].encode()).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key_fingerprint(key) == world.hub.identity.fingerprint


def settled(world: World, more: dict[str, Any]) -> HubSettings:
    return world.settings(Path("storage"), "localhost:1", **more)


def test_a_restart_uses_what_was_kept(world: World, expiring: Callable[..., dict[str, Any]]) -> None:
    settings = settled(world, expiring(10))
    identity = HubIdentity(settings, now)
    assert identity.renew(lambda _: issue(world, world.hub.key, [])(""))
    assert HubIdentity(settings, now).signer().certificate == identity.signer().certificate
    assert not identity.renew(lambda _: pytest.fail("nothing is due"))


def test_with_enough_left_nobody_is_asked(world: World, expiring: Callable[..., dict[str, Any]]) -> None:
    identity = HubIdentity(settled(world, expiring(16)), now)
    assert not identity.renew(lambda _: pytest.fail("nothing is due"))


@pytest.mark.parametrize("which", ["another key", "another name", "another root", "another role"])
def test_a_certificate_that_is_not_ours_is_not_taken(
    world: World, expiring: Callable[..., dict[str, Any]], which: str
) -> None:
    key = world.hub.key
    answers: dict[str, Callable[[], Member]] = {
        "another key": lambda: mint("hub", "hub", world.root),
        "another name": lambda: mint("bub", "hub", world.root, key=key),
        "another root": lambda: mint("hub", "hub", mint("trial", None), key=key),
        "another role": lambda: mint("hub", "party", world.root, key=key),
    }
    settings = settled(world, expiring(10))
    before = settings.certificate.read_text()
    identity = HubIdentity(settings, now)
    with pytest.raises(IntegrityError):
        identity.renew(lambda _: answers[which]().certificate)
    assert identity.signer().certificate == settings.certificate.read_text() == before


def test_one_that_ends_no_later_is_not_taken(world: World, expiring: Callable[..., dict[str, Any]]) -> None:
    settings = settled(world, expiring(10))
    identity = HubIdentity(settings, now)
    before = settings.certificate.read_text()
    with pytest.raises(IntegrityError, match="ends no later"):
        identity.renew(lambda _: before)
    assert settings.certificate.read_text() == before


def test_a_hub_whose_certificate_ended_says_what_to_do(world: World, expiring: Callable[..., dict[str, Any]]) -> None:
    settings = settled(world, expiring(10))
    with pytest.raises(IntegrityError, match="coordinator hub reissue"):
        read_signer(settings, now() + timedelta(days=11))
