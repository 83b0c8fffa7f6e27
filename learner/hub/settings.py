"""hub.toml: what whoever runs the hub decides. Sample: deploy/hub.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from dprelease.data.columns import Name
from dprelease.files.settings import LocalPath, Settings
from dprelease.wire.retry import STALL_SECONDS


class HubLimits(Settings):
    """Limits of the hub.

    Attributes:
        stall_seconds: how long a stream may stand still before it is cut.
        least_kib_per_second: how slowly a download may be taken before it is cut.
        party_workers: threads for parties' calls; held while a disk or the coordinator is waited for, never by a caller.
        public_workers: threads for the public's calls; likewise.
        storage_limit_gib: most that parcels and staged and published blocks may take together, in GiB.
        sweep_seconds: how often the coordinator is asked about releases that wait, when nothing else happens.
        revocation_seconds: how often the coordinator is asked whose key was revoked.
        calls_per_second: of one party, or of one network address on the public listener, in the long run.
        streams_per_peer: most uploads and downloads of one party, and most downloads to one network address, at once.
        streams_total: most uploads and downloads of a listener at once; they take no threads, but memory (docs/faults.md, Servers).
        open_releases_per_party: most unpublished releases for which one party may have a block or parcels here.
        staged_gib_per_party: most that one party's unpublished blocks and parcels may take together, in GiB.
        stop_seconds: how long calls under way may go on after a signal to stop.
    """

    stall_seconds: Annotated[float, Field(gt=0)] = STALL_SECONDS
    least_kib_per_second: Annotated[float, Field(gt=0)] = 16.0
    party_workers: Annotated[int, Field(ge=2)] = 16
    public_workers: Annotated[int, Field(ge=2)] = 16
    storage_limit_gib: Annotated[float, Field(gt=0)] = 100.0
    sweep_seconds: Annotated[float, Field(gt=0)] = 600.0
    revocation_seconds: Annotated[float, Field(gt=0)] = 10.0
    calls_per_second: Annotated[float, Field(gt=0)] = 20.0
    streams_per_peer: Annotated[int, Field(ge=1)] = 8
    streams_total: Annotated[int, Field(ge=1)] = 4096
    open_releases_per_party: Annotated[int, Field(ge=1)] = 32
    staged_gib_per_party: Annotated[float, Field(gt=0)] = 25.0
    stop_seconds: Annotated[float, Field(ge=0)] = 10.0


class HubSettings(Settings):
    """All of hub.toml.

    Attributes:
        consortium: whose releases the hub publishes.
        storage: folder of staged and published releases.
        listen_parties: host:port for parties, mutual TLS.
        listen_public: host:port for everybody, TLS without a client certificate.
        coordinator: host:port of the coordinator.
        root: the consortium's root certificate, PEM.
        certificate: the hub's certificate, PEM; serves both listeners, calls the coordinator and signs manifests.
        key: its private key, PEM.
        reflection: offer gRPC reflection on both listeners.
        limits: limits in numbers.
    """

    consortium: Name
    storage: LocalPath = Field(default=Path("storage"), validate_default=True)
    listen_parties: str = "0.0.0.0:7443"
    listen_public: str = "0.0.0.0:7444"
    coordinator: str
    root: LocalPath = Field(default=Path("root.pem"), validate_default=True)
    certificate: LocalPath = Field(default=Path("hub.pem"), validate_default=True)
    key: LocalPath = Field(default=Path("hub.key"), validate_default=True)
    reflection: bool = False
    limits: HubLimits = HubLimits()
