"""Addresses of clusters of dask.distributed: over TLS, or on this machine alone."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def check_cluster(address: str) -> str:
    """The address of a scheduler, as it came.

    Raises:
        ValueError: it is none, or one that is reached without TLS.
    """
    url = urlsplit(address)
    if url.scheme not in {"tls", "tcp"} or not url.hostname:
        raise ValueError('address is that of the scheduler, "tls://host:8786"')
    if url.scheme == "tcp" and not is_loopback(url.hostname):
        raise ValueError("workers are reached over TLS alone: let the scheduler listen on tls://")
    return address


def is_loopback(host: str) -> bool:
    """Tells whether a host is this machine, by its address or as ``localhost``."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
