"""Versions of the protocol: every call says which one its caller speaks, and a server takes its own and the one before.

So servers are updated first, the coordinator before the hub, and whoever calls them one by one in any order after that. A
refused caller is told what the server takes: `advice` says which side is to be updated.

2  catalogues and specs may have fields that software of protocol 1 refuses; all calls are those of 1

Source: docs/format.md, section 13, "Version"; docs/coordinator.md, "Upgrading".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dprelease.errors import VersionMismatch

PROTOCOL_VERSION = 2
ACCEPTED_VERSIONS = frozenset({PROTOCOL_VERSION - 1, PROTOCOL_VERSION})
VERSION_KEY = "dprelease-protocol"
VERSION: tuple[tuple[str, str], ...] = ((VERSION_KEY, str(PROTOCOL_VERSION)),)
"""Metadata that a client sends with every call: ``stub.Method(request, timeout=..., metadata=VERSION)``."""

ACCEPTED = ",".join(map(str, sorted(ACCEPTED_VERSIONS)))
"""What a server tells a caller whose version it does not take, under `ACCEPTED_KEY` in the details of its answer."""
ACCEPTED_KEY = "accepts"

_NUMBER = re.compile(r"[0-9]{1,4}")
_LIST = re.compile(rf"{_NUMBER.pattern}(,{_NUMBER.pattern})*")


def check_version(metadata: Sequence[tuple[str, str | bytes]]) -> int:
    """The version that a caller speaks, if it is one that is taken here.

    Raises:
        VersionMismatch: the version is missing, malformed or not accepted; who has to be updated.
    """
    found = [value for key, value in metadata if key == VERSION_KEY]
    said = found[0] if len(found) == 1 and isinstance(found[0], str) else ""
    if said in map(str, ACCEPTED_VERSIONS):
        return int(said)
    if not _NUMBER.fullmatch(said):
        raise VersionMismatch(f"the caller says {found or 'nothing'} for its protocol version")
    older = int(said) < PROTOCOL_VERSION
    raise VersionMismatch(
        f"the caller speaks protocol {said}, this side takes {ACCEPTED}: update the "
        f"{'caller' if older else 'software on this side'}"
    )


def advice(accepted: str) -> str:
    """Which side is to be updated, where a server refused our version; empty where it takes it, and only lacks a call.

    Args:
        accepted: as the server told it; empty from software of protocol 1, which does not.
    """
    if not _LIST.fullmatch(accepted):
        return f"it is older than protocol {PROTOCOL_VERSION}, which we speak; it has to be updated"
    taken = [int(each) for each in accepted.split(",")]
    if PROTOCOL_VERSION in taken:
        return ""
    behind = "it has to be updated" if max(taken) < PROTOCOL_VERSION else "update the software on this side"
    return f"it takes protocol {accepted.replace(',', ' and ')}, we speak {PROTOCOL_VERSION}; {behind}"
