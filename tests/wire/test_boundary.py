"""The edge of a server: protocol version first, then the caller's name and role, then one row of the status table."""

import logging
from collections.abc import Iterator

import grpc
import pytest

from dprelease.errors import AccessDenied, Conflict, DpReleaseError, InternalError, Unauthenticated, VersionMismatch
from dprelease.identity.certificates import Identity, Role
from dprelease.wire.boundary import (
    ACCEPTED,
    ACCEPTED_VERSIONS,
    CALL_SECONDS,
    LOCAL,
    PROTOCOL_VERSION,
    TABLE,
    VERSION,
    VERSION_KEY,
    advice,
    check_version,
    translated,
)
from dprelease.wire.call import caller
from dprelease.wire.listener import Listener
from dprelease.wire.transport import connect
from dprelease.wire.v1 import coordination_pb2, public_pb2, public_pb2_grpc
from tests.support.certificates import HOST, Authority, Member
from tests.wire.conftest import CoordinationStub, Desk, Shelf

REQUEST = coordination_pb2.DeclineRequest(reason="not yet")
Metadata = tuple[tuple[str, str], ...]


@pytest.fixture
def channel(running: Listener, authority: Authority, party: Member) -> Iterator[grpc.Channel]:
    with connect(f"{HOST}:{running.port}", party.credentials(authority.root)) as channel:
        yield channel


def decline(channel: grpc.Channel, metadata: Metadata = VERSION) -> None:
    with translated("the coordinator"):
        CoordinationStub(channel).Decline(REQUEST, timeout=CALL_SECONDS, metadata=metadata)


@pytest.mark.parametrize("version", sorted(ACCEPTED_VERSIONS))
def test_accepted_versions_pass(version: int) -> None:
    assert check_version([("user-agent", "x"), (VERSION_KEY, str(version))]) == version


def test_a_server_takes_its_own_version_and_the_one_before() -> None:
    assert {PROTOCOL_VERSION, PROTOCOL_VERSION - 1} == ACCEPTED_VERSIONS


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        [(VERSION_KEY, "")],
        [(VERSION_KEY, "0")],
        [(VERSION_KEY, str(PROTOCOL_VERSION + 1))],
        [(VERSION_KEY, f" {PROTOCOL_VERSION}")],
        [(VERSION_KEY, "one")],
        [(VERSION_KEY, b"1")],
        [(VERSION_KEY, "9" * 5000)],
        [*VERSION, *VERSION],
    ],
)
def test_missing_malformed_doubled_and_other_versions_are_refused(metadata: list[tuple[str, str | bytes]]) -> None:
    with pytest.raises(VersionMismatch):
        check_version(metadata)


@pytest.mark.parametrize(
    ("said", "words"),
    [("0", "update the caller"), ("999", "update the software on this side"), ("", "says .* for its protocol version")],
)
def test_the_log_of_a_server_says_who_has_to_be_updated(said: str, words: str) -> None:
    with pytest.raises(VersionMismatch, match=words):
        check_version([(VERSION_KEY, said)])


@pytest.mark.parametrize(
    ("accepted", "words"),
    [
        (ACCEPTED, ""),
        (f"{PROTOCOL_VERSION},{PROTOCOL_VERSION + 1}", ""),
        (f"{PROTOCOL_VERSION + 1},{PROTOCOL_VERSION + 2}", "update the software on this side"),
        (f"{PROTOCOL_VERSION - 2},{PROTOCOL_VERSION - 1}", "it has to be updated"),
        ("", "it is older than protocol"),
        ("1, 2", "it is older than protocol"),
        ("9" * 5000, "it is older than protocol"),
    ],
)
def test_a_client_says_who_has_to_be_updated(accepted: str, words: str) -> None:
    assert words in advice(accepted)
    assert bool(advice(accepted)) == bool(words)


def test_a_call_with_the_version_reaches_the_handler(channel: grpc.Channel, hospital_state: Desk) -> None:
    heard: list[str] = []
    hospital_state.answer = lambda request, context: heard.append(request.reason)
    decline(channel)
    assert heard == ["not yet"]


