"""What it takes to use up what a server has, from the limits that it has by itself."""

from coordinator.service.server import WORKERS
from coordinator.settings import CallLimits as OfficeLimits
from dprelease.wire.boundary import CALL_SECONDS
from dprelease.wire.call import FIRST_MESSAGE_SECONDS, SENT_GRACE_SECONDS
from dprelease.wire.chunks import CHUNK_BYTES, chunk_bytes
from dprelease.wire.limits import BURST_SECONDS
from dprelease.wire.listener import MOST_CONNECTIONS, MOST_WAITING
from learner.hub.coordination import QUESTIONS
from learner.hub.revocation import LOOKS
from learner.hub.settings import HubLimits

_hub, _office = HubLimits(), OfficeLimits()
_cut = SENT_GRACE_SECONDS + CHUNK_BYTES / (_hub.least_kib_per_second * 1024)
_most_mib = 4 * sum(map(chunk_bytes, range(1, _hub.streams_total + 1))) / 2**20
_left = _office.calls_per_second - LOOKS.per_second
_share = max(1, _hub.party_workers // 4)

EXHAUSTION = (
    (
        "calls",
        f"{_hub.calls_per_second:g} a second at the hub, {_office.calls_per_second:g} at the coordinator, {BURST_SECONDS:g} "
        f"seconds' worth at once; {_office.enrolments_per_minute} attempts to enrol a minute",
        "nobody is kept from its own share by another's",
        f"a call that brings no message ends after {FIRST_MESSAGE_SECONDS:g} s",
    ),
    (
        "questions of the hub to the coordinator about releases that the hub does not know",
        f"{QUESTIONS.per_second:g} a second, {QUESTIONS.burst:g} at once, of 2 calls at most",
        f"{_left / (2 * QUESTIONS.per_second):.0f} parties, beside {LOOKS.per_second:g} looks a second at the revoked keys",
        "as long as they go on",
    ),
    (
        "uploads and downloads of one listener of the hub",
        f"{_hub.streams_per_peer} at once",
        f"{_hub.streams_total // _hub.streams_per_peer} peers, {_hub.streams_total} streams",
        f"an upload that stands still: {_hub.stall_seconds:g} s; a download that is taken too slowly: cut after {_cut:.0f} s, "
        "but its place is free only when its reader takes what was under way or its connection ends, at the latest after 20 "
        "minutes; with a certificate there is no such end, so revoke it",
    ),
    (
        "calls that a busy listener has not looked at yet",
        "128 on each connection",
        f"{MOST_WAITING} calls, of some 16 KiB each; gRPC ends further ones with CANCELLED, and clients ask again",
        "until the listener looks at them",
    ),
    (
        "threads of one listener",
        f"{_share} of {_hub.party_workers}, at the coordinator {WORKERS // 4} of {WORKERS}; only by calls that wait for a "
        "disk, a database or the coordinator",
        f"{_hub.party_workers // _share} peers, while that stands still",
        f"{CALL_SECONDS:g} s a call",
    ),
    (
        "memory of the hub",
        f"{_hub.streams_per_peer} downloads that are not taken, some 4 copies of a chunk each",
        f"chunks become shorter with every download that is open: by reckoning {_most_mib / 1024:.1f} GiB for all "
        f"{_hub.streams_total}, that is {_hub.streams_total // _hub.streams_per_peer} peers",
        "as long as they keep their places; the process keeps much of it afterwards and uses it again",
    ),
    (
        "connections",
        f"not limited; a listener takes {MOST_CONNECTIONS} in all, or a quarter of the files that its process may open",
        "one address that opens them all keeps new ones from connecting, and nobody who is connected; a firewall can limit it",
        "without TLS or without HTTP/2: 20 s; idle: 10 minutes; with a certificate: as long as it likes",
    ),
)
"""What, how much of it one peer can have, who uses up all, for how long."""
