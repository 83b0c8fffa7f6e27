"""A cluster of the learner's own, whose workers take sums over many released rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from dprelease.errors import InvalidInput, PeerUnavailable
from dprelease.files.extras import imported
from dprelease.release.release import Release
from dprelease.wire.transport import check_cluster

CONNECT_SECONDS = 10.0


@contextmanager
def on_cluster(release: Release, address: str | None) -> Iterator[Release]:
    """The release, whose sums the cluster takes for as long as this lasts; as it is without an address.

    Args:
        release: whose blocks the workers see at the same path.
        address: of the scheduler; dask's own configuration names the certificates.

    Raises:
        InvalidInput: dask is not installed, or the address is none of a scheduler behind TLS or on this machine.
        PeerUnavailable: the scheduler does not answer, or has no worker.
    """
    if address is None:
        yield release
        return
    distributed = imported("distributed")
    try:
        check_cluster(address)
    except ValueError as error:
        raise InvalidInput(f"--cluster {address}", [str(error)]) from error
    with ExitStack() as running:
        try:
            client = running.enter_context(distributed.Client(address, timeout=CONNECT_SECONDS))
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except Exception as error:
            raise PeerUnavailable(
                f"the cluster at {address} does not answer ({type(error).__name__}): see that its scheduler and a worker run, and "
                "that dask's configuration names the certificates (distributed.comm.tls)",
                peer="the cluster",
            ) from error
        yield replace(release, engine="dask")
