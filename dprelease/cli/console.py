"""How a command ends: one clear sentence on standard error and the exit code of the status table."""

from __future__ import annotations

import errno
import json
import logging
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from queue import Empty, SimpleQueue
from types import FrameType, MappingProxyType
from typing import Any

import click

from dprelease.errors import DpReleaseError, InvalidInput, PeerUnavailable
from dprelease.files.extras import missing, require
from dprelease.one_line import one_line
from dprelease.threads import start_with_one
from dprelease.wire.boundary import exit_code


@dataclass(frozen=True)
class Command:
    """A command that is loaded when it is typed.

    Attributes:
        place: ``module:name`` of it.
        summary: what ``--help`` says of it.
        needs: an optional package that it loads only in the middle of its work.
    """

    place: str
    summary: str
    needs: str | None = None

    def load(self) -> click.Command:
        """The command itself.

        Raises:
            InvalidInput: an optional package that it needs is not installed.
        """
        module, name = self.place.split(":")
        role = module.partition(".")[0].removesuffix("_node")
        if self.needs is not None:
            require(self.needs, role)
        try:
            found: click.Command = getattr(import_module(module), name)
        except ImportError as error:
            refusal = missing(error, role)
            if refusal is None:
                raise
            raise refusal from error
        return found


class Commands(click.Group):
    """A command group whose commands may raise any `DpReleaseError`, and are loaded one at a time.

    Args:
        lazy: name to command; a module that no command of the line needs stays unread.
        arguments, options: of `click.Group`.
    """

    def __init__(self, *arguments: Any, lazy: Mapping[str, Command] = MappingProxyType({}), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, loaded."""
        return self.lazy[cmd_name].load() if cmd_name in self.lazy else super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        if not self.lazy:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name].summary) for name in sorted(self.lazy)])

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Begin a process of ours: before any command is loaded, and numpy with it."""
        start_with_one()
        return super().main(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of ours becomes a message and its exit code."""
        try:
            return super().invoke(ctx)
        except DpReleaseError as error:
            click.echo(f"error: {_in_lines(error)}", err=True)
            ctx.exit(exit_code(error))
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read has seen enough
                raise
            place = f": {error.filename}" if error.filename else ""
            click.echo(f"error: {one_line(f'this machine refuses: {error.strerror or error}{place}')}", err=True)
            ctx.exit(exit_code(PeerUnavailable("")))
        except click.Abort:
            if sys.stdin.isatty():  # a person said no
                raise
            click.echo("error: nothing was done, for nobody said yes; --help names the option that answers", err=True)
            ctx.exit(1)


def _in_lines(error: DpReleaseError) -> str:
    """The message, with nothing in it that a terminal obeys; several mistakes of one file in a line each."""
    lines = [error.message]
    if isinstance(error, InvalidInput) and len(error.each) > 1:
        lines = [f"{error.what}: {len(error.each)} mistakes", *error.each]
    return "\n  ".join(map(one_line, lines))


LONGEST_NAP_SECONDS = 0.5
"""How long a signal may go unnoticed."""


class StopSignal:
    """SIGTERM or SIGINT, as something that the main thread waits for.

    A `threading.Event` will not do: a handler that sets it while the same thread waits for it may hang on its lock.
    `SimpleQueue.put` is safe to call from a handler.
    """

    def __init__(self) -> None:
        self._caught = False
        self._signals: SimpleQueue[int] = SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._catch)

    def _catch(self, number: int, _frame: FrameType | None) -> None:
        self._caught = True
        self._signals.put(number)

    def is_set(self) -> bool:
        """Tells whether a signal came."""
        return self._caught

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a signal, at most `timeout` seconds; whether one came."""
        # Never for long at a time: a signal that arrives while this thread is about to block does not wake it, and Python
        # runs the handler only when it goes on.
        end = None if timeout is None else time.monotonic() + timeout
        while not self._caught:
            left = LONGEST_NAP_SECONDS if end is None else min(LONGEST_NAP_SECONDS, end - time.monotonic())
            if left <= 0:
                break
            with suppress(Empty):
                self._signals.get(timeout=left)
        return self._caught


LONGEST_RECORD = 2_000
"""Characters of a log record; of a longer one both ends are kept."""


class OneLine(logging.Formatter):
    r"""A record as one line of bounded length, ``TIME LEVEL LOGGER: MESSAGE``, whatever a peer got into it.

    A traceback stands on the same line, its line feeds spelled out: then every line is a record, for journals and programs
    that know nothing else of us, and none can be made up. ``sed 's/\\n/\n/g'`` unfolds one.
    """

    converter = time.gmtime  # type: ignore[assignment] # typeshed forgets that its argument is optional
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, form: str = "%(asctime)s %(levelname)s %(name)s: %(message)s") -> None:
        super().__init__(form)

    def format(self, record: logging.LogRecord) -> str:
        """The record, its traceback included."""
        return one_line(super().format(record), LONGEST_RECORD)


class JsonLine(OneLine):
    """A record as one JSON object, with ``time``, ``level``, ``logger`` and ``message``, the traceback within the last."""

    def __init__(self) -> None:
        super().__init__("%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        fields = {"time": self.formatTime(record), "level": record.levelname, "logger": record.name}
        return json.dumps(fields | {"message": super().format(record)})


log_json_option = click.option("--log-json", is_flag=True, help="Log one JSON object a line.")


def log_to_stderr(*, verbose: bool, as_json: bool = False) -> None:
    """One line for each event, with time and level. No handler of ours logs a cell or an identifier."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if as_json else OneLine())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    logging.getLogger("grpc").setLevel(logging.WARNING)
