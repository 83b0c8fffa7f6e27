"""Reviews that wait for a person: noted, logged, and told once to whomever `on_review` names, with no word about data."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from dprelease.intersection.task import Task
from dprelease.one_line import one_line
from dprelease.wire.retry import ProgressDeadline
from party_node.decision.decision import Review
from party_node.hospital import HospitalState
from party_node.state.journal import Record

log = logging.getLogger(__name__)

LIMIT_SECONDS = 30.0
"""How long a call may take."""


class Reviews:
    """Tells that releases wait for a person."""

    def __init__(self, hospital: HospitalState, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._hospital = hospital
        self._limit_seconds = limit_seconds
        self._told: set[str] = set()
        self._calls: list[threading.Thread] = []

    def begin(self, record: Record, review: Review) -> None:
        """Note why a release or an alignment run waits for a person, and tell it, once for each in the life of the journal."""
        short, target = record.digest[:12], self._hospital.settings.daemon.on_review
        if review.words != record.note:
            log.info("%s waits for a person: party-node review show %s", record.name, short)
            self._hospital.journal.annotate(record.digest, review.words)
        if target is None or record.digest in self._told:
            return
        self._told.add(record.digest)
        if self._hospital.journal.first_call(record.digest):
            run = isinstance(record.proposal, Task)
            self.call(short, target, f"{record.name} waits for a person: party-node review show {short}" if run else "")

    def call(self, release: str, target: str | tuple[str, ...], words: str = "") -> None:
        """Tell of a release, in the background; whatever goes wrong is logged and holds up nothing."""
        words = words or f"release {release} waits for a review: party-node review show {release}"
        thread = threading.Thread(target=self._called, args=(release, words, target), daemon=True, name="on-review")
        self._calls = [each for each in self._calls if each.is_alive()] + [thread]
        thread.start()

    def wait(self) -> None:
        """Wait for all calls that are under way."""
        for each in self._calls:
            each.join()

    def _called(self, release: str, words: str, target: str | tuple[str, ...]) -> None:
        try:
            trouble = (
                self._post(target, release, words) if isinstance(target, str) else self._run(target, release, words)
            )
        except Exception as error:  # of an unforeseen one the class is enough, for an address may be a secret
            trouble = f"unforeseen {type(error).__name__}"
        what = words.partition(" waits")[0]
        if trouble:
            log.warning("on_review was not told that %s waits: %s", what, one_line(trouble))
        else:
            log.info("on_review was told that %s waits", what)

    def _run(self, command: tuple[str, ...], release: str, words: str) -> str:
        """Mistake of a command that gets both as its last arguments; empty if nothing did."""
        quiet = subprocess.DEVNULL
        try:
            process = subprocess.Popen(  # what it starts itself ends with it
                [*command, release, words], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
        except OSError as error:
            return f"the command cannot be started: {error.strerror}"
        try:
            code = process.wait(self._limit_seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"the command did not end within {self._limit_seconds:g} s and was stopped"
        return f"the command ended with code {code}" if code else ""

    def _post(self, address: str, release: str, words: str) -> str:
        """Mistake of a POST of both as JSON; empty if nothing did. No redirect is followed, no proxy asked."""
        url = urlsplit(address)
        dial = HTTPSConnection if url.scheme == "https" else HTTPConnection
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        body = json.dumps({"release": release, "text": words})
        with closing(dial(url.hostname or "", url.port, timeout=self._limit_seconds)) as connection:

            def stop() -> None:
                with suppress(OSError):
                    if connection.sock is not None:
                        connection.sock.shutdown(socket.SHUT_RDWR)

            with ProgressDeadline(stop, self._limit_seconds) as deadline:
                try:
                    connection.request("POST", path, body, {"Content-Type": "application/json"})
                    status = connection.getresponse().status
                except (OSError, HTTPException) as error:
                    late = f"it did not answer within {self._limit_seconds:g} s"
                    return (
                        late
                        if deadline.stalled or isinstance(error, TimeoutError)
                        else f"no answer ({type(error).__name__})"
                    )
        return "" if 200 <= status < 300 else f"it answered with status {status}"
