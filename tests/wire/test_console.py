"""How a command ends: one sentence on standard error and the exit code of the table."""

import errno
import json
import logging
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest
from click.testing import CliRunner

from coordinator.cli.main import main as coordinator
from dprelease.canonical import Value
from dprelease.catalogue import Catalogue
from dprelease.cli.console import LONGEST_RECORD, Command, Commands, StopSignal, log_to_stderr
from dprelease.errors import BudgetExceeded, DpReleaseError, InvalidInput, PeerUnavailable
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.one_line import LONGEST_QUOTE
from dprelease.release.approval import Approval, SignedApproval
from dprelease.release.block import SealedBlock
from dprelease.wire.boundary import TABLE, exit_code
from learner.cli.main import main as learner
from party_node.cli.main import main as party_node


@click.group(cls=Commands)
def main() -> None:
    """A group of commands."""


@main.group()
def inner() -> None:
    """A group within."""


def raising(error: Exception) -> click.Command:
    @click.command("fail")
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.error.__name__)
@pytest.mark.parametrize("group", [main, inner], ids=["outer", "inner"])
def test_an_error_becomes_its_sentence_and_exit_code(group: click.Group, row) -> None:  # type: ignore[no-untyped-def]
    group.add_command(raising(row.error("the file x cannot be used; rename it")))
    result = CliRunner().invoke(main, ["fail"] if group is main else ["inner", "fail"])
    assert result.exit_code == row.exit_code
    assert result.stderr == "error: the file x cannot be used; rename it\n"
    assert result.stdout == ""


def test_what_the_system_refuses_is_a_sentence_too() -> None:
    main.add_command(raising(OSError(errno.EROFS, "Read-only file system", "/srv/a\x1bb")))
    result = CliRunner().invoke(main, ["fail"])
    assert result.exit_code == exit_code(PeerUnavailable(""))
    assert result.stderr == "error: this machine refuses: Read-only file system: /srv/a\\x1bb\n"


def test_an_error_with_numbers_of_its_own_ends_the_same_way() -> None:
    main.add_command(raising(BudgetExceeded("too much", needed=2.0, remaining=1.0)))
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, result.stderr) == (13, "error: too much\n")


HOSTILE = "stage=\x1b]0;owned\x07\x1b[2Jx\nerror: FORGED \u202eevil\0"


