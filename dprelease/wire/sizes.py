"""How many bytes a message may have: one table for servers and one for clients, looked at before anything is made of the bytes.

A server refuses a longer request (`dprelease.wire.call`), a client a longer answer (`dprelease.wire.transport`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from dprelease.catalogue import Catalogue
from dprelease.spec_base import SpecBase

SHORT_BYTES = 64 << 10
"""Of whatever the tables do not name. The longest honest one, a list of 500 digests, has 17 KiB."""

MAX_CHUNK_BYTES = 2 << 20
"""Largest chunk of a longer string that is accepted; `dprelease.wire.chunks` makes them half as long."""

LONG_BYTES = 4 << 20
"""Of lists, manifests and what is dealt: as much as gRPC takes by itself."""

_V1 = "/dprelease.wire.v1."
_CHUNK = MAX_CHUNK_BYTES + SHORT_BYTES

REQUESTS = {
    f"{_V1}CoordinationService/ReportCatalogue": Catalogue.most_bytes + SHORT_BYTES,
    f"{_V1}CoordinationService/Approve": SpecBase.most_bytes + SHORT_BYTES,
    f"{_V1}CoordinationService/RequestDeal": 2 * SHORT_BYTES,  # an offer, some 600 bytes, of every hospital
    f"{_V1}IntakeService/SendBlock": _CHUNK,
    f"{_V1}RelayService/SendParcel": _CHUNK,
}

ANSWERS = {
    f"{_V1}AlignmentService/ListRuns": LONG_BYTES,
    f"{_V1}AlignmentService/GetRun": 4 * SHORT_BYTES,  # an acceptance of each of at most ten hospitals
    f"{_V1}CoordinationService/ListReleases": LONG_BYTES,
    f"{_V1}CoordinationService/GetRelease": 2 * SpecBase.most_bytes,  # and an approval, some 1 KiB, of every hospital
    f"{_V1}CoordinationService/ListRevoked": LONG_BYTES,
    f"{_V1}CoordinationService/ListCharges": LONG_BYTES,
    f"{_V1}CoordinationService/RequestDeal": LONG_BYTES,
    f"{_V1}EnrolmentService/Enrol": LONG_BYTES,  # with what was charged
    f"{_V1}IntakeService/ListEarlierBlocks": LONG_BYTES,
    f"{_V1}IntakeService/FetchEarlierBlock": _CHUNK,
    f"{_V1}RelayService/ListParcels": LONG_BYTES,
    f"{_V1}RelayService/FetchParcel": _CHUNK,
    f"{_V1}PublicService/ListPublished": 16 * SHORT_BYTES,  # 200 lines, with titles of up to 200 letters
    f"{_V1}PublicService/GetManifest": LONG_BYTES,
    f"{_V1}PublicService/DownloadBlock": _CHUNK,
}


def most_request_bytes(methods: Iterable[str]) -> int:
    """Length of the longest request that one of these methods takes.

    Args:
        methods: full names.
    """
    return max(REQUESTS.get(method, SHORT_BYTES) for method in methods)


def answer_limits() -> str:
    """The limits of answers as a gRPC service config, by which gRPC refuses an answer before it is decoded."""
    named = [
        {
            "name": [dict(zip(("service", "method"), method[1:].split("/"), strict=True))],
            "maxResponseMessageBytes": most,
        }
        for method, most in ANSWERS.items()
    ]
    return json.dumps({"methodConfig": [{"name": [{}], "maxResponseMessageBytes": SHORT_BYTES}, *named]})
