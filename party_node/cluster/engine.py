"""A hospital's functions of pieces, here or on a cluster of dask.distributed; results are the same to the bit.

The scheduler of the cluster decides which worker runs what, and again where one was lost. Nothing here does. A few pieces are under
way at a time, and results are taken in order, so memory is bounded here, at the scheduler and at the workers.

Workers get the rules of reading, cells without identifiers, codes and public seeds, and of a session masked columns of peers and
seeds of our masks: docs/guarantees.md, "Whom to trust for what".
Connections are TLS on both sides. Only a cluster on this machine may do without, by its address of loopback.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from dprelease.arrays import PieceMap, one_by_one
from dprelease.errors import PeerUnavailable
from dprelease.files.extras import require
from dprelease.version import __version__, check_worker
from party_node.settings import ClusterSettings, PartySettings

AHEAD = 2
"""Pieces under way for each thread of the workers."""

_LARGEST_MESSAGE = "1GiB"
"""A piece travels with its task, so that it can be run again elsewhere; dask warns of such tasks from 10 MB on."""

Item = TypeVar("Item")
Found = TypeVar("Found")


@contextmanager
def engine(settings: PartySettings) -> Iterator[PieceMap]:
    """The engine that party.toml names; a cluster is called when the first piece is there, and left at the end.

    Raises:
        InvalidInput: the package of the cluster's client is not installed.
    """
    if settings.engine == "local" or settings.cluster is None:
        yield one_by_one
        return
    require("distributed")
    cluster = Cluster(settings.cluster)
    try:
        yield cluster.map
    finally:
        cluster.close()


class Cluster:
    """A cluster's client."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._client: Any = None

    def map(self, function: Callable[[Item], Found], items: Iterable[Item], /) -> Iterator[Found]:
        """`PieceMap` of the cluster.

        Raises:
            PeerUnavailable: the cluster is away, refuses us, or lost its workers; trouble of the source keeps its own class.
        """
        waiting = deque[Any]()
        try:
            for item in items:
                waiting.append(self._asked(partial(_submitted, function, item)))
                # Workers come and go.
                if len(waiting) >= AHEAD * max(1, sum(self._asked(lambda client: client.nthreads()).values())):
                    yield self._taken(waiting.popleft())
            while waiting:
                yield self._taken(waiting.popleft())
        finally:
            for future in waiting:
                future.release()

    def close(self) -> None:
        """Leave the cluster; pieces that are under way are let go."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:
        if self._client is None:
            import dask.config
            from distributed import Client, Security

            dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGEST_MESSAGE})
            at = self._settings
            files = {"tls_ca_file": at.ca, "tls_client_cert": at.certificate, "tls_client_key": at.key}
            how: dict[str, Any] = {"timeout": at.connect_seconds, "set_as_default": False}
            if at.encrypted:
                how["security"] = Security(require_encryption=True, **{name: str(path) for name, path in files.items()})
            self._client = Client(at.address, **how)
        return self._client

    def _taken(self, future: Any) -> Any:
        """The result of a piece; raises what its function raised."""
        error, found = self._asked(lambda _: future.result(timeout=self._settings.stall_seconds))
        if error is not None:
            raise error
        return found

    def _asked(self, ask: Callable[[Any], Found]) -> Found:
        """An answer of the cluster: whatever goes wrong in here is its trouble, for a function's own errors are results."""
        try:
            return ask(self._connected())
        except Exception as error:
            raise PeerUnavailable(
                f"the cluster at {self._settings.address} does not serve ({type(error).__name__}): see that its scheduler and "
                "workers run, that they have this version of dprelease, and that certificates are right; it is asked again",
                peer="the cluster",
            ) from None


def _submitted(function: Callable[[Item], Found], item: Item, client: Any) -> Any:
    """The future of a function of an item, or of its error."""
    return client.submit(_outcome, function, item, __version__, pure=False)


def _outcome(function: Callable[[Item], Found], item: Item, version: str) -> tuple[Exception | None, Found | None]:
    """Run on a worker: the result or the error of a function, so that nobody takes the one's trouble for the other's."""
    check_worker(version)
    try:
        return None, function(item)
    except Exception as error:
        return error, None
