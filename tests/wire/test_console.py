"""How a command ends: one sentence on standard error and the exit code of the table."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest
from click.testing import CliRunner

from dprelease.errors import BudgetExceeded, DpReleaseError
from dprelease.wire.console import Commands, StopSignal, log_to_stderr, plain
from dprelease.wire.status import TABLE


@click.group(cls=Commands)
def main() -> None:
    """A group of commands."""


@main.group()
def inner() -> None:
    """A group within."""


def raising(error: Exception) -> click.Command:
    @click.command("fail")
    def fail() -> None:
        """Fail."""
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


def test_an_error_with_numbers_of_its_own_ends_the_same_way() -> None:
    main.add_command(raising(BudgetExceeded("too much", needed=2.0, remaining=1.0)))
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, result.stderr) == (13, "error: too much\n")


def test_an_unforeseen_error_is_not_dressed_up() -> None:
    main.add_command(raising(ZeroDivisionError("x")))
    result = CliRunner().invoke(main, ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)
    assert result.exit_code == 1


def test_a_command_that_succeeds_ends_with_zero() -> None:
    @main.command("fine")
    def fine() -> None:
        """Succeed."""
        click.echo("done")

    result = CliRunner().invoke(main, ["fine"])
    assert (result.exit_code, result.stdout) == (0, "done\n")


def test_a_wrong_command_line_is_clicks_own_matter() -> None:
    result = CliRunner().invoke(main, ["no-such-command"])
    assert result.exit_code == 2
    assert "No such command" in result.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Age and glucose, 2026", "Age and glucose, 2026"),
        ("Größe, 年齢", "Größe, 年齢"),
        ("a\nb\rc\td", "a b c d"),
        ("\x1b[2J\x1b[31mred", " [2J [31mred"),
        ("\x07\x08\x00\x7f\x9b", "     "),
        ("left\u202eright\u2028x", "left right x"),
    ],
)
def test_foreign_text_cannot_move_the_cursor(text: str, shown: str) -> None:
    assert plain(text) == shown


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
