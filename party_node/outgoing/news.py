"""Events that the daemon waits for between two cycles: news from either server, a person's decision, the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dprelease.cli.console import LONGEST_NAP_SECONDS, StopSignal
from dprelease.errors import PeerUnavailable
from dprelease.wire.news import Listening
from dprelease.wire.retry import Backoff
from party_node.outgoing.calls import Coordinator
from party_node.outgoing.line import HubLine
from party_node.settings import DaemonSettings
from party_node.state.journal import Journal

COMPUTING_SECONDS = 1.0
"""Longest wait between looks while peers compute with us and a server tells no news: a session takes about eight looks."""


class Ears:
    """Listens to both servers, over connections that we dialled.

    Args:
        settings: manners of the daemon.
        journal: where a person's decision shows.
    """

    def __init__(self, settings: DaemonSettings, journal: Journal) -> None:
        self.follow(settings)
        self._journal = journal
        self._standing = journal.standing()
        self._news = threading.Event()
        self._listening: tuple[Listening, ...] = ()

    def follow(self, settings: DaemonSettings) -> None:
        """Take over other manners."""
        self._poll_seconds = settings.poll_seconds
        self._backoff = Backoff(longest_seconds=settings.longest_wait_seconds)
        self._again = self._backoff.waits()

    @contextmanager
    def open(self, coordinator: Coordinator, hub: HubLine) -> Iterator[None]:
        """Listen for as long as the context lasts."""
        with (
            Listening(lambda: coordinator.stub, "the coordinator", self._news.set) as office,
            Listening(hub.relay, "the hub", self._news.set) as relay,
        ):
            self._listening = office, relay
            yield

    def wait(self, stop: threading.Event | StopSignal, *, computing: bool, unreached: bool) -> None:
        """Wait for what was not yet there when the cycle began, or until stopped, or until it is time to look anyway.

        Args:
            stop: noticed within half a second.
            computing: peers compute with us.
            unreached: somebody was away.

        Raises:
            PeerUnavailable: the coordinator was started again while we listened: it may have been restored, and is told again what
                we know of it, as at every connection.
        """
        seconds = self._poll_seconds
        if computing and not all(each.hears for each in self._listening):
            seconds = min(seconds, COMPUTING_SECONDS)
        if unreached:
            seconds = min(seconds, next(self._again))
        else:
            self._again = self._backoff.waits()
        end = time.monotonic() + seconds
        # A person decides by a command in another process, perhaps while the cycle ran: compared with before the cycle.
        while (now := self._journal.standing()) == self._standing and not stop.is_set():
            left = min(LONGEST_NAP_SECONDS, end - time.monotonic())
            if left <= 0 or self._news.wait(left):
                break
        self._standing = now
        self._news.clear()
        if self._listening and self._listening[0].anew.is_set():
            raise PeerUnavailable("the coordinator was started again")
