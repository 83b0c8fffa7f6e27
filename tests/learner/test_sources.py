"""Hub and mirrors together, through the commands: who is asked first, who is asked next, and what the user is told."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dprelease.release.spec import BlockKey
from learner.cli.releases import MOST_LISTED
from learner.client.library import Library
from learner.client.sources import PublicHub
from learner.hub.server import Hub
from learner.listing import INDEX, Index
from tests.learner.commands import EXIT, Run, runner
from tests.learner.tampering import BLOCKS
from tests.learner.world import CONSORTIUM, Sealed, World, stored
from tests.support.certificates import mint
from tests.support.web import Web, serving


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def run(home: Path) -> Run:
    return runner(home)


@pytest.fixture
def other(world: World) -> Sealed:
    return world.sealed("rows that were noised", mechanism="rows", delta=1e-3)


@pytest.fixture
def hub(world: World, sealed: Sealed, other: Sealed, tmp_path: Path, start_hub: Callable[..., Hub]) -> Hub:
    stored(tmp_path / "storage", world, sealed, other)
    return start_hub()


@pytest.fixture
def mirrored(hub: Hub, tmp_path: Path) -> Path:
    unfinished = shutil.ignore_patterns(".*")  # a hub that starts makes its pages anew
    return Path(shutil.copytree(tmp_path / "storage" / "published", tmp_path / "mirrored", ignore=unfinished))


@pytest.fixture
def web(mirrored: Path) -> Iterator[Web]:
    with serving(mirrored) as running:
        yield running


def trust(run: Run, world: World, *places: str) -> None:
    added = run("trust", "add", CONSORTIUM, "--root", str(world.root_path), "--yes", *places)
    assert added.exit_code == 0, added.output
    for place in places[1::2]:
        assert place in added.output


def test_a_mirror_alone_will_do(run: Run, world: World, web: Web, sealed: Sealed, other: Sealed, home: Path) -> None:
    trust(run, world, "--mirror", web.url)
    (line,) = json.loads(run("trust", "list", "--json").stdout)["consortia"]
    assert (line["hub"], line["mirrors"]) == (None, [web.url])
    assert run("trust", "list").exit_code == 0
    lines = json.loads(run("list", "--json").stdout)["releases"]
    assert {line["digest"] for line in lines} == {sealed.digest, other.digest}
    assert sealed.spec.title in run("list").stdout
    fetched = run("fetch", sealed.digest[:8], "--json")
    assert json.loads(fetched.stdout)["release"] == sealed.digest
    assert "instead" not in fetched.stderr
    assert run("verify", sealed.digest).exit_code == 0
    spending = json.loads(run("spending", "--json").stdout)
    assert {each["release"] for each in spending["releases"]} == {sealed.digest, other.digest}
    assert run("fetch", "00" * 8).exit_code == EXIT["NotFound"]


def test_bytes_come_from_the_mirror_and_lists_from_the_hub(
    run: Run, world: World, web: Web, hub: Hub, sealed: Sealed, home: Path
) -> None:
    trust(run, world, "--hub", f"localhost:{hub.public_port}", "--mirror", web.url)
    for command in ("list", "spending"):
        assert run(command).exit_code == 0
    assert web.asked == []
    assert run("fetch", sealed.digest[:8]).exit_code == 0
    assert web.ranges(".block") == [None, None]


def flipped(mirrored: Path, world: World, sealed: Sealed) -> None:
    from dprelease.release.folder import ReleaseFolder

    BLOCKS["flipped bit of block"](ReleaseFolder(mirrored / sealed.digest), world)


BEHIND: dict[str, Callable[[Path, World, Sealed], object]] = {
    "a release that is not there yet": lambda mirrored, world, sealed: shutil.rmtree(mirrored / sealed.digest),
    "a block that is not there yet": lambda mirrored, world, sealed: next(mirrored.glob("*/blocks/south*")).unlink(),
    "no list": lambda mirrored, world, sealed: (mirrored / INDEX).unlink(),
    "another list": lambda mirrored, world, sealed: (mirrored / INDEX).write_bytes(b"<html>"),
    "a damaged block": flipped,
}


@pytest.mark.parametrize("fault", BEHIND)
def test_where_a_mirror_fails_the_hub_is_asked_and_the_user_told(
    run: Run, world: World, web: Web, hub: Hub, mirrored: Path, sealed: Sealed, home: Path, fault: str
) -> None:
    trust(run, world, "--hub", f"localhost:{hub.public_port}", "--mirror", web.url)
    for release in mirrored.iterdir():
        if release.is_dir() and release.name != sealed.digest:
            shutil.rmtree(release)
    BEHIND[fault](mirrored, world, sealed)
    fetched = run("fetch", sealed.digest[:8], "--json")
    assert fetched.exit_code == 0, fetched.output
    assert json.loads(fetched.stdout)["verified"]
    (told,) = [line for line in fetched.stderr.splitlines() if "instead" in line]
    assert told.startswith(f"the mirror {web.url} cannot serve this (")
    assert told.endswith("asking the hub instead")


def test_bytes_of_the_mirror_are_gone_on_from_at_the_hub(
    run: Run, world: World, web: Web, hub: Hub, sealed: Sealed, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(run, world, "--hub", f"localhost:{hub.public_port}", "--mirror", web.url)
    begun = []
    block = PublicHub.block

    def noted(self: PublicHub, key: BlockKey, offset: int, size: int) -> Iterator[bytes]:
        begun.append((key.party, offset))
        return block(self, key, offset, size)

    monkeypatch.setattr(PublicHub, "block", noted)
    part = Library(home).draft(sealed.digest).block("north").with_suffix(".part")
    part.parent.mkdir(parents=True)
    for bytes_of_the_mirror, expected in ((sealed.blocks["north"][:99], 1), (b"x" * 99, 2)):
        web.fault = lambda handler: handler.answer(404) if handler.path.endswith(".block") else False
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(bytes_of_the_mirror)
        assert run("fetch", sealed.digest).exit_code == 0
        assert begun[:expected] == [("north", 99), ("north", 0)][:expected]
        assert begun[expected:] == [("south", 0)]
        shutil.rmtree(Library(home).kept(sealed.digest).path)
        begun.clear()


def test_lists_of_a_mirror_are_taken_where_the_hub_is_away(run: Run, world: World, web: Web, sealed: Sealed) -> None:
    trust(run, world, "--hub", "localhost:1", "--mirror", web.url)
    for command in ("list", "spending"):
        shown = run(command, "--json")
        assert shown.exit_code == 0, shown.output
        assert sealed.digest in shown.stdout
        (told,) = shown.stderr.splitlines()
        assert told.endswith(f"asking the mirror {web.url} instead")


def test_where_nobody_can_the_last_one_says_why(run: Run, world: World, web: Web, sealed: Sealed) -> None:
    trust(run, world, "--mirror", web.url + "/nowhere", "--mirror", web.url + "/neither")
    fetched = run("fetch", sealed.digest)
    assert fetched.exit_code == EXIT["NotFound"]
    told, error = (line for line in fetched.stderr.splitlines() if line.strip())
    assert "/nowhere" in told
    assert error.startswith("error: ")
    assert "/neither" in error
    wrong = run("fetch", "xyz")
    assert wrong.exit_code == EXIT["InvalidInput"]
    assert "instead" not in wrong.stderr  # asking elsewhere would not help


def test_a_release_is_fetched_by_its_address(
    run: Run, world: World, web: Web, sealed: Sealed, mirrored: Path, home: Path, tmp_path: Path
) -> None:
    (mirrored / INDEX).unlink()  # one copied folder is enough
    address = f"{web.url}/{sealed.digest}"
    unknown = run("fetch", address)
    assert unknown.exit_code == EXIT["NotFound"]
    assert f"consortium {CONSORTIUM} is not trusted yet" in unknown.stderr
    trust(run, world, "--hub", "localhost:1")
    root = tmp_path / "root.pem"
    root.write_text(mint("elsewhere", None).certificate)
    assert run("trust", "add", "elsewhere", "--root", str(root), "--yes", "--hub", "localhost:1").exit_code == 0
    assert run("fetch", address, "--from", "elsewhere").exit_code == EXIT["IntegrityError"]
    fetched = run("fetch", address + "/", "--json")
    assert fetched.exit_code == 0, fetched.output
    assert json.loads(fetched.stdout)["consortium"] == CONSORTIUM
    assert (home / "releases" / sealed.digest / "manifest.json").exists()
    for wrong in (web.url, f"ftp://mirror.example.org/{sealed.digest}"):
        assert run("fetch", wrong).exit_code == EXIT["InvalidInput"]
    shutil.rmtree(home / "releases")
    (mirrored / sealed.digest / "manifest.json").write_bytes(b"<html>")
    assert run("fetch", address).exit_code == EXIT["IntegrityError"]


def test_pinning_wants_an_address(run: Run, world: World) -> None:
    nothing = run("trust", "add", CONSORTIUM, "--root", str(world.root_path), "--yes")
    assert nothing.exit_code == EXIT["InvalidInput"]
    assert "--mirror URL" in nothing.stderr


def test_of_very_many_releases_the_newest_are_shown(run: Run, world: World, web: Web, mirrored: Path) -> None:
    trust(run, world, "--mirror", web.url)
    (line, *_) = Index.from_bytes((mirrored / INDEX).read_bytes()).releases
    many = tuple(replace(line, digest=f"{number:064x}", checkpoint=None) for number in range(MOST_LISTED + 1))
    (mirrored / INDEX).write_bytes(Index(releases=many).to_bytes())
    shown = run("list")
    assert shown.stdout.count(line.published) == MOST_LISTED
    assert shown.stderr == "these are the newest 1,000; learner list --json prints all\n"
    assert len(json.loads(run("list", "--json").stdout)["releases"]) == MOST_LISTED + 1
    (mirrored / INDEX).write_bytes(Index(releases=many[1:]).to_bytes())
    assert run("list").stderr == ""
