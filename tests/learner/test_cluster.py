"""`learner fit --cluster`: the fit of one process, with sums that two workers behind TLS took."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

from dprelease.estimators import by_dask
from dprelease.mechanisms.noisy_rows import released
from dprelease.release import folder
from tests.learner.commands import EXIT, Run, runner
from tests.support.clusters import two_workers
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, new_consortium, publish


@pytest.fixture
def published(tmp_path: Path) -> tuple[Run, Path]:
    """Commands of somebody who trusts a consortium, and a release of it."""
    consortium = new_consortium("north", "south")
    spec = build_spec(mechanism="rows", rows=600, epsilon=100.0, keys=consortium.keys)
    made = publish(consortium, spec, SeededNoise(3))
    kept = made.write(tmp_path / "release")
    (tmp_path / "root.pem").write_text(made.root)
    run, mirror = runner(tmp_path / "home"), "https://mirror.example.org/trial"
    added = run("trust", "add", spec.consortium, "--root", tmp_path / "root.pem", "--mirror", mirror, "--yes")
    assert added.exit_code == 0, added.output
    return run, kept.path


def numbers(found: Any) -> Iterator[float]:
    """All in a part of a document."""
    if isinstance(found, dict | list):
        for each in found.values() if isinstance(found, dict) else found:
            yield from numbers(each)
    elif isinstance(found, float):
        yield found


def test_a_fit_is_that_of_one_process(
    published: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, path = published
    monkeypatch.setattr(folder, "IN_FILE_BYTES", 1)
    monkeypatch.setattr(released, "READ_BYTES", 1 << 12)
    fit = ("fit", path, "--target", "glucose", "--json")
    local = run(*fit)
    assert local.exit_code == 0, local.output
    with two_workers(tmp_path) as (address, files):
        tls = {"ca-file": files["ca"], "client.cert": files["certificate"], "client.key": files["key"]}
        with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in tls.items()}):
            found = run(*fit, "--cluster", address)
    assert found.exit_code == 0, found.output
    one, other = ([*numbers(json.loads(each.stdout)["coefficients"])] for each in (found, local))
    assert len(one) > 2
    np.testing.assert_allclose(one, other, rtol=1e-8)


def test_a_scheduler_without_workers_is_told(
    published: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a fit would wait for ever, and say nothing."""
    monkeypatch.setattr("learner.client.cluster.CONNECT_SECONDS", 2.0)
    run, path = published
    how = {"n_workers": 0, "processes": False, "protocol": "tcp://", "dashboard_address": ":0"}
    with LocalCluster(host="127.0.0.1", local_directory=str(tmp_path), **how) as made:
        result = run("fit", path, "--target", "glucose", "--cluster", made.scheduler_address)
    assert result.exit_code == EXIT["PeerUnavailable"], result.output
    assert "see that its scheduler and a worker run" in " ".join(result.stderr.split())


def test_a_fit_whose_workers_all_die_ends(
    published: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that are killed at their first rows, and that nobody starts anew."""

    def dying(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(by_dask, "_read", dying)
    monkeypatch.setattr(by_dask, "_LOOK_SECONDS", 0.5)
    monkeypatch.setattr(by_dask, "LONGEST_WITHOUT_WORKERS", 1.0)
    run, path = published
    how = {"n_workers": 0, "processes": False, "protocol": "tcp://", "dashboard_address": ":0"}
    with LocalCluster(host="127.0.0.1", local_directory=str(tmp_path), silence_logs=logging.CRITICAL, **how) as made:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", made.scheduler_address, "--no-nanny"]
        command += ["--no-dashboard", "--nthreads", "1", "--local-directory", str(tmp_path)]
        workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            with Client(made.scheduler_address) as client:
                client.wait_for_workers(2, timeout=60)
            result = run("fit", path, "--target", "glucose", "--cluster", made.scheduler_address)
            assert [each.wait(timeout=60) for each in workers] == [-signal.SIGKILL] * 2
        finally:
            for each in workers:
                each.kill()
        assert not made.scheduler.workers
    assert result.exit_code == EXIT["PeerUnavailable"], result.output
    assert "has had no worker for 1 seconds" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("address", "says", "error"),
    [
        ("tcp://10.0.0.5:8786", "over TLS alone", "InvalidInput"),
        ("tcp://127.0.0.1:1", "does not answer", "PeerUnavailable"),
    ],
)
def test_a_cluster_is_refused(
    published: tuple[Run, Path], address: str, says: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learner.client.cluster.CONNECT_SECONDS", 0.2)
    run, path = published
    result = run("fit", path, "--target", "glucose", "--cluster", address)
    assert result.exit_code == EXIT[error], result.output
    assert says in " ".join(result.stderr.split())
