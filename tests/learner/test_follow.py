"""`learner follow`: by somebody who comes late, by somebody who stays, and by somebody who is lied to."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.canonical import canonical_bytes
from dprelease.estimators import fit
from dprelease.estimators.result import ALIKE, slope
from dprelease.release.release import Release
from learner.cli import follow
from learner.hub.server import Hub
from learner.hub.storage import Storage
from learner.listing import INDEX
from tests.learner.commands import EXIT, Run, runner
from tests.learner.streams import CHECKPOINTS, ROWS, PublishedStream
from tests.learner.world import CONSORTIUM, World, publish_to
from tests.support.web import RangeHandler, Web, serving

FIT = ("--target", "glucose", "--method", "ols")


@pytest.fixture(scope="module")
def published(trio: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[PublishedStream, Path]:
    """A stream of which three of four checkpoints are published, and a release that stands alone."""
    folder = tmp_path_factory.mktemp("storage")
    storage, stream = Storage(folder, 1 << 30), PublishedStream(trio)
    for _ in ROWS[:2]:
        stream.publish(storage)
    publish_to(storage, trio, trio.sealed("alone", mechanism="mixed"))
    stream.publish(storage)
    storage.close()
    return stream, folder


def trusting(home: Path, world: World, *where: str) -> Run:
    run = runner(home)
    assert run("trust", "add", CONSORTIUM, "--root", world.root_path, *where, "--yes").exit_code == 0
    return run


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    """A mirror of `storage`."""
    with serving(tmp_path / "storage" / "published", RangeHandler) as web:
        yield web


@pytest.fixture
def run(web: Web, trio: World, tmp_path: Path) -> Run:
    """Commands of somebody who reads that mirror."""
    return trusting(tmp_path / "home", trio, "--mirror", web.url)


def objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_who_comes_late_has_every_checkpoint_from_one_download(
    published: tuple[PublishedStream, Path], trio: World, tmp_path: Path
) -> None:
    stream, folder = published
    first, _, last = stream.releases
    with serving(folder / "published", RangeHandler) as web:
        run = trusting(tmp_path / "home", trio, "--mirror", web.url)
        found = run("follow", first.digest[:8], *FIT, "--once", "--json")
        assert found.exit_code == 0, found.output
        lines = objects(found.stdout)
        assert [line["checkpoint"] for line in lines] == [1, 2, 3]
        assert {(line["stream"], line["checkpoints"]) for line in lines} == {(first.digest, CHECKPOINTS)}
        assert [line["patients"] for line in lines] == np.cumsum(ROWS).tolist()
        for line, release in zip(lines, stream.releases, strict=True):  # as who had fetched each of them
            alone = fit(release, ["glucose"], method="ols").document().to_json()
            same = ("coefficients", "predictor", "fit", "quality")
            assert json.loads(json.dumps({key: alone[key] for key in same})) == {key: line["fit"][key] for key in same}
        assert {path.split("/")[1] for path, _ in web.asked if path.endswith(".block")} == {last.digest}
        asked = [path.split("/")[1] for path, _ in web.asked if path.endswith("manifest.json")]
        assert asked == [last.digest, *(release.digest for release in stream.releases[1::-1])]
        web.asked.clear()
        again = run("follow", last.digest, *FIT, "--once", "--json")  # any of its checkpoints names a stream
        assert again.stdout == found.stdout
        assert [path for path, _ in web.asked] == [
            f"/{INDEX}",
            f"/{last.digest}/manifest.json",
            f"/{last.digest}/manifest.sig",
        ]


def test_at_a_hub_a_stream_is_listed_together_and_followed(
    published: tuple[PublishedStream, Path], trio: World, tmp_path: Path
) -> None:
    stream, folder = published
    settings = trio.settings(folder, "localhost:1")
    with Hub(settings) as hub:
        run = trusting(tmp_path / "home", trio, "--hub", f"localhost:{hub.public_port}")
        lines = run("list").stdout.splitlines()
        places = [next(at for at, line in enumerate(lines) if each.digest[:16] in line) for each in stream.releases]
        assert places[0] == places[1] + 1 == places[2] + 2
        for place, number, rows in zip(places, (1, 2, 3), np.cumsum(ROWS), strict=True):
            assert f"{number} of {CHECKPOINTS}" in lines[place]
            assert f" {rows:,} " in lines[place]
        listed = json.loads(run("list", "--json").stdout)["releases"]
        found = {line["digest"]: line.get("checkpoint") for line in listed}
        expected = {"stream": stream.releases[0].digest, "number": 2, "last": CHECKPOINTS}
        assert found[stream.releases[1].digest] == expected
        assert list(found.values()).count(None) == 1
        shown = run("follow", stream.releases[1].digest[:12], *FIT, "--once", "--features", "age,smoker")
        assert shown.exit_code == 0, shown.output
        head, *_ = shown.stdout.splitlines()
        assert head == "a stream of patients: glucose by method ols"
        columns, *rows = [line for line in shown.stdout.splitlines() if "  " in line]
        assert columns.split() == ["checkpoint", "patients", "age", "smoker=yes", "variance", "explained"]
        assert [row.split()[:4] for row in rows] == [
            [str(number), "of", "4", f"{total:,}"] for number, total in enumerate(np.cumsum(ROWS), 1)
        ]
        last = fit(stream.releases[-1], ["glucose"], ["age", "smoker"], "ols")
        for one in (slope(last, 0, 0), slope(last, 0, 1)):
            assert f"{one.part('estimate')} [{one.part('lower')}, {one.part('upper')}]" in rows[-1]
        alone = next(digest for digest, place in found.items() if place is None)
        refused = run("follow", alone, *FIT)
        assert refused.exit_code == EXIT["InvalidInput"]
        assert "no checkpoint of a stream" in refused.stderr
        assert run("follow", "00" * 8, *FIT).exit_code == EXIT["NotFound"]


def test_who_stays_gets_a_line_when_a_checkpoint_comes_until_the_last(
    trio: World, storage: Storage, run: Run, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, waits, picture = PublishedStream(trio, checkpoints=2), [], tmp_path / "age.png"
    stream.publish(storage)

    def away(handler: Any) -> None:
        handler.send_error(503)

    def between(seconds: float) -> None:
        waits.append((seconds, picture.stat().st_size))
        web.fault = away if len(waits) == 2 else lambda handler: False
        if len(waits) == 3:
            stream.publish(storage)

    monkeypatch.setattr(follow, "sleep", between)
    asked = ("--features", "age", "--every", "7", "--plot", picture)
    found = run("follow", stream.releases[0].digest, *FIT, *asked)
    assert found.exit_code == 0, found.output
    assert re.findall(r"^[12] of 2 ", found.stdout, re.M) == ["1 of 2 ", "2 of 2 "]
    assert "asking again" in found.stderr
    assert [seconds for seconds, _ in waits] == [7, 7, 7]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_interrupt_while_it_waits_ends_it_well(
    trio: World, storage: Storage, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = PublishedStream(trio)
    stream.publish(storage)

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow, "sleep", interrupted)
    found = run("follow", stream.releases[0].digest, *FIT)
    assert found.exit_code == 0
    assert re.findall(r"^\d of \d ", found.stdout, re.M) == ["1 of 4 "]


def test_rows_of_one_patient_are_called_rows_and_warned_of(trio: World, storage: Storage, run: Run) -> None:
    stream = PublishedStream(trio, q=2)
    stream.publish(storage)
    found = run("follow", stream.releases[0].digest, *FIT, "--once")
    assert found.exit_code == 0, found.output
    assert ALIKE in found.stdout
    assert found.stdout.splitlines()[-4].split()[:2] == ["checkpoint", "rows"]
    shown = run("verify", stream.releases[0].digest).stdout
    assert re.search(r"^rows +400$", shown, re.M)
    assert re.search(r"^content +checkpoint 1", shown, re.M)


def _repeats_other_numbers(release: Release) -> Release:
    (block,) = release.blocks["south"]
    values = block.values.copy()
    values[0, 0] += 1
    return replace(release, blocks={**release.blocks, "south": (replace(block, values=values),)})


def test_a_hospital_that_repeats_other_numbers_is_found_out(trio: World, storage: Storage, run: Run) -> None:
    stream = PublishedStream(trio)
    stream.publish(storage)
    stream.publish(storage, change=_repeats_other_numbers)
    last = stream.releases[-1].digest
    assert run("fetch", last).exit_code == 0  # by itself nothing is wrong with it
    refused = run("follow", last, *FIT, "--once")
    assert refused.exit_code == EXIT["IntegrityError"]
    assert f"release {last[:12]} repeats other numbers of south" in refused.stderr
    assert refused.stdout == ""


def test_a_checkpoint_that_changes_what_the_first_one_fixed_is_refused(trio: World, storage: Storage, run: Run) -> None:
    stream = PublishedStream(trio)
    stream.publish(storage)

    def another_title(release: Release) -> Release:
        spec = release.spec.model_copy(update={"title": "another"})
        blocks = {
            party: (replace(block, header=block.header.model_copy(update={"spec": spec.digest()})),)
            for party, (block,) in release.blocks.items()
        }
        return replace(release, spec=spec, blocks=blocks)

    stream.publish(storage, change=another_title)
    refused = run("follow", stream.releases[0].digest, *FIT, "--once")
    assert refused.exit_code == EXIT["IntegrityError"]
    assert "does not continue release" in refused.stderr
    assert "changes what the stream's first one fixed: title" in refused.stderr


def test_a_stream_with_two_ends_is_refused_by_who_followed_the_other(trio: World, storage: Storage, run: Run) -> None:
    stream = PublishedStream(trio)
    stream.publish(storage)
    other = deepcopy(stream)
    stream.publish(storage)
    followed = stream.releases[-1].digest
    assert run("follow", followed, *FIT, "--once").exit_code == 0
    other.publish(storage, rows=77)
    other.publish(storage)
    refused = run("follow", followed, *FIT, "--once")
    assert refused.exit_code == EXIT["IntegrityError"]
    assert f"leaves out release {followed[:12]}" in refused.stderr


Lines = list[dict[str, Any]]


def _lies(path: Path, change: Callable[[Lines], Lines]) -> None:
    index = json.loads(path.read_bytes())
    path.write_bytes(canonical_bytes({**index, "releases": change(index["releases"])}))


def test_a_list_that_is_behind_takes_nothing_back(trio: World, storage: Storage, run: Run, tmp_path: Path) -> None:
    stream = PublishedStream(trio)
    stream.publish(storage)
    stream.publish(storage)
    found = run("follow", stream.releases[0].digest, *FIT, "--once")
    _lies(tmp_path / "storage" / "published" / INDEX, lambda lines: lines[1:])
    assert run("follow", stream.releases[0].digest, *FIT, "--once").stdout == found.stdout


def test_a_list_that_gives_a_release_to_another_stream_is_not_believed(
    trio: World, storage: Storage, run: Run, tmp_path: Path
) -> None:
    stream = PublishedStream(trio)
    stream.publish(storage)
    place = {"stream": "ab" * 32, "number": 1, "last": CHECKPOINTS}
    _lies(tmp_path / "storage" / "published" / INDEX, lambda lines: [{**lines[0], "checkpoint": place}])
    refused = run("follow", stream.releases[0].digest, *FIT, "--once")
    assert refused.exit_code == EXIT["IntegrityError"]
    assert "not a checkpoint of the stream that it is listed under" in refused.stderr
