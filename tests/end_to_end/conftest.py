"""A consortium for one test: its processes end with the test, and the states that they leave are audited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from audit import audit
from demo.consortium import Consortium


@pytest.fixture
def consortium(tmp_path: Path) -> Iterator[Consortium]:
    with Consortium(tmp_path / "consortium") as started:
        yield started
        assert audit(started.folder) == []
