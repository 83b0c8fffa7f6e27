"""What transfers cost beside a bare gRPC stream of the same bytes: uploads, downloads, a crowd of learners, a release's waits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import grpc

from benchmarks.common.hospitals import consortium
from benchmarks.common.plots import subplots
from benchmarks.common.report import RESULTS, Results, main
from benchmarks.transfer import bare as bare_streams
from benchmarks.transfer import release_time
from benchmarks.transfer.crowd import OPTIONS, Crowd, crowd
from benchmarks.transfer.published import Release, sealed_releases
from demo.consortium import Consortium
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import BlockKey
from learner.client.download import fetch
from learner.client.library import Library
from learner.client.pinned_roots import Trusted
from learner.client.sources import PublicHub

MIB = 1 << 20

COLUMNS = {"north": 36, "south": 24, "west": 24}
"""Hospital to how many columns it holds."""
WAITS = {
    "joint moments of three hospitals": 'mechanism = "moments"\nranges = "none"',
    "joint moments in ranges of a first round": 'mechanism = "moments"\nranges = "first"',
}
"""What a release is called here, to the lines of its request that name the mechanism."""


def run(quick: bool) -> Results:
    """MiB a second of uploads, downloads and a crowd of learners, each as a share of a bare stream in the same run."""
    results = Results()
    rows, mixed_rows = (10_000, 2_000) if quick else (241_600, 4_000)
    repeats, learners = (1, (20,)) if quick else (7, (200, 1_000))
    with consortium(rows, COLUMNS) as made:
        _waits(results, made, rows, *((1, 1) if quick else (3, len(WAITS))))
        large, small = sealed_releases(made, COLUMNS, mixed_rows)
        _uploads(results, large, repeats)
        _downloads(results, large, repeats)
        _crowds(results, small, learners)
    if not quick:
        _plot(results)
    return results


def _uploads(results: Results, release: Release, repeats: int) -> None:
    hub, (_, path) = release.consortium.hub, release.sealed("north")
    data = path.read_bytes()
    ours: list[float] = []
    bare: list[float] = []
    with bare_streams.serving(hub / "hub.pem", hub / "hub.key") as port, _channel(hub, port) as channel:
        for _ in range(repeats):
            release.forget()
            ours.append(_rate(len(data), release.upload("north")))
            bare.append(_rate(len(data), lambda: bare_streams.upload(channel, data)))
    _compare(results, f"upload of {len(data) / MIB:.0f} MiB, until verified and synced", ours, bare, 0.5)


def _downloads(results: Results, release: Release, repeats: int) -> None:
    hub, home = release.consortium.hub, release.consortium.folder / "home"
    folder = release.publish()
    path, north = ReleaseFolder(folder).block("north"), BlockKey(release.digest, "north")
    size = path.stat().st_size
    ours: list[float] = []
    bare: list[float] = []
    kept: list[float] = []
    public = release.consortium.ports["public"]
    trusted = Trusted(name="demo", hub=f"localhost:{public}", root=(hub / "root.pem").read_text())
    with (
        bare_streams.serving(hub / "hub.pem", hub / "hub.key", path) as port,
        _channel(hub, port) as channel,
        _channel(hub, public) as public_channel,
    ):
        source = PublicHub(public_channel)
        for number in range(repeats):
            ours.append(_rate(size, lambda: sum(map(len, source.block(north, 0, size)))))
            bare.append(_rate(size, lambda: bare_streams.download(channel)))
            library = Library(home / str(number))
            kept.append(_rate(size, partial(fetch, source, trusted, library, release.digest)))
    _compare(results, f"download of {size / MIB:.0f} MiB", ours, bare, 0.9)
    results.add("learner fetch, verified and kept: MiB/s, median", statistics.median(kept))


def _crowds(results: Results, release: Release, sizes: tuple[int, ...]) -> None:
    hub, folder = release.consortium.hub, release.publish()
    files = sorted((folder / "blocks").iterdir())
    met: dict[int, tuple[Crowd, Crowd]] = {}
    for learners in sizes:
        with bare_streams.serving(hub / "hub.pem", hub / "hub.key", *files) as port:
            bare = crowd("bare", port, hub / "root.pem", learners, str(len(files)))
        ours = crowd("hub", release.consortium.ports["public"], hub / "root.pem", learners, release.digest)
        met[learners] = ours, bare
        what = f"{learners} learners at once, {sum(file.stat().st_size for file in files) / 1e3:.0f} kB each"
        results.add(f"{what}: share that completes", ours.complete / learners, 1.0, ">=")
        results.add(f"{what}: MiB/s", ours.mib_per_second)
        results.add(f"{what}: MiB/s of a bare server", bare.mib_per_second)
        results.add(f"{what}: share of bare", ours.mib_per_second / bare.mib_per_second, 0.6, ">=")
        results.add(f"{what}: attempts made again", ours.refused)
        results.add(f"{what}: seconds of a learner, median", statistics.median(ours.each))
        results.add(f"{what}: seconds of the slowest learner", max(ours.each))
    results.details["crowds"] = {
        str(learners): {"hub": ours.each, "bare": bare.each} for learners, (ours, bare) in met.items()
    }


def _waits(results: Results, made: Consortium, rows: int, releases: int, kinds: int) -> None:
    for place, (name, terms) in enumerate([*WAITS.items()][:kinds]):
        times = release_time.measure(made, terms, releases, first=2 * releases * place)
        what = f"{name}, n = {rows:,}"
        seconds, work = statistics.median(t.seconds for t in times), statistics.median(t.work for t in times)
        results.add(f"{what}: seconds from the last approval to publication", seconds)
        results.add(f"{what}: seconds of work", work)
        results.add(f"{what}: those over these, median of {len(times)}", statistics.median(t.ratio for t in times), 1.5)
        results.details[f"times of {name}"] = [vars(each) for each in times]


def _compare(results: Results, what: str, ours: list[float], bare: list[float], reach: float) -> None:
    results.add(f"{what}: MiB/s, median of {len(ours)}", statistics.median(ours))
    results.add(f"{what}: MiB/s of a bare stream, median of {len(bare)}", statistics.median(bare))
    results.add(f"{what}: share of bare", statistics.median(ours) / statistics.median(bare), reach, ">=")
    results.details[what] = {"ours": ours, "bare": bare}


def _rate(size: int, transfer: Callable[[], object]) -> float:
    begun = time.monotonic()
    transfer()
    return size / MIB / (time.monotonic() - begun)


def _channel(hub: Path, port: int) -> grpc.Channel:
    return grpc.secure_channel(
        f"localhost:{port}", grpc.ssl_channel_credentials((hub / "root.pem").read_bytes()), options=OPTIONS
    )


def _plot(results: Results) -> None:
    crowds = results.details["crowds"]
    figure, axes = subplots(1, 2, (11, 4))
    streams = {what.split(",")[0]: values for what, values in results.details.items() if "bare" in values}
    labels = [f"{what}\n{side}" for what in streams for side in ("ours", "bare")]
    axes[0].boxplot([values[side] for values in streams.values() for side in ("ours", "bare")])
    axes[0].set_xticklabels(labels, fontsize=8)
    axes[0].set(ylabel="MiB/s", title="one stream", ylim=(0, None))
    for learners, sides in crowds.items():
        for side, style in (("hub", "-"), ("bare", "--")):
            each = sorted(sides[side])
            axes[1].plot(each, [(n + 1) / int(learners) for n in range(len(each))], style, label=f"{learners}, {side}")
    axes[1].set(xlabel="seconds", ylabel="share of learners that are done", title="learners at once", ylim=(0, 1.02))
    axes[1].legend()
    axes[1].grid(alpha=0.3)
    figure.savefig(RESULTS / "transfer.png", dpi=110)


if __name__ == "__main__":
    main("transfer", run)
