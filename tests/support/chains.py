"""Shorter chains of posterior draws, for tests that do not ask how well production's mix."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dprelease.estimators.evidence import evidence


@contextmanager
def chains(warm_up: int, kept: int) -> Iterator[None]:
    """Posteriors of chains with other numbers of turns.

    Args:
        warm_up: turns that are thrown away; production's are 80.
        kept: turns that are kept of each chain; production's are 50.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "WARM_UP", warm_up)
        patch.setattr(evidence, "KEPT", kept)
        evidence._draw.cache_clear()
        yield
    evidence._draw.cache_clear()
