# ruff: noqa: N802 - the methods are called as in the protocol
"""What the coordinator does for alignment runs: consent is kept, progress noted, and nothing else passes here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from coordinator.clock import Clock
from coordinator.lifecycle.lifecycle import Approved, Declined, Finished, IntakeReported
from coordinator.lifecycle.status import State
from coordinator.service.announcer import Announcer
from coordinator.service.coordination import REMEMBERED, read_digest
from coordinator.settings import Limits
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store, Transaction
from dprelease.acceptance import SignedAcceptance
from dprelease.agreement import check_consent
from dprelease.errors import AccessDenied
from dprelease.one_line import one_line
from dprelease.wire.boundary import caller
from dprelease.wire.v1 import alignment_pb2 as pb
from dprelease.wire.v1.alignment_pb2_grpc import AlignmentServiceServicer


class AlignmentService(AlignmentServiceServicer):
    """Alignment runs, over mutual TLS.

    Args:
        store: the consortium's.
        root_pem: its root checks acceptances.
        limits: how much one caller may ask for.
        clock: tells the time.
        announcer: told of every change.
    """

    def __init__(self, store: Store, root_pem: bytes, limits: Limits, clock: Clock, announcer: Announcer) -> None:
        self._store = store
        self._root_pem = root_pem.decode()
        self._limits = limits
        self._clock = clock
        self._announcer = announcer

    def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> pb.ListRunsResponse:
        """For a party."""
        with self._of_party(context) as (party, tx, now):
            return pb.ListRunsResponse(
                runs=[run_to_proto(run) for _, run in tx.alignments.of_party(party, now - REMEMBERED)]
            )

    def AcceptRun(self, request: pb.AcceptRunRequest, context: Any) -> pb.AcceptRunResponse:
        """For a party, after checking its acceptance as every other party will."""
        signed = SignedAcceptance.from_bytes(request.signed_acceptance)
        with self._of_party(context) as (party, tx, now):
            if signed.acceptance.party != party:
                raise AccessDenied(f"{party} spoke for {signed.acceptance.party}")
            check_consent(signed, tx.alignments.get(signed.acceptance.run).read_task(), self._root_pem)
            tx.alignments.advance(signed.acceptance.run, Approved(party), now, request.signed_acceptance)
        self._announcer.look()
        return pb.AcceptRunResponse()

    def DeclineRun(self, request: pb.DeclineRunRequest, context: Any) -> pb.DeclineRunResponse:
        """For a party."""
        with self._of_party(context) as (party, tx, now):
            run = _own(tx, request.run, party)
            tx.alignments.advance(run, Declined(party, one_line(request.reason, self._limits.longest_reason)), now)
        self._announcer.look()
        return pb.DeclineRunResponse()

    def FinishRun(self, request: pb.FinishRunRequest, context: Any) -> pb.FinishRunResponse:
        """For a party."""
        with self._of_party(context) as (party, tx, now):
            tx.alignments.advance(_own(tx, request.run, party), Finished(party), now)
        self._announcer.look()
        return pb.FinishRunResponse()

    def GetRun(self, request: pb.GetRunRequest, context: Any) -> pb.GetRunResponse:
        """For the hub, which asks before it carries a message of the run, and from then on until the run is over."""
        identity, digest = caller(context, "hub"), read_digest(request.run)
        with self._store.reading() as tx:
            tx.hub.check(identity, self._clock())
            run = tx.alignments.get(digest)
        if run.record.state is State.RUNNING and not run.record.received:
            with self._store.writing() as tx:
                run = tx.alignments.advance(digest, IntakeReported(frozenset(run.record.parties)), self._clock())
        return pb.GetRunResponse(run=run_to_proto(run))

    @contextmanager
    def _of_party(self, context: Any) -> Iterator[tuple[str, Transaction, datetime]]:
        identity, now = caller(context, "party"), self._clock()
        with self._store.writing() as tx:
            yield tx.members.admit(identity, now, context.protocol).name, tx, now


def run_to_proto(run: Agreement) -> pb.RunRecord:
    """A run as it travels. What a party may not see, such as another's reason to decline, is not in it."""
    return pb.RunRecord(
        task=run.proposal,
        state="RUN_STATE_" + ("DECLINED" if run.record.state is State.REJECTED else run.record.state),
        acceptances=run.consents,
        explanation=run.record.explain(),
    )


def _own(tx: Transaction, data: bytes, party: str) -> str:
    run = read_digest(data)
    if party not in tx.alignments.parties(run):
        raise AccessDenied(f"{party} is not a party of alignment run {run[:12]}")
    return run
