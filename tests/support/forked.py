"""Processes that begin as copies of one that has imported everything: a command takes milliseconds, not seconds.

Each is an operating-system process of its own, with its own folder, environment, files and end; nothing but the imports
was done before, but that chains of posterior draws are shorter. A process whose launcher is not one of `IN_PLACE` imports the
project anew, so that what it changes is met wherever it is imported; what was compiled for the first of them is kept for the
others, also where Python is told to write no bytecode.
"""

import atexit
import gc
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import pyarrow as pa

from demo.consortium import ROOT, Consortium
from dprelease.estimators.evidence import evidence
from dprelease.threads import VARIABLES
from tests.support.replaced import PROJECT

IN_PLACE = ("tests.support.faulty", "tests.support.recorded")
"""Launchers that find functions wherever they were imported, and set constants that nobody imports."""
_NUMBER = struct.Struct("<q")


class ForkedConsortium(Consortium):
    """A consortium whose processes are copies, where the system can copy a process that has imported native libraries."""

    def launch(
        self, line: Sequence[str], home: Path, environment: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        if sys.platform != "linux":
            return super().launch(line, home, environment, stdout, stderr)
        return Forked(line, home, environment, stdout, stderr)


class Forked:
    """One process, with the part of `subprocess.Popen` that a consortium needs.

    Args:
        line: arguments of Python, ``-m`` first.
        home: folder it runs in.
        environment: all of it.
        stdout: where it writes.
        stderr: where it writes what goes wrong.

    Attributes:
        pid: its number.
    """

    def __init__(
        self, line: Sequence[str], home: Path, environment: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> None:
        self._code: int | None = None
        self._minder, theirs = socket.socketpair()
        with theirs:
            _origin().ask(theirs)
        socket.send_fds(self._minder, [b" "], [stdout.fileno(), stderr.fileno()])
        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        order = {"line": list(line), "home": str(home), "environment": dict(environment), "files": files}
        self._minder.sendall(json.dumps(order).encode() + b"\n")
        self.pid = self._told()

    def _told(self) -> int:
        (number,) = _NUMBER.unpack(self._minder.recv(_NUMBER.size, socket.MSG_WAITALL))
        return int(number)

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        if self._code is None:
            self._minder.settimeout(timeout)
            try:
                self._code = self._told()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
            self._minder.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Nothing, if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Origin:
    """The process that the others are copies of; it ends with the one that started it."""

    def __init__(self) -> None:
        self._asking, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._compiled = TemporaryDirectory()
        with theirs:
            line = [sys.executable, "-m", __name__, str(theirs.fileno()), self._compiled.name]
            alone = os.environ | dict.fromkeys(VARIABLES, "1")  # a copy has no other thread, whatever a person has set
            self._process = subprocess.Popen(
                line, cwd=ROOT, env=alone, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )

    def ask(self, theirs: socket.socket) -> None:
        with self._lock:
            socket.send_fds(self._asking, [b" "], [theirs.fileno()])


_origin = cache(_Origin)


def _import_everything() -> None:
    evidence.WARM_UP, evidence.KEPT = 60, 40  # fits of end-to-end tests are read with their errors, not compared
    for package in PROJECT:
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    import_module("sqlalchemy.dialects.sqlite")  # which the first connection would import
    pa.array([""])  # imports pandas, where it is, in half a second: pyarrow looks for its arrays among what it is given
    names = sorted(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))
    # A copy has no thread but the one that copies; pyarrow's allocator starts its own again.
    assert len([name for name in names if not name.startswith("jemalloc")]) == 1, names


def _serve(asked: socket.socket) -> dict[str, Any]:
    """Copy ourselves for each order, and tell each copy's number and its end, until whoever asks is gone.

    Returns in a copy only, with its order.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    copies: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that becomes readable at a copy's end
    waiting = select.poll()
    waiting.register(asked, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            if ready in copies:
                waiting.unregister(ready)
                number, minder = copies.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
                os.close(ready)
                with minder, suppress(OSError):  # nobody may ask any more
                    minder.sendall(_NUMBER.pack(code))
                continue
            data, sockets, _, _ = socket.recv_fds(asked, 1, 1)
            if not data:
                os._exit(0)
            minder = socket.socket(fileno=sockets[0])
            number, order = _copy(minder)
            if number == 0:
                for descriptor, (_, other) in copies.items():
                    os.close(descriptor)
                    other.close()
                asked.close()
                minder.close()
                signal.signal(signal.SIGINT, signal.default_int_handler)
                return order
            minder.sendall(_NUMBER.pack(number))
            end = os.pidfd_open(number)
            waiting.register(end, select.POLLIN)
            copies[end] = number, minder


def _copy(minder: socket.socket) -> tuple[int, dict[str, Any]]:
    """The number of a copy that writes where it was told, 0 in itself, and its order."""
    _, outputs, _, _ = socket.recv_fds(minder, 1, 2)
    with minder.makefile("rb") as lines:
        order: dict[str, Any] = json.loads(lines.readline())
    number = os.fork()
    for place, output in enumerate(outputs, 1):
        if number == 0:
            os.dup2(output, place)
        os.close(output)
    return number, order


class _End:
    """Ends a copy once its last function at exit has run: to take apart what was imported takes longer than most commands."""

    code = 1

    def now(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.code)


def _run(
    end: _End, compiled: str, line: Sequence[str], home: str, environment: Mapping[str, str], files: tuple[int, int]
) -> None:
    """What Python does with such a line."""
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    os.chdir(home)
    os.environ.clear()
    os.environ.update(environment)
    if folders := [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each not in (*sys.path, "")]:
        sys.path[:0] = folders
        sys.modules.pop("sitecustomize", None)
        with suppress(ModuleNotFoundError):
            import_module("sitecustomize")
    dash, module, *_ = line
    assert dash == "-m"
    sys.argv = [*line[1:]]
    if module.partition(".")[0] not in PROJECT and module not in IN_PLACE:
        for name in [name for name in sys.modules if name.partition(".")[0] in PROJECT]:
            del sys.modules[name]
        sys.dont_write_bytecode, sys.pycache_prefix = False, compiled
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        end.code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    end.code = 0


if __name__ == "__main__":
    _end = _End()
    atexit.register(_end.now)  # before all others, so that it is the last to be called
    _import_everything()
    gc.freeze()
    _run(_end, sys.argv[2], **_serve(socket.socket(fileno=int(sys.argv[1]))))
