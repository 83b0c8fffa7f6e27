"""A crowd of learners at one moment: each with a connection of its own, all in a few processes.

`python -m benchmarks._crowd KIND PORT ROOT LEARNERS DIGEST` repeats two lines of standard input, then lets LEARNERS
learners go at once and prints a JSON line: how many completed, refusals on the way, seconds of each, bytes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks import _bare
from dprelease.errors import IntegrityError, NotFound, PeerUnavailable
from dprelease.manifest import Manifest
from dprelease.wire.chunks import check_chunk
from dprelease.wire.retry import Backoff
from learner.catalogue import PublicHub

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
        [sys.executable, "-m", "benchmarks._crowd", kind, str(port), str(root), str(each), release] for each in share
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


def _at_hub(channel: grpc.Channel, release: str) -> int:
    hub, size = PublicHub(channel), 0
    if all(line.digest != release for line in hub.releases()):
        raise NotFound("the hub does not list the release")
    manifest = Manifest.from_bytes(hub.manifest(release)[0])
    for entry in manifest.blocks:
        digest, held = hashlib.sha256(), 0
        for chunk in hub.chunks(release, entry.sealed.party, 0):
            digest.update(check_chunk(chunk, held, entry.sealed.size))
            held += len(chunk.data)
        if digest.hexdigest() != entry.sealed.sha256:
            raise IntegrityError("the hub sent other bytes than were signed")
        size += held
    return size


def _at_bare(channel: grpc.Channel, files: str) -> int:
    return sum(_bare.download(channel, number) for number in range(int(files)))


def _main(kind: str, port: str, root: str, learners: str, release: str) -> None:
    visit = _at_hub if kind == "hub" else _at_bare
    tls = grpc.ssl_channel_credentials(Path(root).read_bytes())
    refused, lock = [0], threading.Lock()

    def learner(_: int) -> tuple[int, float]:
        begun, waits = time.monotonic(), Backoff(first_seconds=0.2, longest_seconds=5.0).waits()
        for _attempt in range(ATTEMPTS):
            with grpc.secure_channel(f"localhost:{port}", tls, options=OPTIONS) as channel:
                try:
                    return visit(channel, release), time.monotonic() - begun
                except (PeerUnavailable, grpc.RpcError):
                    with lock:
                        refused[0] += 1
            time.sleep(next(waits))
        return 0, time.monotonic() - begun

    with ThreadPoolExecutor(int(learners)) as pool:
        for _ in range(2):  # are you ready? go
            print(sys.stdin.readline(), end="", flush=True)
        ended = list(pool.map(learner, range(int(learners))))
    complete = [seconds for size, seconds in ended if size]
    total = sum(size for size, _ in ended)
    print(json.dumps({"complete": len(complete), "refused": refused[0], "each": complete, "size": total}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
