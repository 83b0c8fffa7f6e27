"""The fields of a message are counted on its bytes, nested ones too; what a peer sends costs no more than its bytes."""

import subprocess
import sys

import pytest

from dprelease.errors import InvalidInput
from dprelease.wire.elements import MOST_ANSWER_FIELDS, MOST_REQUEST_FIELDS, check_fields, measuring
from dprelease.wire.limits import LONG_BYTES
from dprelease.wire.v1 import coordination_pb2, release_pb2

Listed = coordination_pb2.ListAgreementsResponse
KIND = Listed.DESCRIPTOR


def test_nested_fields_count_like_their_own() -> None:
    record = release_pb2.AgreementRecord(proposal=b"p", state=3, consents=[b"a", b"b"], explanation="e")
    data = Listed(agreements=[record, record], next_page_token="next").SerializeToString()
    check_fields(data, KIND, 13)
    check_fields(data, None, 3)
    with pytest.raises(InvalidInput, match="more than 12 fields"):
        check_fields(data, KIND, 12)
    with pytest.raises(InvalidInput, match="more than 2 fields"):
        check_fields(data, None, 2)


@pytest.mark.parametrize(
    "item",
    [
        b"\x0a\x00",
        b"\x78\x00",
        b"\x7b\x7c",
        b"\x7d" + bytes(4),
        b"\x79" + bytes(8),
        b"\x0a\x08" + b"\x1a\x00" * 4,
        b"\x0a\x80\x00",
    ],
    ids=["empty items", "numbers of nobody", "groups", "4 bytes", "8 bytes", "items of items", "long lengths"],
)
def test_a_million_of_anything_is_refused(item: bytes) -> None:
    with pytest.raises(InvalidInput, match="fields"):
        check_fields(item * 1_000_000, KIND, MOST_ANSWER_FIELDS)


@pytest.mark.parametrize("end", [b"\x0a\x7f", b"\x0a" + b"\xff" * 20, b"\x07", b"\x0a", b"\xff" * 11])
def test_bytes_that_are_no_message_are_left_to_the_parser(end: bytes) -> None:
    check_fields(end, KIND, 10)
    with pytest.raises(InvalidInput, match="fields"):  # what stands before them was parsed already
        check_fields(b"\x0a\x00" * 20 + end, KIND, 10)
    with pytest.raises(InvalidInput, match="fields"):
        check_fields(b"\x0a\x28" + b"\x1a\x00" * 20 + end, KIND, 10)


FULL = f"""
import resource
from dprelease.errors import InvalidInput
from dprelease.wire.elements import MOST_ANSWER_FIELDS, measuring
from dprelease.wire.v1.coordination_pb2 import ListAgreementsResponse as Listed
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
for item in (b"\\x0a\\x00" * ({LONG_BYTES} // 2), b"\\x0a\\x00" * (MOST_ANSWER_FIELDS)):
    try:
        list(measuring(Listed.FromString, MOST_ANSWER_FIELDS)(item).agreements)
    except InvalidInput:
        continue
print(peak() - before)
"""


def test_the_fullest_answer_takes_little_memory() -> None:
    out = subprocess.run([sys.executable, "-c", FULL], capture_output=True, check=True, text=True).stdout
    assert int(out) < 60 << 10  # KiB; two million empty items take 510 MiB once they are read


def test_the_fullest_honest_messages_pass() -> None:
    digests = coordination_pb2.ListAgreementsRequest(unsettled=[bytes(32)] * 500)
    read = measuring(coordination_pb2.ListAgreementsRequest.FromString, MOST_REQUEST_FIELDS)
    assert read(digests.SerializeToString()) == digests
    keys = coordination_pb2.ListRevokedResponse(keys=[bytes(32)] * 65_536)
    assert measuring(type(keys).FromString, MOST_ANSWER_FIELDS)(keys.SerializeToString()) == keys
