"""What tables give away, and the refusal of a table or key that is not what its sender signed."""

from collections.abc import Callable

import numpy as np
import pytest

from dprelease.errors import IntegrityError
from dprelease.intersection.key_value_store import decode, labels_of, pseudorandom, rows_of
from dprelease.mpc.messages import Message
from dprelease.mpc.schedule import SEAL_BYTES
from tests.dprelease.intersection.conftest import SETS
from tests.dprelease.intersection.driver import Driver, side_of

TWO = {"a": [1, 2, 3], "b": [3, 1]}


def test_tables_tell_a_hospital_of_no_pair(finished: Driver) -> None:
    """Patient 1 is in a and c, patient 2 in a and b: what a can compute of shares for them is not in the sum of tables."""
    ours = side_of(finished, "a")
    table = np.bitwise_xor.reduce([side_of(finished, party).masked_table() for party in SETS])
    evaluations = ours.evaluations()
    order = ours.order(finished.elements["a"])
    found = decode(table, rows_of(evaluations, finished.ring.segment))
    labels = labels_of(evaluations)
    seeds = list(ours.at.shared_seeds("a", ours.session_key, "zero-share").values())
    terms = [pseudorandom(seed, labels) for seed in seeds]
    for place, name in enumerate(SETS["a"][position] for position in order):
        assert (found[place] == 0) == (name in (3, 9))
        if name in (1, 2):
            assert all(found[place] != term[place] for term in (*terms, terms[0] ^ terms[1]))


def test_a_table_or_key_of_another_making_is_refused() -> None:
    def altered(kind: str, change: Callable[[Message, bytes], bytes], words: str) -> None:
        driver = Driver(dict(TWO))
        while "b sends key" not in driver.told:
            driver.look("a")
            driver.look("b")
        header = next(each for each in driver.listed if (each.kind, each.sender) == (kind, "b"))
        message, body = driver.listed[header]
        driver.listed[header] = message, change(message, body)
        with pytest.raises(IntegrityError, match=words):
            driver.look("a")
        assert driver.storages["a"].read_private("common") is None

    altered(
        "table", lambda _, body: body[:9] + bytes([body[9] ^ 1]) + body[10:], "chunk 0 of the table of b was altered"
    )
    altered("table", lambda _, body: body[:-1], "a body ends before its last chunk")
    altered("key", lambda _, body: bytes([body[0] ^ 1]) + body[1:], "does not open as a table-key")
    assert SEAL_BYTES + 32 == 80
