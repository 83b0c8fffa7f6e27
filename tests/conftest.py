"""The same examples, and the same width of a terminal, wherever the tests run.

Hypothesis runs the same examples every time, keeps no database and measures no time.
"""

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from dprelease.threads import start_with_one
from tests.support.chains import chains
from tests.support.postgres import Cluster, cluster

os.environ["COLUMNS"] = "160"
start_with_one()  # as every command does: workers beside one another are busy processes too

# What is written durably waits for the disk longer than most tests compute: folders of tests lie in memory where there is room.
MEMORY, ENOUGH_BYTES = Path("/dev/shm"), 4 << 30  # noqa: S108 - pytest makes folders of its own within it
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=30)
settings.load_profile("repeatable")
# Constants in our own files would be examples too: others in each worker, by what it has imported, after seconds of parsing.
providers.is_local_module_file = lambda path: False


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Every other worker imports all tests from the last to the first: what one compiles, the others find compiled.

    Nothing that is imported is ever garbage, and to look for it takes a sixth of the time.
    """
    gc.disable()
    worker, root = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), session.config.rootpath
    if int(worker.removeprefix("gw")) % 2 and session.config.args == ["tests"]:
        for path in sorted(root.glob("tests/**/test_*.py"), reverse=True):
            with suppress(Exception, pytest.skip.Exception):  # whoever collects it says so
                import_module(".".join(path.relative_to(root).with_suffix("").parts))
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests wait for processes are spread among the others: the core that one worker leaves, another one takes."""
    files: dict[Path, list[pytest.Item]] = {}
    root = Path(__file__).parent
    for item in sorted(items, key=lambda item: item.path.parent != root):  # R is in a file of ours, and takes long
        files.setdefault(item.path, []).append(item)
    kinds: dict[bool, list[list[pytest.Item]]] = {True: [], False: []}
    for own in files.values():
        kinds[own[0].get_closest_marker("end_to_end") is not None].append(own)
    placed = [(place / len(kind), own) for kind in kinds.values() for place, own in enumerate(kind)]
    items[:] = [item for _, own in sorted(placed, key=lambda each: each[0]) for item in own]


@pytest.fixture
def short_chains() -> Iterator[None]:
    """For what holds wherever the chains have got to."""
    with chains(20, 10):
        yield


@pytest.fixture
def loose_umask() -> Iterator[None]:
    """As of a shell that lets everybody read and write what it makes."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL server for all tests of a process; those that need it are skipped where it cannot be had."""
    with cluster() as started:
        yield started
