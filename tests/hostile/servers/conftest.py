"""One site for all attacks of a run. A role that an attack kills or freezes is started again for the next one."""

import asyncio
import resource
import sys
from collections.abc import Iterator

import pytest

from tests.hostile.servers.site import Site

if sys.platform != "linux":  # only there every address 127.x.y.z is this machine's
    collect_ignore_glob = ["test_*"]

QUICK = "least_kib_per_second = 512\nstop_seconds = 2"
"""So that slow readers are cut within seconds."""


@pytest.fixture(scope="package", autouse=True)
def _many_connections() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.fixture(scope="package")
def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site"), QUICK) as site:
        yield site


@pytest.fixture
def site(_started: Site) -> Iterator[Site]:
    """Both roles run before an attack, and after it they serve."""
    yield _started
    try:
        assert _started.alive("hub")
        assert _started.alive("coordinator")
        asyncio.run(_started.all_served())
    except BaseException:
        for role in ("coordinator", "hub"):
            _started.processes.kill(role)
            _started.processes.restart(role)
        asyncio.run(_started.connected())
        raise
