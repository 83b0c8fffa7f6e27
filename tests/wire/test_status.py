"""The status table: complete, unambiguous, and the same error on both sides of a wire."""

import inspect
import re
from pathlib import Path

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from dprelease import errors
from dprelease.errors import DpReleaseError, InternalError, InvalidInput, PeerUnavailable, VersionMismatch
from dprelease.wire.boundary import DOMAIN, LOCAL, TABLE, diagnose, exit_code, from_wire, row_for, to_wire
from party_node.computation.work import Work

CLASSES = {
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, DpReleaseError) and kind is not DpReleaseError
}


class Failed(grpc.RpcError):
    def __init__(self, status: grpc.Status) -> None:
        self._status = status

    def code(self) -> grpc.StatusCode:
        return self._status.code

    def details(self) -> str:
        return self._status.details

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        return tuple(self._status.trailing_metadata)


class Bare(grpc.RpcError):
    """A failure that gRPC made itself, without a row of ours."""

    def __init__(self, code: grpc.StatusCode, details: str | None = "") -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str | None:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        return ()


def test_every_error_has_exactly_one_row_and_every_row_an_error() -> None:
    assert [row.error for row in TABLE] == list(dict.fromkeys(row.error for row in TABLE))
    of_their_base_class = {errors.OutOfTurn, errors.Irreparable}
    assert {row.error for row in TABLE} == CLASSES - of_their_base_class


def test_exit_codes_tell_errors_apart_and_are_none_of_the_shells_own() -> None:
    codes = [row.exit_code for row in TABLE]
    assert len(set(codes)) == len(codes)
    assert all(code == 2 or 10 <= code < 64 for code in codes)
    assert exit_code(InvalidInput("x")) == 2  # click's own code for a wrong command line


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.error.__name__)
def test_an_error_crosses_the_wire_as_its_class_with_the_tables_sentence_alone(row) -> None:  # type: ignore[no-untyped-def]
    status = to_wire(row.error("patient 4711 of /srv/rows.csv"))
    assert (status.code, status.details) == (row.code, row.sentence)
    assert b"4711" not in b"".join(value for _, value in status.trailing_metadata)
    arrived = from_wire(Failed(status), "the hub")
    assert type(arrived) is (errors.Conflict if row.error in LOCAL else row.error)
    assert arrived.message == f"the hub: {row.sentence}"
    assert getattr(arrived, "peer", "") == ("the hub" if issubclass(row.error, PeerUnavailable) else "")


def test_no_peer_speaks_for_our_own_table_policy_or_budget() -> None:
    """The daemon declines and withdraws upon these, and upon nothing below or above them."""
    handled = {errors.DataRefused, errors.SpecRefused, errors.PolicyRefused, errors.BudgetExceeded}
    assert handled == LOCAL == Work.declines
    for row in TABLE:
        assert not isinstance(from_wire(Failed(to_wire(row.error("x"))), "the hub"), tuple(LOCAL))


@pytest.mark.parametrize("error", [ValueError("cell 4711"), KeyError("subject 4711"), DpReleaseError("row 4711")])
def test_what_is_not_in_the_table_is_an_internal_error_without_its_words(error: Exception) -> None:
    status = to_wire(error)
    assert status.code == grpc.StatusCode.INTERNAL
    assert "4711" not in status.details
    assert type(from_wire(Failed(status), "the hub")) is InternalError
    assert exit_code(error) == 21


def test_a_subclass_takes_the_row_of_its_nearest_ancestor() -> None:
    class Narrow(errors.NotFound):
        pass

    assert row_for(Narrow("x")).error is errors.NotFound


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, VersionMismatch),
        (grpc.StatusCode.UNAVAILABLE, PeerUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, PeerUnavailable),
        (grpc.StatusCode.CANCELLED, PeerUnavailable),
        (grpc.StatusCode.INTERNAL, InternalError),
        (grpc.StatusCode.UNKNOWN, InternalError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, InternalError),
    ],
)
def test_a_failure_that_grpc_made_itself_has_a_class_too(code: grpc.StatusCode, kind: type[DpReleaseError]) -> None:
    error = from_wire(Bare(code, None), "the hub")
    assert type(error) is kind
    assert error.message.startswith("the hub")
    assert not isinstance(error, PeerUnavailable) or error.peer == "the hub"


@pytest.mark.parametrize(("reason", "domain"), [("NotFound", "elsewhere"), ("SystemExit", DOMAIN), ("", DOMAIN)])
def test_only_our_own_names_become_classes(reason: str, domain: str) -> None:
    status = rpc_status.status_pb2.Status(code=13, message="x")
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain))
    status.details.append(detail)
    assert type(from_wire(Failed(rpc_status.to_status(status)), "the hub")) is InternalError


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ("ssl: WRONG_VERSION_NUMBER: tls_record.cc", "does not speak TLS"),
        ("Ssl handshake failed: CERTIFICATE_VERIFY_FAILED", "not from the expected consortium"),
        ("failed to connect: Connection refused", "nothing listens there"),
        ("DNS resolution failed", "host name is not known"),
        (
            "[field:hostname lookup error:address lookup failed for x:1: Domain name not found]",
            "host name is not known",
        ),
        ("Hostname Verification Check failed.", "does not name this host"),
        ("Socket closed", "refused our certificate"),
        ("Deadline Exceeded", "did not answer in time"),
        ("tcp handshaker shutdown", "cannot be reached now (tcp handshaker shutdown)"),
        ("", "cannot be reached now"),
    ],
)
def test_transport_errors_are_told_in_words_that_help(details: str, words: str) -> None:
    assert words in diagnose(details)


def test_every_exit_code_is_told_to_whoever_runs_a_node() -> None:
    said = (Path(__file__).parents[2] / "docs" / "party.md").read_text(encoding="utf-8").split("## Exit codes")[1]
    assert {row.exit_code for row in TABLE} == {int(number) for number in re.findall(r"\b\d+\b", said)} - {0}
