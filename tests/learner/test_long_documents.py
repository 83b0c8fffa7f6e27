"""Documents of a mirror that are short to send and long to read: a learner needs little memory for them, and little time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.release.manifest import Manifest
from learner.client.mirror import MOST_INDEX_BYTES
from learner.listing import INDEX
from tests.learner.world import CONSORTIUM, World
from tests.support.bombs import KINDS, bomb
from tests.support.web import serving

DIGEST = "0f" * 32
BEGINNING = b'{"format":1,"releases":['
TIME = "2026-01-31T12:00:00Z"
LINE = {"columns": 40, "digest": DIGEST, "published": TIME, "rows": 20000, "size": 6400000, "title": "x" * 40}

READING = """
import os, sys
from dprelease.errors import DpReleaseError
from learner.client.download import consortium_of
from learner.client.mirror import Mirror
from tests.support.measured import measured, processor_seconds
refused = 0
for url in sys.argv[1:]:
    with Mirror.dial(url) as mirror:
        for ask in (lambda: list(mirror.releases()), lambda: consortium_of(mirror, "0f" * 32)):
            try:
                ask()
            except DpReleaseError as error:
                refused += len(error.message) < 2000
print(refused, processor_seconds(os.getpid()), measured(os.getpid(), "VmHWM"))
"""
COMMAND = """
import os, sys
from learner.cli.main import main
from tests.support.measured import measured, processor_seconds
main(sys.argv[1:], standalone_mode=False)
print(processor_seconds(os.getpid()), measured(os.getpid(), "VmHWM"))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only there the kernel tells how much memory a process had"
)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)


def test_lists_and_manifests_that_are_long_to_read_are_refused(tmp_path: Path) -> None:
    for number, kind in enumerate(KINDS):
        folder = tmp_path / str(number) / DIGEST
        folder.mkdir(parents=True)
        (folder.parent / INDEX).write_bytes(BEGINNING + bomb(kind, MOST_INDEX_BYTES // 4) + b"]}")
        (folder / "manifest.json").write_bytes(b"{" + bomb(kind, Manifest.most_bytes - 1).lstrip(b"[{"))
        (folder / "manifest.sig").write_bytes(b"00")
    with serving(tmp_path) as web:
        told = run(READING, *(f"{web.url}/{number}" for number in range(len(KINDS)))).stdout
    refused, seconds, peak = told.split()
    assert int(refused) == 2 * len(KINDS)
    assert float(seconds) < 10
    assert int(peak) < 250 << 10


def test_a_list_of_very_many_releases_is_shown_at_once(tmp_path: Path, world: World) -> None:
    line = json.dumps(LINE, separators=(",", ":")).encode()
    lines = (MOST_INDEX_BYTES - 100) // (len(line) + 1)
    (tmp_path / INDEX).write_bytes(BEGINNING + b",".join([line] * lines) + b"]}")
    home = ("--home", str(tmp_path / "home"))
    with serving(tmp_path) as web:
        trust = ("trust", "add", CONSORTIUM, "--root", str(world.root_path), "--yes", "--mirror", web.url)
        run(COMMAND, *home, *trust)
        shown = run(COMMAND, *home, "list")
    assert shown.stderr == "these are the newest 1,000; learner list --json prints all\n"
    assert shown.stdout.count(TIME) == 1000
    seconds, peak = shown.stdout.split()[-2:]
    assert float(seconds) < 10
    assert int(peak) < 250 << 10
