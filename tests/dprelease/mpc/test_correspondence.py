"""Secrets of a session are the same after a restart, and others in every session and for every purpose."""

from tests.dprelease.intersection.conftest import SETS
from tests.dprelease.intersection.driver import Driver, side_of


def test_a_restart_has_the_same_secrets_and_no_two_are_alike() -> None:
    purposes = ("scalar", "blinding", "order", "filler", "content-key")
    drivers = [Driver({name: SETS[name] for name in "ab"}) for _ in range(2)]
    for driver in drivers:
        driver.run()
    secrets = [[side_of(each, party).secret(what) for party in "ab" for what in purposes] for each in drivers]
    assert secrets[0] == [side_of(drivers[0], party).secret(what) for party in "ab" for what in purposes]
    assert len({*secrets[0], *secrets[1]}) == 20
