"""One hospital's names of levels, through the message of an error, to a terminal and into a file: none does anything there."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from learner.cli.main import main
from tests.learner.moments import opened
from tests.learner.world import World
from tests.support.specs import TWO_PARTIES, categorical

HOSTILE = ("\x1b]0;owned\x07", "\x1b[2J", "x\nerror: FORGED", "\u202eevil", "a\0b", "\x9b31m")
LEVELS = (*HOSTILE, *(f"honest {at}" for at in range(20)))


def said(command: list[str], *, terminal: bool) -> bytes:
    """What a command that fails writes, all of it."""
    if not terminal:
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2
        return done.output_bytes
    line = [sys.executable, "-m", "learner", *command]
    ours, theirs = pty.openpty()
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        try:
            while piece := os.read(ours, 1 << 16):
                written += piece
        except OSError:  # the other end was closed
            pass
    os.close(ours)
    assert process.returncode == 2
    return written.replace(b"\r\n", b"\n")


@pytest.mark.parametrize(
    ("mechanism", "terminal"), [("mixed", True), ("moments", False)], ids=["mixed, to a terminal", "moments, piped"]
)
def test_names_in_the_message_of_an_error_are_spelled_out_and_few(
    tmp_path: Path, mechanism: str, terminal: bool
) -> None:
    columns = {"north": TWO_PARTIES["north"], "south": (*TWO_PARTIES["south"], categorical("stage", *LEVELS))}
    release = opened(World(tmp_path, columns), tmp_path, mechanism=mechanism).folder.path
    command = ["--home", str(tmp_path / "home"), "fit", str(release), "--target", "nosuch"]
    (line,) = said(command, terminal=terminal).decode().splitlines()
    assert line.isprintable()
    assert line.startswith(r"error: not in this release: nosuch; it has age, sex=female, ")
    assert r"stage=\x1b]0;owned\x07, stage=\x1b[2J, stage=x\nerror: FORGED, stage=\u202eevil, " in line
    assert line.endswith(" and 22 more")
    assert line.count(", ") == 9
