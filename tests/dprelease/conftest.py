"""Fixtures of all tests of the core."""

from collections.abc import Iterator

import pytest

from tests.support.chains import chains


@pytest.fixture
def half_chains() -> Iterator[None]:
    """As many draws as in production, of up to 16 variables, from chains of half the length."""
    with chains(40, 25):
        yield
