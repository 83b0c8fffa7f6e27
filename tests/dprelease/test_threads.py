"""Threads of the linear algebra in real processes of our commands, where nobody has set a variable."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from dprelease.threads import VARIABLES, WORTH_ALL_CORES
from learner.client.library import Opened
from tests.learner.moments import opened
from tests.learner.world import World
from tests.support.specs import numeric

CORES = os.cpu_count() or 1
ROLES = ("coordinator", "learner", "party_node")
COUNT = "sorted({library['num_threads'] for library in threadpool_info() if library['user_api'] == 'blas'})"
MOST = 1.5
"""Processor time beside that of one thread. Two threads that wait for one another take 3 to 5 times as much."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    place = tmp_path_factory.mktemp("threads")
    columns = {party: tuple(numeric(f"{party}_{i}", 0.0, 10.0) for i in range(6)) for party in ("north", "south")}
    return opened(World(place, columns), place, mechanism="ranges")


@pytest.fixture
def busy() -> Iterator[None]:
    """As many busy processes as cores."""
    with ExitStack() as stack:
        for _ in range(CORES):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a person who has set nothing but `more`."""
    return {name: value for name, value in os.environ.items() if name not in VARIABLES} | dict(more or {})


def printed(code: str, more: Mapping[str, str] | None = None) -> list[str]:
    run = [sys.executable, "-c", code]
    return subprocess.run(run, capture_output=True, text=True, check=True, env=environment(more)).stdout.splitlines()


@pytest.mark.parametrize("role", ROLES)
def test_a_command_starts_with_one_thread(role: str) -> None:
    code = f"""
from {role}.cli.main import main
main(["--help"], standalone_mode=False)
import numpy
from threadpoolctl import threadpool_info
print({COUNT})"""
    assert printed(code)[-1] == "[1]"


def test_a_large_product_takes_all_cores_and_gives_them_back() -> None:
    code = f"""
from dprelease.threads import for_product, start_with_one
start_with_one()
import numpy
from threadpoolctl import threadpool_info
with for_product({WORTH_ALL_CORES}):
    print({COUNT})
with for_product({WORTH_ALL_CORES - 1}):
    print({COUNT})
print({COUNT})"""
    assert printed(code) == [f"[{CORES}]", "[1]", "[1]"]


@pytest.mark.skipif(CORES < 2, reason="one core has one thread")
def test_a_variable_that_a_person_set_is_obeyed() -> None:
    code = f"""
from dprelease.threads import for_product, start_with_one
start_with_one()
import numpy
from threadpoolctl import threadpool_info
with for_product({WORTH_ALL_CORES}):
    print({COUNT})"""
    assert printed(code, {"OMP_NUM_THREADS": "2"}) == ["[2]"]
    assert printed(code, {"OPENBLAS_NUM_THREADS": "1"}) == ["[1]"]


def test_a_program_that_imports_the_library_keeps_its_threads() -> None:
    code = f"""
from dprelease.threads import for_product
import numpy
from threadpoolctl import threadpool_info
with for_product({WORTH_ALL_CORES}):
    print({COUNT})"""
    assert printed(code) == [f"[{CORES}]"]


@pytest.mark.slow
def test_reading_ranges_beside_busy_processes_takes_the_work_of_one_thread(release: Opened, busy: None) -> None:
    """Every core is busy meanwhile, also for tests beside it; that commands start with one thread is tested every time."""
    home = release.folder.path.parents[2] / "home"
    alone = processor_seconds(home, release.folder.path, {"OPENBLAS_NUM_THREADS": "1"})
    assert processor_seconds(home, release.folder.path, {}) < MOST * alone


def processor_seconds(home: Path, folder: Path, more: Mapping[str, str]) -> float:
    """User and system seconds of `learner verify`, which recomputes every range from its noisy counts."""
    run = [sys.executable, "-m", "learner", "--home", str(home), "verify", str(folder)]
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, env=environment(more))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime
