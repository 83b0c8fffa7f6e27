"""A consortium for one test: its processes end with the test, and the states that they leave are audited.

When a test fails, the last lines of every role's log are part of the report: what a role was doing cannot be asked later.
"""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from audit import audit
from demo.consortium import Consortium
from tests.support.forked import ForkedConsortium

LAST_LINES = 40


@pytest.fixture
def consortium(tmp_path: Path) -> Iterator[Consortium]:
    with ForkedConsortium(tmp_path / "consortium") as started:
        yield started
        assert audit(started.folder) == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    started = getattr(item, "funcargs", {}).get("consortium")
    if report.failed and isinstance(started, Consortium):
        for log in sorted(started.folder.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            report.sections.append((f"last lines of {log.name}", "\n".join(lines)))
    return report
