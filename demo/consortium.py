"""A consortium on loopback: every role an operating-system process, driven by the commands that people type.

The demo narrates it; the end-to-end tests drive it and kill its parts.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self

from dprelease.errors import DpReleaseError

MODULES = {"coordinator": "coordinator", "learner": "learner", "party-node": "party_node"}
HOST = "localhost"
PORTS = ("coordinator", "enrolment", "hub", "public")
ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 60.0
MOST_COMMANDS = 8
"""Commands that run at the same time."""


class CommandFailed(DpReleaseError):
    """A command ended with an error."""

    def __init__(self, command: Sequence[str], code: int, stderr: str) -> None:
        super().__init__(f"`{' '.join(command)}` ended with {code}: {stderr.strip()}")
        self.code = code
        self.stderr = stderr


class Consortium:
    """The processes and folders of one consortium."""

    def __init__(self, folder: Path, narrate: Callable[[str], None] = lambda line: None) -> None:
        self.folder = folder
        self.ports, self._held = hold_ports(PORTS)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[str, ...]] = {}
        self._narrate = narrate
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for held in self._held:
            held.close()

    @property
    def office(self) -> Path:
        """The coordinator's folder."""
        return self.folder / "office"

    @property
    def hub(self) -> Path:
        """The hub's folder, made by `coordinator init`."""
        return self.office / "hub"

    def hospital(self, name: str) -> Path:
        """A party's folder; its party.toml lies there."""
        return self.folder / name

    def run(self, command: str, *arguments: str, home: Path | None = None, narrated: bool = True) -> str:
        """Run one command to its end and return what it printed.

        Raises:
            CommandFailed: with its exit code and message.
        """
        if narrated:
            self._narrate(" ".join((command, *(_short(argument) for argument in arguments))))
        line = ["-m", MODULES[command], *arguments]
        wide = {**os.environ, "COLUMNS": "116"}
        with TemporaryFile() as stdout, TemporaryFile() as stderr:
            code = self.launch(line, home or self.folder, wide, stdout, stderr).wait()
            printed, said = _text(stdout), _text(stderr)
        if code:
            raise CommandFailed((command, *map(_short, arguments)), code, said)
        return printed

    def launch(
        self, line: Sequence[str], home: Path, environment: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Begin a process."""
        return subprocess.Popen([sys.executable, *line], cwd=home, env=environment, stdout=stdout, stderr=stderr)

    def start(
        self,
        name: str,
        command: str,
        *arguments: str,
        home: Path,
        launcher: Sequence[str] = (),
        seconds: float = READY_SECONDS,
    ) -> None:
        """Start a role and wait until its log says that it is ready.

        Args:
            name: what the process is called here.
            command: ``coordinator``, ``learner`` or ``party-node``.
            arguments: as typed.
            home: folder it runs in.
            launcher: arguments of Python that run the module named after them in another way, for tests of faults.
            seconds: most that it takes.

        Raises:
            CommandFailed: it ended, or is not ready in time.
        """
        self._narrate(" ".join((command, *arguments, "&")))
        self._commands[name] = (command, *arguments, str(home))
        log = self.log(name)
        position = log.stat().st_size if log.exists() else 0
        line = [*(launcher or ("-m",)), MODULES[command], *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)} if launcher else os.environ
        with log.open("ab") as file:
            self.processes[name] = self.launch(line, home, environment, file, file)
        wait_for(lambda: self._is_ready(name, position), seconds, f"{name} to be ready; see {log}")

    def _is_ready(self, name: str, position: int) -> bool:
        code = self.processes[name].poll()  # first, so that the log of one that has ended is whole
        text = self.log(name).read_bytes()[position:].decode(errors="replace")
        if code is not None:
            raise CommandFailed((name,), code, text)
        return re.search(r"\bready\b", text) is not None

    def restart(self, name: str, launcher: Sequence[str] = ()) -> None:
        """Start a role again as it was started before, or with a fault planted by a launcher."""
        command, *arguments, home = self._commands[name]
        self.start(name, command, *arguments, home=Path(home), launcher=launcher)

    def died(self, name: str, seconds: float = READY_SECONDS) -> int:
        """Wait until a role has ended by itself; its exit code, negative for a signal."""
        process = self.processes[name]
        wait_for(lambda: process.poll() is not None, seconds, f"{name} to end")
        return int(process.wait())

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def halt(self, name: str) -> None:
        """SIGTERM to one role, and wait."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait()

    def log(self, name: str) -> Path:
        """A role's log file."""
        return self.folder / f"{name}.log"

    def stop(self) -> None:
        """SIGTERM to every role, and wait."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def found(self, epsilon: float, delta: float, name: str = "demo") -> str:
        """`coordinator init`, then start coordinator and hub; returns what init printed."""
        ports = self.ports
        printed = self.run(
            *("coordinator", "init", "--home", self.office.name, "--consortium", name),
            *("--host", HOST, "--listen-host", "127.0.0.1", "--epsilon", f"{epsilon:g}", "--delta", f"{delta:g}"),
            *("--port", str(ports["coordinator"]), "--enrol-port", str(ports["enrolment"])),
            *("--hub-port", str(ports["hub"]), "--hub-public-port", str(ports["public"])),
        )
        self.start("coordinator", "coordinator", "serve", home=self.office)
        self.start("hub", "learner", "serve", "--config", "hub.toml", home=self.hub)
        return printed

    def run_at_hospitals(self, names: Sequence[str], *arguments: Callable[[str], str] | str) -> list[str]:
        """Run a `party-node` command at several hospitals at the same time; what each printed.

        Args:
            names: of the hospitals.
            arguments: as typed; a function makes one from the hospital's name.
        """
        lines = {name: [each if isinstance(each, str) else each(name) for each in arguments] for name in names}
        for line in lines.values():
            self._narrate(" ".join(("party-node", *map(_short, line))))
        with ThreadPoolExecutor(min(len(names), MOST_COMMANDS)) as pool:
            begun = [
                pool.submit(self.run, "party-node", *line, home=self.hospital(name), narrated=False)
                for name, line in lines.items()
            ]
            return [each.result().strip() for each in begun]

    def approve(self, release: str, name: str, seconds: float = 60) -> str:
        """Approve a release as a person at a hospital; what the command printed.

        Raises:
            CommandFailed: the hospital has not heard of it within `seconds`.
        """
        home = self.hospital(name)

        def offered() -> bool:
            return release in self.run("party-node", "review", "list", "--json", home=home, narrated=False)

        wait_for(offered, seconds, f"the {name} to see the proposal")
        return self.run("party-node", "review", "approve", release[:12], "--yes", home=home).strip()

    def enrol(self, names: Sequence[str]) -> None:
        """Invite and enrol every party, share the alignment key, pin the keys of all. party.toml must lie ready."""
        share = "--share", f"1/{len(names)}"
        tokens = {name: self.run("coordinator", "invite", name, *share, home=self.office).split()[-1] for name in names}
        self.run_at_hospitals(names, "enrol", tokens.__getitem__)
        (key,) = self.run_at_hospitals(names[:1], "alignment-key", "new")
        if names[1:]:
            self.run_at_hospitals(names[1:], "alignment-key", "import", key)
        file = self.folder / "keys.json"
        digest = self.run("coordinator", "party", "keys", str(file), home=self.office).split()[-1]
        self.run_at_hospitals(names, "peers", "pin", "--from", str(file), "--digest", digest)

    def open_hospitals(self, names: Sequence[str], seconds: float = READY_SECONDS) -> None:
        """Start every party's daemon, as many at once as there are processors. Each reads its whole table first."""

        def start(name: str) -> None:
            self.start(name, "party-node", "run", home=self.hospital(name), seconds=seconds)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(start, names))


def hold_ports(names: Sequence[str]) -> tuple[dict[str, int], list[socket.socket]]:
    """Free ports, and sockets that keep others from them while our servers listen there.

    On Linux sockets that all reuse addresses may share a port as long as one at most listens, and nobody who asks for
    any port is given one that is bound. Elsewhere a port cannot be shared, and these were merely free a moment ago.
    """
    held = [socket.socket() for _ in names]
    for each in held:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
    ports = {name: each.getsockname()[1] for name, each in zip(names, held, strict=True)}
    if sys.platform != "linux":
        for each in held:
            each.close()
    return ports, held


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds.

    Raises:
        CommandFailed: it does not within `seconds`.
    """
    looked = time.monotonic()
    deadline = looked + seconds
    while not condition():
        now = time.monotonic()
        if now > deadline:
            raise CommandFailed(("wait",), os.EX_TEMPFAIL, f"waited {seconds:g} s for {what}")
        # A look that runs commands takes time from what it waits for: half of it at most.
        time.sleep(max(0.05, now - looked))
        looked = time.monotonic()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _short(argument: str) -> str:
    return argument if len(argument) <= 60 else f"{argument[:12]}...{argument[-6:]}"
