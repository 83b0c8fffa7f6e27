"""The coordinator's side of alignment runs in a few lines: it tells what a test puts there, and notes what hospitals say."""

from dataclasses import dataclass, field
from typing import Any

from dprelease.agreement import SignedAcceptance
from dprelease.intersection.task import Task
from dprelease.wire.call import caller
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import release_pb2
from dprelease.wire.v1.coordination_pb2_grpc import AlignmentServiceServicer


@dataclass
class FakeAlignments(AlignmentServiceServicer):
    """Runs that hospitals are told.

    Attributes:
        records: run to record; states are changed by the test, or by what hospitals say.
        heard: party, method and request of every call but ListRuns.
        finished: run to the parties that have the result.
        ends: whether a run is done once all parties have the result.
    """

    records: dict[str, release_pb2.AgreementRecord] = field(default_factory=dict)
    heard: list[tuple[str, str, Any]] = field(default_factory=list)
    finished: dict[str, set[str]] = field(default_factory=dict)
    ends: bool = True

    def propose(self, task: Task) -> str:
        """Offer a run; its digest."""
        self.records[task.digest()] = release_pb2.AgreementRecord(
            proposal=task.to_bytes(), state=release_pb2.RUN_STATE_PROPOSED
        )
        return task.digest()

    def move(self, run: str, state: str, explanation: str = "because a test says so") -> None:
        """Tell another state, true or not."""
        self.records[run].state = release_pb2.RunState.Value(f"RUN_STATE_{state}")
        self.records[run].explanation = explanation

    def said(self, method: str) -> list[tuple[str, Any]]:
        return [(party, request) for party, name, request in self.heard if name == method]

    def ListRuns(self, request: Any, context: Any) -> pb.ListAgreementsResponse:
        caller(context, "party")
        return pb.ListAgreementsResponse(agreements=list(self.records.values()))

    def AcceptRun(self, request: Any, context: Any) -> pb.ApproveResponse:
        self._note("AcceptRun", request, context)
        self.take(request.signed_consent)
        return pb.ApproveResponse()

    def take(self, data: bytes) -> None:
        """Keep an acceptance; all of them together start the run."""
        run = SignedAcceptance.from_bytes(data).acceptance.run
        record = self.records[run]
        if data not in record.consents:
            record.consents.append(data)
        if len(record.consents) == len(Task.from_bytes(record.proposal).members):
            self.move(run, "RUNNING")

    def DeclineRun(self, request: Any, context: Any) -> pb.DeclineResponse:
        self._note("DeclineRun", request, context)
        self.move(request.digest.hex(), "DECLINED")
        return pb.DeclineResponse()

    def FinishRun(self, request: Any, context: Any) -> pb.FinishRunResponse:
        party, run = self._note("FinishRun", request, context), request.run.hex()
        self.finished.setdefault(run, set()).add(party)
        if self.ends and len(self.finished[run]) == len(Task.from_bytes(self.records[run].proposal).members):
            self.move(run, "DONE")
        return pb.FinishRunResponse()

    def _note(self, method: str, request: Any, context: Any) -> str:
        party = caller(context, "party").name
        self.heard.append((party, method, request))
        return party
