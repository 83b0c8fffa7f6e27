"""A finished run of three, in which pairs have more in common than all."""

import pytest

from tests.dprelease.intersection.driver import Driver

SETS = {"a": [1, 2, 3, 9], "b": [9, 2, 3], "c": [3, 1, 9]}


@pytest.fixture(scope="package")
def finished() -> Driver:
    driver = Driver(dict(SETS))
    assert driver.run() == {name: {3, 9} for name in SETS}
    return driver
