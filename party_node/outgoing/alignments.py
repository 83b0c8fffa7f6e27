"""Calls to the coordinator about alignment runs. The party dials out; nothing listens here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from dprelease.acceptance import SignedAcceptance
from dprelease.errors import InvalidInput
from dprelease.intersection.task import Task
from dprelease.one_line import one_line, quoted
from dprelease.wire.boundary import ask
from dprelease.wire.v1 import alignment_pb2 as pb
from dprelease.wire.v1.alignment_pb2_grpc import AlignmentServiceStub

PEER = "the coordinator"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PendingRun:
    """An alignment run as the coordinator tells it.

    Attributes:
        task: from canonical bytes.
        state: the coordinator's state, e.g. ``PROPOSED``.
        acceptances: signed acceptances passed on, unchecked.
        explanation: whom it waits for, or why it ended.
    """

    task: Task
    state: str
    acceptances: tuple[bytes, ...]
    explanation: str

    def signed_acceptances(self) -> tuple[SignedAcceptance, ...]:
        """The acceptances, parsed; raises `InvalidInput` if one is malformed."""
        return tuple(SignedAcceptance.from_bytes(data) for data in self.acceptances)


def left_alone(to: logging.Logger, what: str, reasons: Sequence[str]) -> None:
    """Say in one line how much of what the coordinator lists cannot be read, if anything.

    Args:
        to: where.
        what: each of them is.
        reasons: why, for each.
    """
    if reasons:
        words = (
            f"1 {what} cannot be read and is" if len(reasons) == 1 else f"{len(reasons)} {what}s cannot be read and are"
        )
        to.warning("%s left alone; update this software? %s", words, quoted(reasons[0]))


class Alignments:
    """Calls over one channel.

    Args:
        channel: to the coordinator, as ourselves.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = AlignmentServiceStub(channel)

    def pending(self) -> list[PendingRun]:
        """The runs we take part in, that are not over or ended lately. One that cannot be read is left out.

        Raises:
            VersionMismatch: this coordinator knows no alignment runs.
        """
        answer = ask(PEER, self._stub.ListRuns, pb.ListRunsRequest())
        pending, unread = [], []
        for record in answer.runs:
            try:
                # An unknown number raises ValueError: a state that only a later version has.
                state = pb.RunState.Name(record.state).removeprefix("RUN_STATE_")
                task = Task.from_bytes(record.task)
            except (InvalidInput, ValueError) as error:
                unread.append(str(error))
                continue
            pending.append(PendingRun(task, state, tuple(record.acceptances), one_line(record.explanation)))
        left_alone(log, "alignment run", unread)
        return pending

    def accept(self, acceptance: bytes) -> None:
        """Hand in our signed acceptance."""
        ask(PEER, self._stub.AcceptRun, pb.AcceptRunRequest(signed_acceptance=acceptance))

    def decline(self, run: str, reason: str) -> None:
        """Take no part, or go on no longer."""
        ask(PEER, self._stub.DeclineRun, pb.DeclineRunRequest(run=bytes.fromhex(run), reason=reason))

    def finish(self, run: str) -> None:
        """Say that the result is on our disk; not what or how large it is."""
        ask(PEER, self._stub.FinishRun, pb.FinishRunRequest(run=bytes.fromhex(run)))
