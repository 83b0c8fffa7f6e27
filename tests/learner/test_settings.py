from pathlib import Path

from dprelease.files.settings import read_settings
from learner.hub.settings import HubSettings

SMALLEST = 'consortium = "trial"\ncoordinator = "coordinator.example.org:7441"\n'


def test_two_lines_are_enough_and_paths_start_at_the_file(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(SMALLEST)
    settings = read_settings(file, HubSettings)
    assert settings.storage == tmp_path / "storage"
    assert (settings.root, settings.certificate, settings.key) == (
        tmp_path / "root.pem",
        tmp_path / "hub.pem",
        tmp_path / "hub.key",
    )
    assert (settings.listen_parties, settings.listen_public) == ("0.0.0.0:7443", "0.0.0.0:7444")
    assert not settings.reflection
