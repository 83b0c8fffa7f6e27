"""The list of published releases as a file: written with every publication, mended at every start."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from dprelease.errors import InvalidInput, PeerUnavailable
from dprelease.files.durable import write_durably
from dprelease.release.manifest import Manifest
from learner.hub import storage as storage_module
from learner.hub.storage import Storage
from learner.listing import INDEX, Index, Listed, lines_of
from tests.learner.world import Sealed, World, publish_to

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def releases(world: World, sealed: Sealed) -> list[Sealed]:
    """Oldest first."""
    return [sealed, world.sealed("the second"), world.sealed("the third")]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, world: World, releases: list[Sealed]) -> Path:
    """The storage of a hub that has published and stopped."""
    folder = tmp_path_factory.mktemp("hub") / "storage"
    storage = Storage(folder, 1 << 30)
    for hours, release in enumerate(releases):
        publish_to(storage, world, release, NOW + timedelta(hours=hours - 3))
    storage.close()
    return folder


@pytest.fixture
def published(tmp_path: Path, stopped: Path) -> Path:
    """What it has published, for one test, which may change it."""
    return Path(shutil.copytree(stopped, tmp_path / "storage")) / "published"


def start(published: Path) -> None:
    Storage(published.parent, 1 << 30).close()


def test_it_says_what_the_manifests_say_newest_first(published: Path, releases: list[Sealed]) -> None:
    listed = json.loads((published / INDEX).read_bytes())
    assert listed["format"] == 1
    assert [line["digest"] for line in listed["releases"]] == [release.digest for release in reversed(releases)]
    for line in listed["releases"]:
        manifest = Manifest.from_bytes((published / line["digest"] / "manifest.json").read_bytes())
        assert line == TypeAdapter(Listed).dump_python(Listed.of(line["digest"], manifest), mode="json")
        assert line["size"] == sum(path.stat().st_size for path in (published / line["digest"]).glob("blocks/*"))
    assert [path.name for path in published.iterdir() if not path.is_dir()] == [INDEX]


def _stale(published: Path) -> None:
    index = Index.from_bytes((published / INDEX).read_bytes())
    (published / INDEX).write_bytes(index.model_copy(update={"releases": index.releases[1:]}).to_bytes())


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda published: (published / INDEX).unlink(),
    "empty": lambda published: (published / INDEX).write_bytes(b""),
    "cut": lambda published: (published / INDEX).write_bytes((published / INDEX).read_bytes()[:-9]),
    "of another format": lambda published: (published / INDEX).write_bytes(b'{"format":2,"releases":[]}'),
    "stale": _stale,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_start_mends_it(published: Path, damage: str) -> None:
    whole = (published / INDEX).read_bytes()
    (published / ".index.json.123.tmp").write_bytes(b"half an ind")
    DAMAGE[damage](published)
    start(published)
    assert (published / INDEX).read_bytes() == whole
    assert not list(published.glob(".*"))


def test_a_disk_that_is_full_at_the_last_step_hides_nothing_and_is_made_good(
    storage: Storage, world: World, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        if path.name == INDEX:
            raise OSError(28, "No space left on device")
        write_durably(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(storage_module, "write_durably", full)
        with pytest.raises(PeerUnavailable, match="No space"):
            publish_to(storage, world, sealed)
    published = storage.published(sealed.digest)
    assert published is not None
    assert list(storage.index.lines) == [sealed.digest]
    assert not Index.from_bytes((published.path.parent / INDEX).read_bytes()).releases
    storage.reveal(sealed.digest)
    (line,) = Index.from_bytes((published.path.parent / INDEX).read_bytes()).releases
    assert line == storage.index.lines[sealed.digest]


@pytest.mark.parametrize(
    "change",
    [{"digest": "../x"}, {"size": -1}, {"rows": 10**400}, {"title": "x" * 201}, {"published": "now"}, {"x": 1}],
)
def test_a_line_that_cannot_be_is_refused(published: Path, change: dict[str, object]) -> None:
    data = json.loads((published / INDEX).read_bytes())
    data["releases"][0] |= change
    with pytest.raises(InvalidInput):
        Index.from_bytes(json.dumps(data).encode())


def test_lines_are_read_one_after_another(published: Path) -> None:
    data = (published / INDEX).read_bytes()
    whole = Index.from_bytes(data).releases
    assert tuple(lines_of(data)) == whole
    assert tuple(lines_of(Index().to_bytes())) == ()
    broken = lines_of(data[:-2] + b',{"digest":1}]}')
    assert tuple(islice(broken, len(whole))) == whole
    with pytest.raises(InvalidInput, match=r"^a line of the list: digest: "):
        next(broken)


LINE = b'{"columns":1,"digest":"%064x","published":"2026-01-31T12:00:00Z","rows":1,"size":1,"title":"%s"}'
NO_LISTS = {
    "nothing": b"",
    "a web page": b"<html>",
    "another format": b'{"format":9,"releases":[]}',
    "more behind it": b'{"format":1,"releases":[]}x',
    "no end": b'{"format":1,"releases":[' + LINE % (1, b"t"),
    "a comma too many": b'{"format":1,"releases":[' + LINE % (1, b"t") + b",]}",
    "an unknown key": b'{"format":1,"releases":[' + (LINE % (1, b"t"))[:-1] + b',"x":1}]}',
    "an endless line": b'{"format":1,"releases":[' + LINE % (1, b"t" * 9000) + b"]}",
    "brackets": b'{"format":1,"releases":[' + b"[" * 100_000,
    "a number of many digits": b'{"format":1,"releases":[' + b"1" * 8000 + b"]}",
    "no text": b'{"format":1,"releases":[\xff]}',
}


@pytest.mark.parametrize("data", NO_LISTS.values(), ids=NO_LISTS)
def test_a_file_that_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        list(lines_of(data))
    assert len(refused.value.message) < 1000
