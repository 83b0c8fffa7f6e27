"""Nothing secret is drawn twice when a process is copied, as a restored snapshot of a machine copies it."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[object]]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("to copy a process under its own number takes Linux and root")
    command = [sys.executable, "-m", "tests.support.process_copy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "no namespace" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def test_the_copy_is_one(drawn: dict[str, list[object]]) -> None:
    """The same process number, and a generator that keeps a state in the process goes on alike in both."""
    assert drawn["number"][0] == drawn["number"][1]
    assert drawn["opendp"][0] == drawn["opendp"][1]


@pytest.mark.parametrize("kind", ["noise", "session key", "sealed"])
def test_a_copied_process_draws_other_secrets(drawn: dict[str, list[object]], kind: str) -> None:
    original, copy = drawn[kind]
    assert original != copy
