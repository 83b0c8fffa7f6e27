"""A crowd of learners at one moment: each with a connection of its own, all in a few processes.

`python -m benchmarks.transfer.crowd KIND PORT ROOT LEARNERS DIGEST` repeats two lines of standard input, then lets LEARNERS
learners go at once and prints a JSON line: how many completed, refusals on the way, seconds of each, bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from dprelease.errors import IntegrityError, NotFound
from dprelease.wire.boundary import VERSION
from dprelease.wire.retry import Backoff
from dprelease.wire.v1 import public_pb2, public_pb2_grpc

ATTEMPTS = 8
PROCESSES = 2
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]  # else all channels of a process share one connection


@dataclass(frozen=True)
class Crowd:
    """What became of a crowd.

    Attributes:
        complete: learners that have everything.
        refused: attempts that had to be made again.
        seconds: from the start to the last learner's end.
        each: seconds of every learner.
        size: bytes of blocks.
    """

    complete: int
    refused: int
    seconds: float
    each: list[float]
    size: int

    @property
    def mib_per_second(self) -> float:
        """Of blocks, all learners together."""
        return self.size / 2**20 / self.seconds


def crowd(kind: str, port: int, root: Path, learners: int, release: str) -> Crowd:
    """Let learners go at one server at once.

    Args:
        kind: ``hub`` or ``bare``.
        port: of its listener.
        root: the consortium's root certificate.
        learners: how many.
        release: digest, for the hub; number of files, for the bare server.
    """
    share = [learners // PROCESSES + (number < learners % PROCESSES) for number in range(PROCESSES)]
    lines = [
        [sys.executable, "-m", "benchmarks.transfer.crowd", kind, str(port), str(root), str(each), release]
        for each in share
    ]
    running = [subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for line in lines]
    for process in running:
        _say(process, "are you ready?")
    begun = time.monotonic()
    for process in running:
        _say(process, "go")
    found = [json.loads(process.communicate()[0]) for process in running]
    return Crowd(
        sum(part["complete"] for part in found),
        sum(part["refused"] for part in found),
        time.monotonic() - begun,
        sorted(each for part in found for each in part["each"]),
        sum(part["size"] for part in found),
    )


def _say(process: subprocess.Popen[str], words: str) -> None:
    if process.stdin is None or process.stdout is None:
        raise ValueError("a process without pipes")
    process.stdin.write(f"{words}\n")
    process.stdin.flush()
    if process.stdout.readline() != f"{words}\n":
        raise ValueError("a crowd did not start")


async def _at_hub(channel: grpc.aio.Channel, release: str) -> int:
    hub, size = public_pb2_grpc.PublicServiceStub(channel), 0
    listed = await hub.ListPublished(public_pb2.ListPublishedRequest(), metadata=VERSION)
    if all(line.spec_digest.hex() != release for line in listed.releases):
        raise NotFound("the hub does not list the release")
    wanted = public_pb2.GetManifestRequest(spec_digest=bytes.fromhex(release))
    manifest = json.loads((await hub.GetManifest(wanted, metadata=VERSION)).manifest)
    for entry in manifest["blocks"]:
        sealed, digest = entry["sealed"], hashlib.sha256()
        block = public_pb2.DownloadBlockRequest(
            spec_digest=bytes.fromhex(release), party=sealed["party"], sequence=sealed["sequence"]
        )
        async for answer in hub.DownloadBlock(block, metadata=VERSION):
            data = answer.chunk.data
            digest.update(data)
            size += len(data)
        if digest.hexdigest() != sealed["sha256"]:
            raise IntegrityError("the hub sent other bytes than were signed")
    return size


async def _at_bare(channel: grpc.aio.Channel, files: str) -> int:
    size = 0
    for number in range(int(files)):
        async for piece in channel.unary_stream("/bare/down", None, None)(str(number).encode()):
            size += len(piece)
    return size


async def _learner(kind: str, port: str, tls: grpc.ChannelCredentials, release: str) -> tuple[int, int, float]:
    """Bytes that one learner got, attempts that were refused, and its seconds."""
    begun, waits = time.monotonic(), Backoff(first_seconds=0.2, longest_seconds=5.0).waits()
    for attempt in range(ATTEMPTS):
        async with grpc.aio.secure_channel(f"localhost:{port}", tls, options=OPTIONS) as channel:
            try:
                size = await (_at_hub if kind == "hub" else _at_bare)(channel, release)
                return size, attempt, time.monotonic() - begun
            except grpc.RpcError:
                pass
        await asyncio.sleep(next(waits))
    return 0, ATTEMPTS, time.monotonic() - begun


async def _main(kind: str, port: str, root: str, learners: str, release: str) -> None:
    tls = grpc.ssl_channel_credentials(Path(root).read_bytes())
    for _ in range(2):  # are you ready? go
        print(sys.stdin.readline(), end="", flush=True)
    ended = await asyncio.gather(*(_learner(kind, port, tls, release) for _ in range(int(learners))))
    complete = [seconds for size, _, seconds in ended if size]
    refused, total = sum(attempts for _, attempts, _ in ended), sum(size for size, _, _ in ended)
    print(json.dumps({"complete": len(complete), "refused": refused, "each": complete, "size": total}))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
