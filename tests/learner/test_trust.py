"""Pinned roots, and releases opened against them.

`--without` of a fit, a report and a card: the features that are not named, and an error for a name that is none of them.
"""

import json
from pathlib import Path

import pytest

from dprelease.canonical import canonical_bytes
from dprelease.errors import Conflict, IntegrityError, InvalidInput, NotFound
from dprelease.files.home import default_home
from dprelease.release.folder import ReleaseFolder
from learner.client.library import Library, check_prefix, open_verified
from learner.client.pinned_roots import TrustStore, check_fingerprint, read_root
from tests.learner.commands import EXIT, runner
from tests.learner.moments import COLUMNS, opened
from tests.learner.tampering import copy
from tests.learner.world import CONSORTIUM, Sealed, World
from tests.support.certificates import mint


@pytest.fixture
def trust(world: World, tmp_path: Path) -> TrustStore:
    store = TrustStore(tmp_path / "home")
    store.add(CONSORTIUM, world.root.certificate, "hub.example.org:7444")
    return store


def test_the_home_follows_the_desktop_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_home({}) == Path("/home/somebody/.local/share/dprelease")
    assert default_home({"XDG_DATA_HOME": "/data"}) == Path("/data/dprelease")
    assert default_home({"XDG_DATA_HOME": "/data", "LEARNER_HOME": "/mine"}) == Path("/mine")


def test_the_only_consortium_needs_no_name(trust: TrustStore, world: World, tmp_path: Path) -> None:
    assert trust.get(None) == trust.get(CONSORTIUM)
    with pytest.raises(NotFound, match="trust add"):
        TrustStore(tmp_path / "empty").get(None)
    trust.add("other", mint("other", None).certificate, "other.example.org:7444")
    with pytest.raises(InvalidInput, match=r"--from other \| trial"):
        trust.get(None)
    trust.remove("other")
    assert [each.name for each in trust.all()] == [CONSORTIUM]
    with pytest.raises(NotFound):
        trust.remove("other")


def test_another_root_never_replaces_a_pinned_one(trust: TrustStore, world: World) -> None:
    with pytest.raises(Conflict, match="trust remove"):
        trust.add(CONSORTIUM, mint(CONSORTIUM, None).certificate, "hub.example.org:7444")
    moved = trust.add(CONSORTIUM, world.root.certificate, "elsewhere.example.org:7444")
    assert trust.get(CONSORTIUM) == moved
    assert moved.root == world.root.certificate


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "1st", "a" * 65, "x\n"])
def test_a_name_is_never_a_path(trust: TrustStore, world: World, name: str) -> None:
    for call in (lambda: trust.get(name), lambda: trust.add(name, world.root.certificate, "h:1")):
        with pytest.raises(InvalidInput):
            call()


def test_an_address_is_host_and_port(trust: TrustStore, world: World) -> None:
    with pytest.raises(InvalidInput, match="host:port"):
        trust.add(CONSORTIUM, world.root.certificate, "hub.example.org")


def test_a_consortium_has_a_hub_or_mirrors_or_both(trust: TrustStore, world: World) -> None:
    root, first, second = world.root.certificate, "https://mirror.example.org/trial", "http://other.example.org"
    trust.add(CONSORTIUM, root, None, [first + "/", second, first])
    assert (trust.get(CONSORTIUM).hub, trust.get(CONSORTIUM).mirrors) == (None, (first, second))
    trust.add(CONSORTIUM, root, "h:1", [second])
    assert (trust.get(CONSORTIUM).hub, trust.get(CONSORTIUM).mirrors) == ("h:1", (second,))
    with pytest.raises(InvalidInput, match="--mirror URL"):
        trust.add(CONSORTIUM, root, None)
    with pytest.raises(InvalidInput, match="mirror's address"):
        trust.add(CONSORTIUM, root, "h:1", ["mirror.example.org"])


def test_what_was_pinned_before_there_were_mirrors_still_loads(world: World, tmp_path: Path) -> None:
    before = canonical_bytes({"hub": "h:1", "name": CONSORTIUM, "root": world.root.certificate})
    (tmp_path / "trust").mkdir()
    (tmp_path / "trust" / f"{CONSORTIUM}.json").write_bytes(before)
    assert TrustStore(tmp_path).get(None).mirrors == ()
    TrustStore(tmp_path).add(CONSORTIUM, world.root.certificate, "h:1")
    assert (tmp_path / "trust" / f"{CONSORTIUM}.json").read_bytes() == before  # and it may be read by what wrote it


