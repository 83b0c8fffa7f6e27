"""What `coordinator init` leaves behind, and that it never writes over anything."""

import stat
from pathlib import Path
from typing import Any

import pytest

from coordinator.authority.authority import Authority
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.errors import InvalidInput, PeerUnavailable
from dprelease.files.settings import read_settings
from dprelease.identity.certificates import certificate_fingerprint, check_certificate
from dprelease.identity.signing import load_private_key
from tests.coordinator.office import NOW, founded


def test_everything_is_there_and_fits_together(tmp_path: Path) -> None:
    made = founded(tmp_path / "office", NOW, hub_hosts=("hub.example.org",))
    settings = read_settings(made.settings, CoordinatorSettings)
    authority = Authority.load(settings.root, settings.authority_key)
    assert made.fingerprint == certificate_fingerprint(authority.root_pem)
    coordinator = check_certificate(settings.certificate.read_bytes(), authority.root_pem, NOW, "coordinator")
    assert coordinator.key.public_numbers() == load_private_key(settings.key).public_key().public_numbers()
    hub = check_certificate((made.hub / "hub.pem").read_bytes(), authority.root_pem, NOW, "hub")
    assert hub.key.public_numbers() == load_private_key(made.hub / "hub.key").public_key().public_numbers()
    assert (made.hub / "root.pem").read_bytes() == authority.root_pem
    store = Store.open(settings.database)
    assert store.consortium.name == settings.consortium == "Trio"
    assert str(store.consortium.mu2) == made.mu2
    store.close()


def test_private_keys_are_private(tmp_path: Path) -> None:
    founded(tmp_path / "office", NOW)
    keys = sorted((tmp_path / "office").rglob("*.key"))
    assert [path.name for path in keys] == ["coordinator.key", "hub.key", "root.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert stat.S_IMODE((tmp_path / "office").stat().st_mode) == 0o700


def test_nothing_is_ever_written_over(tmp_path: Path) -> None:
    founded(tmp_path / "office", NOW)
    before = {path: path.read_bytes() for path in (tmp_path / "office").rglob("*") if path.is_file()}
    with pytest.raises(InvalidInput, match="left as it is"):
        founded(tmp_path / "office", NOW)
    assert {path: path.read_bytes() for path in (tmp_path / "office").rglob("*") if path.is_file()} == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="left as it is"):
        founded(tmp_path / "file", NOW)


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "no spaces please"},
        {"name": "FAKE-trio"},
        {"hosts": ("https://office",)},
        {"hub_hosts": ("",)},
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"port": 70000},
        {"database": "mysql://host/db"},
    ],
)
def test_a_plan_that_cannot_work_leaves_nothing(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        founded(tmp_path / "office", NOW, **changed)
    assert not (tmp_path / "office").exists()


def test_a_database_that_does_not_answer_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(PeerUnavailable):
        founded(tmp_path / "office", NOW, database=f"sqlite:///{tmp_path / 'folder'}")
    assert not (tmp_path / "office").exists()
