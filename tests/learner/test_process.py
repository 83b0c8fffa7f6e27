"""What only a process of its own can show: which modules a learner needs, and how the hub starts and stops."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.release.folder import ReleaseFolder
from learner.client.pinned_roots import TrustStore
from tests.learner.world import CONSORTIUM, PATIENCE_SECONDS, World

BLOCKED = """
import sys
for name in ("sqlalchemy", "pyarrow", "pandas", "sklearn", "scipy.stats"):
    sys.modules[name] = None
from learner.cli.main import main
main(sys.argv[1:])
"""


def learner(home: Path, *arguments: object, code: str = BLOCKED) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, "--home", home, *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@pytest.fixture
def home(world: World, tmp_path: Path) -> Path:
    TrustStore(tmp_path).add(CONSORTIUM, world.root.certificate, "h:1")
    return tmp_path


def test_a_learner_needs_no_sqlalchemy_no_pyarrow_and_nothing_slow(home: Path, folder: ReleaseFolder) -> None:
    for arguments in (
        ("fit", folder.path, "--target", "glucose"),
        ("export", folder.path, "--format", "npz", "--output", home / "x.npz"),
        ("export", folder.path, "--format", "csv", "--output", home / "x.csv"),
    ):
        done = learner(home, *arguments)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_hub_says_when_it_is_ready_and_stops_when_told(
    world: World, tmp_path: Path, number: signal.Signals
) -> None:
    config = tmp_path / "hub.toml"
    config.write_text(
        f'consortium = "{CONSORTIUM}"\ncoordinator = "localhost:1"\nlisten_parties = "localhost:0"\n'
        f'listen_public = "localhost:0"\nroot = "{world.root_path}"\ncertificate = "{world.folder}/hub.pem"\n'
        f'key = "{world.folder}/hub.key"\nreflection = true\n'
    )
    command = [sys.executable, "-m", "learner", "serve", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as hub:
        assert hub.stderr is not None
        try:
            ready = next(line for line in hub.stderr if "ready" in line)
            assert re.search(r"parties=[1-9]\d* public=[1-9]\d*", ready)
            hub.send_signal(number)
            rest = hub.stderr.read()
            assert hub.wait(PATIENCE_SECONDS) == 0, rest
            assert "stopped" in rest
        finally:
            hub.kill()
    assert (tmp_path / "storage" / "published").is_dir()


def test_a_hub_that_cannot_start_ends_with_one_sentence(tmp_path: Path) -> None:
    done = learner(tmp_path, "serve", "--config", tmp_path / "none.toml")
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot read")
    assert "Traceback" not in done.stderr
