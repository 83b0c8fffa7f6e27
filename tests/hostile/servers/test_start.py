"""A certificate, key or root that is empty or cut short: one clear error at the start of each role, and no abort."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import Site

TRY = """
import json, sys
from pathlib import Path
from importlib import import_module
role, words, files = json.loads(sys.argv[1])
main = import_module(role).main
for name in files:
    path = Path(name)
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 40):
        path.write_bytes(whole[:size])
        try:
            main(words)
        except SystemExit as ended:
            print(json.dumps([path.name, size, ended.code]), flush=True)
        finally:
            path.write_bytes(whole)
"""


def tried(role: str, words: list[str], files: list[str], folder: Path) -> tuple[list[list[object]], list[str]]:
    """Start a role with each file cut at several lengths; exit codes, and lines of error."""
    command = [sys.executable, "-c", TRY, json.dumps([role, words, files])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.splitlines()


@row("root, certificate or key empty or cut", "start of coordinator and hub", "one line of error, exit code 2")
@pytest.mark.parametrize("role", ["coordinator", "hub"])
def test_a_role_says_what_is_wrong_with_a_file_that_was_cut(site: Site, role: str, tmp_path: Path) -> None:
    office = Path(shutil.copytree(site.processes.office, tmp_path / "office"))
    folder, module, words, files = {
        "hub": (
            office / "hub",
            "learner.cli.main",
            ["serve", "--config", "hub.toml"],
            ["root.pem", "hub.pem", "hub.key"],
        ),
        "coordinator": (
            office,
            "coordinator.cli.main",
            ["serve"],
            ["root.pem", "root.key", "coordinator.pem", "coordinator.key"],
        ),
    }[role]
    codes, lines = tried(module, words, files, folder)
    assert len(codes) == 4 * len(files)
    assert {code for _, _, code in codes} == {2}, codes
    assert [line.startswith("error: ") for line in lines] == [True] * len(codes), lines


CONNECT = """
import sys
from dprelease.errors import InvalidInput
from dprelease.wire.listener import listen
from dprelease.wire.transport import Credentials, connect
root, certificate, key = (open(name, "rb").read() for name in sys.argv[1:])
whole = {"root": root, "certificate": certificate, "key": key}
for part, pem in whole.items():
    for size in (0, 1, len(pem) // 2, len(pem) - 40):
        cut = Credentials(**{**whole, part: pem[:size]})
        for attempt in (
            lambda: connect("localhost:1", cut).close(),
            lambda: listen("localhost:0", cut, [], mutual=True).stop(),
        ):
            try:
                attempt()
                print("made", part, size, flush=True)
            except InvalidInput:
                print("refused", part, size, flush=True)
"""


@row("the same", "`connect` and `listen`", "`InvalidInput`; gRPC would end the process")
def test_neither_connect_nor_listen_ends_the_process(site: Site) -> None:
    hub = site.processes.hub
    command = [sys.executable, "-c", CONNECT, *(str(hub / name) for name in ("root.pem", "hub.pem", "hub.key"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 24
    assert [line for line in lines if line.startswith("made")] == []
