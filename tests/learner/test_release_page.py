"""Pages beside releases: what is on them, that they follow from the signed bytes, and that no publication waits for them."""

import json
import logging
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from dprelease.about import About
from dprelease.publication import beside, page
from dprelease.publication.beside import files_beside
from dprelease.release.folder import PAGE, ReleaseFolder
from learner.cli.main import main
from learner.client.pinned_roots import TrustStore
from learner.hub.pages import mend, write_beside, write_list
from learner.hub.storage import Storage
from tests.learner.commands import EXIT
from tests.learner.pages import LEVELS, TITLE, UNIT, parsed
from tests.learner.world import CONSORTIUM, World, publish_to
from tests.support.specs import categorical, numeric

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit=UNIT), categorical("stage", *LEVELS)),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"),),
}
ABOUT = About.model_validate(
    {
        "description": "A word. " * 499,
        "licence": "CC-BY-4.0",
        "creators": [{"name": "A. Author", "orcid": "0000-0002-1825-0097"}, {"name": "A clinic"}],
        "period": "2015/2019",
        "region": "Somewhere",
    }
)


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("pages"), COLUMNS)


@pytest.fixture(scope="module")
def hub(consortium: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """Joint moments whose names are an attacker's, mixed rows and ranges, with the page of all."""
    with closing(Storage(tmp_path_factory.mktemp("hub"), 1 << 30)) as storage:
        for title, mechanism in ((TITLE, "moments"), ("rows", "mixed"), ("ranges", "ranges")):
            about = ABOUT if mechanism == "mixed" else None
            publish_to(storage, consortium, consortium.sealed(title, mechanism=mechanism, rows=4000, about=about))
        write_list(storage)
        yield storage


def found(hub: Storage, mechanism: str) -> ReleaseFolder:
    folders = [hub.release(digest) for digest in hub.index.lines]
    return next(each for each in folders if each.manifest().spec.mechanism == mechanism)


@pytest.mark.parametrize("mechanism", ["moments", "mixed", "ranges", "all"])
def test_a_page_is_sound_and_loads_nothing(hub: Storage, mechanism: str):
    folder = found(hub, "moments").path.parent if mechanism == "all" else found(hub, mechanism).path
    text = (folder / PAGE).read_text()
    tree = parsed(text)
    assert len(text) < 300_000
    assert tree.get("lang") == "en"
    levels = [int(node.tag[1]) for node in tree.iter() if re.fullmatch("h[1-6]", node.tag)]
    assert levels.count(1) == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    for picture in tree.iter("svg"):
        assert set((picture.get("aria-labelledby") or "").split()) <= set(ids)
        assert all(part.text for part in picture if part.tag in ("title", "desc"))
    for node in tree.iter():
        assert not {"src", "srcset", "style", "action"} & node.attrib.keys()
        assert not [name for name in node.attrib if name.startswith("on")]
        assert "://" not in node.get("href", "")
    style = "".join(next(tree.iter("style")).itertext())
    policy = next(node for node in tree.iter("meta") if node.get("http-equiv") == "Content-Security-Policy")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert (
        policy.get("content") == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert [script.get("type") for script in tree.iter("script")] == (
        [] if mechanism == "all" else ["application/ld+json"]
    )


class Crawler(HTMLParser):
    """The JSON-LD of a page, found as crawlers find it: in HTML, by the type of its script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[dict] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and ("type", "application/ld+json") in attrs

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found.append(json.loads(data))

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


REQUIRED = {"name", "description"}
RECOMMENDED = {"creator", "identifier", "isAccessibleForFree", "keywords", "license", "measurementTechnique"}
RECOMMENDED |= {"distribution", "includedInDataCatalog", "publisher", "spatialCoverage", "temporalCoverage"}
RECOMMENDED |= {"variableMeasured", "version", "datePublished"}
KNOWN = {
    "Dataset": REQUIRED | RECOMMENDED | {"creditText"},
    "DataCatalog": {"name", "url"},
    "DataDownload": {"name", "contentUrl", "contentSize", "encodingFormat", "sha256"},
    "Organization": {"name", "url"},
    "Person": {"name", "url"},
    "PropertyValue": {"name", "unitText"},
}
"""Types of schema.org that pages have, and those of their properties that pages may have."""


def unknown(node: object) -> list[str]:
    """Properties that a node of JSON-LD, or one in it, has and its type has not."""
    if isinstance(node, list):
        return [name for each in node for name in unknown(each)]
    if not isinstance(node, dict):
        return []
    own = {name for name in node if not name.startswith("@")}
    return sorted(own - KNOWN[node["@type"]]) + [name for each in node.values() for name in unknown(each)]


@pytest.mark.parametrize("mechanism", ["moments", "mixed", "ranges"])
def test_a_dataset_crawler_finds_all_that_it_asks_for(hub: Storage, mechanism: str):
    """Source: schema.org/Dataset, and the required and recommended properties of Google's Dataset Search."""
    folder = found(hub, mechanism)
    (described,) = Crawler((folder.path / PAGE).read_text()).found
    assert (described["@context"], described["@type"]) == ("https://schema.org/", "Dataset")
    assert unknown(described) == []
    told = {"license", "spatialCoverage", "temporalCoverage"} if mechanism != "mixed" else set()
    assert (REQUIRED | RECOMMENDED) - told <= described.keys()
    assert 50 <= len(described["description"]) <= 5000
    assert all(described.values())
    if mechanism == "moments":
        assert described["name"] == TITLE
    if mechanism == "mixed":
        assert described["license"] == "https://spdx.org/licenses/CC-BY-4.0.html"
        assert described["creator"][0]["url"] == "https://orcid.org/0000-0002-1825-0097"
        assert described["temporalCoverage"] == "2015/2019"
    files = {file["contentUrl"]: file for file in described["distribution"]}
    assert {"manifest.json", "manifest.sig", "blocks/north.0.block", "blocks/south.0.block"} <= files.keys()
    for name, file in files.items():
        data = (folder.path / name).read_bytes()
        assert (file["sha256"], file["contentSize"]) == (sha256(data).hexdigest(), f"{len(data)} B")


def test_a_page_leaves_to_the_table_what_would_make_it_large(
    consortium: World, hub: Storage, monkeypatch: pytest.MonkeyPatch
):
    folder = found(hub, "mixed")
    release = folder.verify(consortium.root.certificate)
    whole = files_beside(folder, release)[PAGE].decode()
    told = f"These are 2 of {len(release.columns)} columns; columns.csv has all."
    assert told not in whole
    monkeypatch.setattr(page, "MOST_COLUMNS", (300, 2))
    monkeypatch.setattr(page, "LARGEST", len(whole.encode()) + 1)
    assert files_beside(folder, release)[PAGE].decode() == whole
    monkeypatch.setattr(page, "LARGEST", len(whole.encode()))
    cut = files_beside(folder, release)[PAGE].decode()
    assert told in cut
    assert len(Crawler(cut).found[0]["variableMeasured"]) == 2
    assert release.columns[2] not in "".join(next(iter(parsed(cut).iter("tbody"))).itertext())


@pytest.mark.slow
def test_a_page_of_three_hundred_columns_with_the_longest_names_is_small(tmp_path: Path):
    names = [f"{'n' * 60}_{number:03}" for number in range(300)]
    columns = {name: {"label": "l" * 200, "concept": f"LOINC:{'c' * 190}"} for name in names}
    about = About.model_validate({**ABOUT.model_dump(mode="json"), "columns": columns})
    world = World(tmp_path, {"north": tuple(numeric(name, 0.0, 10.0, unit="u" * 60) for name in names)})
    with closing(Storage(tmp_path / "hub", 1 << 30)) as storage:
        folder = publish_to(storage, world, world.sealed(mechanism="moments", rows=40, about=about))
    text = (folder.path / PAGE).read_text()
    assert len(text.encode()) < 300_000
    assert "of 300 columns; columns.csv has all." in text


def test_verify_says_whether_a_page_follows_from_the_release(consortium: World, hub: Storage, tmp_path: Path):
    TrustStore(tmp_path).add(CONSORTIUM, consortium.root.certificate, "h:1")
    folder = found(hub, "ranges")
    asked = ["--home", str(tmp_path), "verify", str(folder.path)]
    assert "follow from its signed bytes" in CliRunner().invoke(main, asked).output
    page = (folder.path / PAGE).read_bytes()
    try:
        (folder.path / PAGE).write_bytes(page.replace(b"4,000", b"9,000"))
        result = CliRunner().invoke(main, asked)
        assert "altered beside the signed release: index.html" in result.output
        assert result.exit_code == EXIT["IntegrityError"]
    finally:
        (folder.path / PAGE).write_bytes(page)


def test_no_publication_waits_for_a_page(
    consortium: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    sealed = consortium.sealed("no page")
    with closing(Storage(tmp_path, 1 << 30)) as storage:
        with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
            broken.setattr(beside, "release_page", lambda *_: 1 / 0)
            folder = publish_to(storage, consortium, sealed)
        assert f"{PAGE} of release" in caplog.text
        assert not (folder.path / PAGE).exists()
        mend(storage, consortium.root.certificate)
        assert (folder.path / PAGE).exists()
        assert sealed.digest in (folder.path.parent / PAGE).read_text()


def test_a_disk_without_room_is_said(hub: Storage, consortium: World, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "blocked").write_text("a file where a folder belongs")
    release = found(hub, "mixed").verify(consortium.root.certificate)
    write_beside(ReleaseFolder(tmp_path / "blocked"), release)
    assert "cannot be written" in caplog.text
