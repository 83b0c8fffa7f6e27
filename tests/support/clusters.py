"""Clusters of dask.distributed: scheduler and worker processes on this machine, behind TLS."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, Security

from tests.support.certificates import Member, certify


def authority() -> Member:
    """Whoever signs for a cluster."""
    now = datetime.now(UTC)
    return certify("cluster", None, authority=True, start=now - timedelta(days=1), end=now + timedelta(days=1))


def member(folder: Path, name: str, by: Member) -> dict[str, str]:
    now = datetime.now(UTC)
    made = certify(name, None, by=by, address=True, start=now - timedelta(days=1), end=now + timedelta(days=1))
    files = {"ca": by.certificate, "certificate": made.certificate, "key": made.key_pem.decode()}
    for what, text in files.items():
        (folder / f"{name}.{what}").write_text(text)
    return {what: str(folder / f"{name}.{what}") for what in files}


def security(files: dict[str, str]) -> Security:
    """Files of a member, as dask names them."""
    names = {
        f"tls_{of}_{kind}": files["certificate" if kind == "cert" else "key"]
        for of in ("scheduler", "worker", "client")
        for kind in ("cert", "key")
    }
    return Security(require_encryption=True, tls_ca_file=files["ca"], **names)


@contextmanager
def two_workers(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The scheduler's address, and the files of a member that may ask."""
    root = authority()
    workers, asking = member(folder, "workers", root), member(folder, "daemon", root)
    how: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(
        security=security(workers),
        protocol="tls://",
        host="127.0.0.1",
        local_directory=str(folder),
        silence_logs=logging.CRITICAL,
        **how,
    ) as made:
        yield made.scheduler_address, asking


def kill_one(client: Client) -> int:
    """End one of the cluster's worker processes, as a loss of power does; its id."""
    process: int = next(iter(client.run(os.getpid).values()))
    os.kill(process, signal.SIGKILL)
    return process