def test_only_a_root_can_be_pinned(world: World, tmp_path: Path) -> None:
    assert read_root(world.root_path) == world.root.certificate
    for path in (world.folder / "hub.pem", world.folder / "hub.key", tmp_path / "none.pem"):
        with pytest.raises(InvalidInput, match="root certificate"):
            read_root(path)


def test_fingerprints_are_compared_as_people_write_them() -> None:
    found = "ab" * 32
    check_fingerprint(found, ":".join(["AB"] * 32))
    check_fingerprint(found, " ".join(["abab"] * 16))
    for wrong in ("ab" * 31, "ab" * 31 + "aa", ""):
        with pytest.raises(InvalidInput, match="do not trust"):
            check_fingerprint(found, wrong)


def test_an_honest_folder_opens(folder: ReleaseFolder, trust: TrustStore, sealed: Sealed) -> None:
    opened = open_verified(folder, trust)
    assert opened.release.digest == sealed.digest
    assert {party: block.to_bytes() for party, (block,) in opened.release.blocks.items()} == sealed.blocks
    assert open_verified(folder, trust, CONSORTIUM).release.digest == sealed.digest


def test_a_false_root_refuses_an_honest_release(folder: ReleaseFolder, tmp_path: Path) -> None:
    trust = TrustStore(tmp_path)
    with pytest.raises(NotFound, match="not trusted"):
        open_verified(folder, trust)
    trust.add(CONSORTIUM, mint(CONSORTIUM, None).certificate, "h:1")
    with pytest.raises(IntegrityError, match="root"):
        open_verified(folder, trust)


def test_a_release_of_another_consortium_under_the_same_root_is_refused(
    folder: ReleaseFolder, trust: TrustStore, world: World
) -> None:
    trust.add("elsewhere", world.root.certificate, "h:1")
    with pytest.raises(IntegrityError, match="not of elsewhere"):
        open_verified(folder, trust, "elsewhere")


def test_a_release_is_found_by_its_first_digits_or_its_folder(
    folder: ReleaseFolder, sealed: Sealed, tmp_path: Path
) -> None:
    library = Library(tmp_path)
    copy(folder, library.kept(sealed.digest).path)
    for name in (sealed.digest, sealed.digest[:8], sealed.digest[:8].upper(), str(library.kept(sealed.digest).path)):
        assert library.find(name).path == library.kept(sealed.digest).path
    with pytest.raises(NotFound, match="learner fetch"):
        library.find("00" * 8)
    for name in ("", "abc", "not hex at all", "a" * 65, sealed.digest[:9], "../" + sealed.digest):
        with pytest.raises(InvalidInput):
            library.find(name)
    copy(folder, library.kept(sealed.digest[:62] + "zz").path)
    with pytest.raises(InvalidInput, match="more digits"):
        library.find(sealed.digest[:8])
    with pytest.raises(NotFound, match="holds no release"):
        library.find(str(tmp_path)).verify("")


def test_a_prefix_is_normalised() -> None:
    assert check_prefix("ABCDEF01") == "abcdef01"


def test_features_are_left_out_by_name(tmp_path: Path) -> None:
    folder = opened(World(tmp_path, COLUMNS[1]), tmp_path).folder.path
    run = runner(tmp_path / "home")
    asked = (folder, "--target", "glucose", "--method", "ols")
    left = json.loads(run("fit", *asked, "--without", "smoker,stage=II", "--json").output)
    assert left == json.loads(run("fit", *asked, "--features", "age,stage=other", "--json").output)
    assert left == json.loads(run("fit", *asked, "--features", "age,stage", "--without", "stage=II", "--json").output)
    card = json.loads(run("card", *asked, "--without", "smoker,stage=II").output)
    assert card["command"] == json.loads(run("card", *asked, "--features", "age,stage=other").output)["command"]
    for names, said in (
        ("stage=I", "stage=I is not among the features age, smoker=yes"),  # the reference
        ("glucose", "glucose is not among the features"),
        ("weight", "weight"),
        ("age,smoker,stage", "leaves no feature"),
    ):
        refused = run("fit", *asked, "--without", names)
        assert refused.exit_code == EXIT["InvalidInput"]
        assert said in refused.stderr
