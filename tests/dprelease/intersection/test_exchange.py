"""Secrets of a session are the same after a restart, and others in every session and for every purpose."""

import pytest

from dprelease.errors import InvalidInput
from dprelease.intersection.exchange import chunks, counts
from tests.dprelease.intersection.conftest import SETS
from tests.dprelease.intersection.driver import Driver, array, element, side_of


def test_a_restart_has_the_same_secrets_and_no_two_are_alike(finished: Driver) -> None:
    purposes = ("scalar", "blinding", "order", "filler", "content-key")
    secrets = {(party, each): side_of(finished, party).secret(each) for party in SETS for each in purposes}
    assert {side_of(finished, party).secret(each) == secrets[party, each] for party, each in secrets} == {True}
    other = Driver(dict(SETS))
    other.run()
    assert len({*secrets.values(), *(side_of(other, *key[:1]).secret(key[1]) for key in secrets)}) == 2 * len(secrets)


def test_the_order_is_a_secret_permutation_of_just_these_elements(finished: Driver) -> None:
    side = side_of(finished, "a")
    order = side.order(finished.elements["a"])
    assert sorted(order) == [0, 1, 2, 3]
    assert list(order) == list(side_of(finished, "a").order(finished.elements["a"]))
    with pytest.raises(InvalidInput, match="the patients changed"):
        side.order(finished.elements["a"][::-1].copy())


def test_rows_are_cut_into_chunks_of_known_sizes() -> None:
    rows = array(map(element, range(5)))
    assert [len(chunk) for chunk in chunks(rows, 2)] == [64, 64, 32] == [32 * count for count in counts(5, 2)]
    assert b"".join(chunks(rows, 2)) == rows.tobytes()
