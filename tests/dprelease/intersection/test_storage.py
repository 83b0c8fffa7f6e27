"""Secrets of a round are gone with it."""

from secrets import token_bytes

from dprelease.intersection.storage import MemoryRunStorage


def test_private_files_belong_to_their_round() -> None:
    storage = MemoryRunStorage()
    storage.begin(1, token_bytes)
    assert storage.read_private("common") is None
    storage.write_private("common", iter((b"a", b"b")))
    assert storage.read_private("common") == b"ab"
    storage.begin(2, token_bytes)
    assert storage.read_private("common") is None