@pytest.mark.parametrize("group", [coordinator, learner, party_node], ids=["coordinator", "learner", "party-node"])
def test_no_command_prints_what_a_terminal_obeys(group: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every error of every command ends at one place."""
    errors: list[tuple[DpReleaseError, int]] = [
        (row.error(f"no column {HOSTILE}"), 1) for row in TABLE if row.error is not BudgetExceeded
    ]
    errors.append((InvalidInput(f"party.toml {HOSTILE}", [f"{HOSTILE} is no number", f"{HOSTILE} is twice here"]), 3))
    for error, lines in errors:
        command = Command(f"{__name__}:fail", "Fail.")
        monkeypatch.setitem(group.lazy, "fail", command)  # type: ignore[arg-type]
        monkeypatch.setattr(sys.modules[__name__], "fail", raising(error), raising=False)
        said = CliRunner().invoke(group, ["fail"]).stderr.removesuffix("\n").split("\n")
        assert len(said) == lines
        assert all(line.isprintable() and r"\x1b[2Jx\nerror: FORGED \u202eevil\x00" in line for line in said)


def test_an_unforeseen_error_is_not_dressed_up() -> None:
    main.add_command(raising(ZeroDivisionError("x")))
    result = CliRunner().invoke(main, ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)
    assert result.exit_code == 1


def test_a_command_that_succeeds_ends_with_zero() -> None:
    @main.command("fine")
    def fine() -> None:
        click.echo("done")

    result = CliRunner().invoke(main, ["fine"])
    assert (result.exit_code, result.stdout) == (0, "done\n")


@pytest.mark.parametrize("said", ["", "n\n"])
def test_a_question_that_no_terminal_answers_says_what_to_do(said: str) -> None:
    @click.group(cls=Commands)
    def asking() -> None: ...

    @asking.command()
    def go() -> None:
        click.confirm("Go?", abort=True)

    result = CliRunner().invoke(asking, ["go"], input=said)
    assert (result.exit_code, "--help names the option that answers" in result.stderr) == (1, True)


def test_a_wrong_command_line_is_clicks_own_matter() -> None:
    result = CliRunner().invoke(main, ["no-such-command"])
    assert result.exit_code == 2
    assert "No such command" in result.stderr


@contextmanager
def as_in_a_fresh_process() -> Iterator[None]:
    root, grpc = logging.getLogger(), logging.getLogger("grpc")
    before = (root.handlers[:], root.level, grpc.level)
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        grpc.setLevel(before[2])


@pytest.mark.parametrize("verbose", [True, False])
def test_events_are_lines_with_time_and_level_on_standard_error(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with as_in_a_fresh_process():
        log_to_stderr(verbose=verbose)
        logging.getLogger("dprelease.x").debug("small")
        logging.getLogger("dprelease.x").info("event")
        logging.getLogger("grpc.y").info("chatter")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "INFO dprelease.x: event" in shown.err
    assert ("DEBUG dprelease.x: small" in shown.err) is verbose
    assert "chatter" not in shown.err


FORGED = "2026-01-01T00:00:00.000Z INFO dprelease.x: FORGED"
BREAKS = ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[2J\x1b[1;1H", "\u202e", "\b" * 90)
RECORD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w.]+: .*")


def logged(capsys: pytest.CaptureFixture[str], *, as_json: bool = False) -> list[str]:
    """The lines that stand on standard error, broken wherever any reader would break them."""
    shown = capsys.readouterr().err
    assert all(line.isprintable() for line in shown.split("\n"))
    lines = shown.removesuffix("\n").splitlines()
    assert all(json.loads(line) if as_json else RECORD.fullmatch(line) for line in lines)
    return lines


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("mark", BREAKS)
def test_no_message_makes_a_line_of_its_own(mark: str, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with as_in_a_fresh_process():
        log_to_stderr(verbose=False, as_json=as_json)
        logging.getLogger("dprelease.x").info("refused: %s", f"a{mark}{FORGED}")
        try:
            raise KeyError(f"a{mark}{FORGED}") from ValueError(f"b{mark}{FORGED}")
        except KeyError:
            logging.getLogger("dprelease.x").exception("failed%s", mark + FORGED)
    refused, failed = logged(capsys, as_json=as_json)
    assert FORGED in refused
    assert all(words in failed for words in ("Traceback", "ValueError", "KeyError", "failed"))


def payloads() -> Iterator[tuple[type[Value], bytes]]:
    """What a party may send for a sealed block, a catalogue, an approval, the offers of a deal and a parcel."""
    key = json.dumps({f"x\n{FORGED}\x1b[2J": 1}).encode()
    for kind in (SealedBlock, Catalogue, SignedApproval, Message, MessageHeader):
        yield kind, key
        yield kind, json.dumps({f"{number}\n" + "k" * 5000: 1 for number in range(500)}).encode()
        yield kind, b"\n" + FORGED.encode() + b"\xff\n"
    yield (
        Approval,
        json.dumps({"party": "a", "task": "0" * 64, "commitment": "0" * 64, "approved": f"\n{FORGED}"}).encode(),
    )
    yield Approval, json.dumps({"approved": "\u2028" * 10**6}).encode()


@pytest.mark.parametrize(("kind", "data"), [*payloads()])
def test_what_a_party_sends_is_refused_in_one_line_of_bounded_length(
    kind: type[Value], data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        kind.from_bytes(data)
    with as_in_a_fresh_process():
        log_to_stderr(verbose=False)
        logging.getLogger("dprelease.wire.boundary").info("%s refused: %s", "/x", refused.value.message)
    (line,) = logged(capsys)
    assert len(line) <= LONGEST_RECORD
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 50 * LONGEST_QUOTE


def test_a_long_record_keeps_its_beginning_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with as_in_a_fresh_process():
        log_to_stderr(verbose=False)
        logging.getLogger("dprelease.x").info("begins %s ends", "9" * 10**6)
    (line,) = logged(capsys)
    assert len(line) == LONGEST_RECORD
    assert "INFO dprelease.x: begins 999" in line
    assert "[... 1,000,0" in line
    assert line.endswith("999 ends")


def test_json_has_the_parts_of_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    with as_in_a_fresh_process():
        log_to_stderr(verbose=False, as_json=True)
        logging.getLogger("dprelease.x").warning("é: %d", 7)
    (line,) = logged(capsys, as_json=True)
    record = json.loads(line)
    assert re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d{3}Z", record.pop("time"))
    assert record == {"level": "WARNING", "logger": "dprelease.x", "message": "é: 7"}


def test_the_root_of_the_tree_has_a_message() -> None:
    assert DpReleaseError("words").message == str(DpReleaseError("words")) == "words"


@pytest.fixture
def stop() -> Iterator[StopSignal]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield StopSignal()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait(stop: StopSignal, number: signal.Signals) -> None:
    assert not stop.wait(0.0)
    signal.raise_signal(number)
    assert stop.is_set()
    assert stop.wait()


def test_a_signal_that_did_not_wake_the_waiting_thread_is_noticed_all_the_same(stop: StopSignal) -> None:
    """As when it arrives just before the thread blocks: Python runs the handler only when the thread goes on."""
    late = threading.Timer(0.05, lambda: setattr(stop, "_caught", True))
    late.start()
    assert stop.wait()
    late.join()