@pytest.mark.parametrize("metadata", [(), ((VERSION_KEY, "999"),)])
def test_a_call_without_the_version_never_reaches_the_handler(
    channel: grpc.Channel, hospital_state: Desk, metadata: Metadata
) -> None:
    heard: list[str] = []
    hospital_state.answer = lambda request, context: heard.append(request.reason)
    with pytest.raises(VersionMismatch):
        decline(channel, metadata)
    assert heard == []


def test_a_stream_without_the_version_never_reaches_the_handler(channel: grpc.Channel, shelf: Shelf) -> None:
    asked: list[str] = []

    def chunks() -> Iterator[public_pb2.DownloadBlockResponse]:
        asked.append("asked")
        yield public_pb2.DownloadBlockResponse()

    shelf.chunks = chunks
    stub = public_pb2_grpc.PublicServiceStub(channel)
    with pytest.raises(VersionMismatch), translated("the hub"):
        list(stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=CALL_SECONDS))
    assert asked == []


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.error.__name__)
def test_a_raised_error_arrives_as_the_same_class_unless_it_is_ours_to_raise(
    channel: grpc.Channel, hospital_state: Desk, row
) -> None:  # type: ignore[no-untyped-def]
    def answer(request: object, context: object) -> None:
        raise row.error("cell 4711")

    hospital_state.answer = answer
    with pytest.raises(Conflict if row.error in LOCAL else row.error) as caught:
        decline(channel)
    assert caught.value.message == f"the coordinator: {row.sentence}"


def test_an_unforeseen_error_arrives_without_its_words(
    channel: grpc.Channel, hospital_state: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: object, context: object) -> None:
        raise ZeroDivisionError("cell 4711")

    hospital_state.answer = answer
    with caplog.at_level(logging.ERROR), pytest.raises(InternalError) as caught:
        decline(channel)
    assert "4711" not in caught.value.message
    assert "Decline failed" in caplog.text  # the office finds it in its own log


def test_an_error_within_a_stream_arrives_after_what_was_sent(channel: grpc.Channel, shelf: Shelf) -> None:
    def chunks() -> Iterator[public_pb2.DownloadBlockResponse]:
        yield public_pb2.DownloadBlockResponse()
        raise Conflict("changed meanwhile")

    shelf.chunks = chunks
    stub = public_pb2_grpc.PublicServiceStub(channel)
    answers = stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=CALL_SECONDS, metadata=VERSION)
    assert next(answers) == public_pb2.DownloadBlockResponse()
    with pytest.raises(Conflict), translated("the hub"):
        next(answers)


def test_a_method_that_is_not_there_reads_as_another_version(channel: grpc.Channel) -> None:
    later = channel.unary_unary("/dprelease.wire.v2.CoordinationService/Decline")
    with pytest.raises(VersionMismatch, match="protocol versions do not match"), translated("the coordinator"):
        later(b"", timeout=CALL_SECONDS, metadata=VERSION)


def identities(hospital_state: Desk, channel: grpc.Channel, *roles: Role) -> Identity:
    seen: list[Identity] = []
    hospital_state.answer = lambda request, context: seen.append(caller(context, *roles))
    decline(channel)
    return seen[0]


def test_the_caller_is_whoever_the_certificate_names(
    channel: grpc.Channel, hospital_state: Desk, party: Member
) -> None:
    identity = identities(hospital_state, channel, "party", "hub")
    assert (identity.name, identity.role, identity.fingerprint) == ("north", "party", party.fingerprint)


def test_another_role_is_denied(channel: grpc.Channel, hospital_state: Desk) -> None:
    with pytest.raises(AccessDenied):
        identities(hospital_state, channel, "hub")


@pytest.mark.parametrize("role", [None, "director"])
def test_a_certificate_without_a_role_of_ours_is_no_identity(
    running: Listener, authority: Authority, hospital_state: Desk, role: str | None
) -> None:
    stranger = authority.member("north", role)
    with (
        connect(f"{HOST}:{running.port}", stranger.credentials(authority.root)) as channel,
        pytest.raises(Unauthenticated),
    ):
        identities(hospital_state, channel, "party")


def test_translated_leaves_other_errors_alone() -> None:
    with pytest.raises(KeyError), translated("the hub"):
        raise KeyError("x")
    with pytest.raises(DpReleaseError, match="as it is"), translated("the hub"):
        raise Conflict("as it is")
