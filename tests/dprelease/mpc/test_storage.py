"""Storage in memory keeps what it is given, and a round begins with a key of its own and nothing else."""

from secrets import token_bytes

from dprelease.canonical import sha256
from dprelease.mpc.messages import Message, MessageHeader, name_of
from dprelease.mpc.storage import MemorySessionStorage


def test_a_round_begins_with_a_key_of_its_own_and_nothing_else() -> None:
    storage, body = MemorySessionStorage(), b"sealed"
    assert (storage.state(), storage.messages(), storage.dealt("c")) == (None, (), None)
    first = storage.begin(1, token_bytes)
    header = MessageHeader(
        task="5e" * 32,
        round=1,
        session="77" * 32,
        kind="deal",
        sender="a",
        receivers=("b",),
        size=6,
        sha256=sha256(body),
    )
    message = Message(header=header, signature="00")
    storage.keep_body(name_of(header), body)
    storage.freeze([message])
    storage.keep_dealt("c", b"dealt")
    assert storage.read_private("common") is None
    storage.write_private("common", iter((b"a", b"b")))
    assert storage.read_private("common") == b"ab"
    assert (storage.messages(), storage.read_body(message), storage.dealt("c")) == ((message,), body, b"dealt")
    storage.write_body(name_of(header), iter((b"other ", b"body")))
    assert storage.read_body(message) == b"other body"
    second = storage.begin(2, token_bytes, first.refused + 1)
    assert (first.round, second.round, storage.state()) == (1, 2, second)
    assert first.key != second.key
    assert (first.refused, second.refused, storage.read_private("common")) == (0, 1, None)
    assert (storage.messages(), storage.read_body(message), storage.dealt("c")) == ((), b"", None)
