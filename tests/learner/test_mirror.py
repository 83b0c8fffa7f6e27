"""Mirrors: real web servers with real files. Whatever they do, nothing wrong is kept, and one sentence says what is the matter."""

import gzip
import shutil
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dprelease.errors import (
    DpReleaseError,
    IntegrityError,
    InternalError,
    InvalidInput,
    NotFound,
    PeerUnavailable,
    TooManyRequests,
)
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.spec import BlockKey
from dprelease.wire.retry import PROGRESS_BYTES, STALL_SECONDS, ProgressDeadline
from learner.client import mirror as mirror_module
from learner.client.download import Patience, consortium_of, fetch
from learner.client.library import Library
from learner.client.mirror import Mirror, check_url
from learner.client.pinned_roots import Trusted
from learner.listing import INDEX, Index
from tests.learner.world import Sealed, World, stored
from tests.support.web import Handler, RangeHandler, Web, serving

QUICK = Patience(attempts=3, sleep=lambda seconds: None)
SHORT = 0.3
"""How long a mirror that stands still is waited for, once it has begun to answer."""


@pytest.fixture(scope="module")
def hub_folder(tmp_path_factory: pytest.TempPathFactory, world: World, sealed: Sealed) -> Path:
    """The folder of a hub as it stands, with two releases."""
    folder = tmp_path_factory.mktemp("hub") / "storage"
    stored(folder, world, sealed, world.sealed("another release"))
    return folder / "published"


@pytest.fixture
def published(tmp_path: Path, hub_folder: Path) -> Path:
    """The same for one test, which may change it."""
    return Path(shutil.copytree(hub_folder, tmp_path / "storage" / "published"))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "home")


@pytest.fixture(params=[RangeHandler, Handler], ids=["with ranges", "without ranges"])
def web(published: Path, request: pytest.FixtureRequest) -> Iterator[Web]:
    with serving(published, request.param) as running:
        yield running


@pytest.fixture
def ranged(published: Path) -> Iterator[Web]:
    with serving(published) as running:
        yield running


def get(web: Web, trusted: Trusted, library: Library, prefix: str, seconds: float = STALL_SECONDS) -> ReleaseFolder:
    with Mirror.dial(web.url, seconds) as mirror:
        return fetch(mirror, trusted, library, prefix, patience=QUICK)


def block_of(party: str, answer: Callable[[Handler], object]) -> Callable[[Handler], object]:
    """A fault of a party's block only."""
    return lambda handler: answer(handler) if handler.path.endswith(f"/{party}.0.block") else False


def once(answer: Callable[[Handler], object]) -> Callable[[Handler], object]:
    """A fault the first time only."""
    left = [answer]
    return lambda handler: left.pop()(handler) if left else False


def test_a_release_is_fetched_by_prefix_or_digest(web: Web, trusted: Trusted, library: Library, sealed: Sealed) -> None:
    kept = get(web, trusted, library, sealed.digest[:8])
    assert kept.verify(trusted.root).digest == sealed.digest
    assert {party: kept.block(party).read_bytes() for party in sealed.blocks} == sealed.blocks
    assert len(list((kept.path / "blocks").iterdir())) == len(sealed.blocks)
    shutil.rmtree(kept.path)
    web.asked.clear()
    get(web, trusted, library, sealed.digest)
    assert not web.ranges(INDEX)  # who knows the digest needs no list


def test_a_prefix_names_one_release(web: Web, published: Path, sealed: Sealed) -> None:
    with Mirror.dial(web.url) as mirror:
        with pytest.raises(NotFound, match="starts so"):
            mirror.manifest("00" * 5)
        index = Index.from_bytes((published / INDEX).read_bytes())
        (line,) = (line for line in index.releases if line.digest == sealed.digest)
        other = "1" if sealed.digest[10] == "0" else "0"
        twin = replace(line, digest=sealed.digest[:10] + other * 54)
        (published / INDEX).write_bytes(Index(releases=(line, line, twin)).to_bytes())
        with pytest.raises(InvalidInput, match="2 releases start so"):
            mirror.manifest(sealed.digest[:8])
        assert mirror.manifest(sealed.digest[:12]) == ReleaseFolder(published / sealed.digest).signed_manifest()


def test_it_goes_on_at_the_last_byte(web: Web, trusted: Trusted, library: Library, sealed: Sealed) -> None:
    def cut(handler: Handler) -> None:
        handler.answer(200, handler.content[:100], len(handler.content))

    web.fault = block_of("north", once(cut))
    kept = get(web, trusted, library, sealed.digest)
    assert kept.verify(trusted.root).digest == sealed.digest
    assert web.ranges("north.0.block") == [None, "bytes=100-"]


def begun(library: Library, sealed: Sealed, party: str, data: bytes) -> Path:
    """The part of a block that an earlier attempt left."""
    part = library.draft(sealed.digest).block(party).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(data)
    return part


def test_it_goes_on_in_another_run_and_counts_what_is_there(
    web: Web, trusted: Trusted, library: Library, sealed: Sealed
) -> None:
    begun(library, sealed, "south", sealed.blocks["south"][:77])
    seen: list[tuple[BlockKey, int, int]] = []
    with Mirror.dial(web.url) as mirror:
        fetch(mirror, trusted, library, sealed.digest, lambda *held: seen.append(held), QUICK)
    assert web.ranges("south.0.block") == ["bytes=77-"]
    assert min(held for key, held, _ in seen if key.party == "south") == 77
    assert library.kept(sealed.digest).verify(trusted.root)


def test_damaged_bytes_of_an_earlier_attempt_are_replaced(
    web: Web, trusted: Trusted, library: Library, sealed: Sealed
) -> None:
    begun(library, sealed, "south", b"damaged")
    get(web, trusted, library, sealed.digest)
    assert web.ranges("south.0.block") == ["bytes=7-", None]


def endless(handler: Handler) -> None:
    handler.answer(200, length=-1)
    while True:
        handler.wfile.write(b"{" * 65536)


def still(handler: Handler, status: int = 200) -> None:
    handler.answer(status, b"{", 10_000)
    handler.web.released.wait()


def elsewhere(handler: Handler) -> None:
    handler.answer(302, Location=handler.path)


def endless_elsewhere(handler: Handler) -> None:
    handler.answer(302, length=-1, Location="/elsewhere")
    while True:
        handler.wfile.write(bytes(65536))


Trouble = tuple[Callable[[Handler], object], type[DpReleaseError], str]

ANYWHERE: dict[str, Trouble] = {
    "nothing": (lambda handler: handler.answer(200), IntegrityError, "not a manifest|before its end"),
    "no answer": (lambda handler: handler.connection.shutdown(socket.SHUT_RDWR), PeerUnavailable, "connection broke"),
    "an endless body": (endless, IntegrityError, "more than|past the"),
    "a web page": (
        lambda handler: handler.answer(200, b"<!DOCTYPE html>"),
        IntegrityError,
        "not a manifest|before its",
    ),
    "401": (lambda handler: handler.answer(401), NotFound, "401"),
    "403": (lambda handler: handler.answer(403), NotFound, "403"),
    "404": (lambda handler: handler.answer(404), NotFound, "404"),
    "416": (lambda handler: handler.answer(416), IntegrityError, "416"),
    "418": (lambda handler: handler.answer(418), InternalError, "418"),
    "429": (lambda handler: handler.answer(429, Retry_After="1000"), TooManyRequests, "429"),
    "500": (lambda handler: handler.answer(500), PeerUnavailable, "500"),
    "503": (lambda handler: handler.answer(503, Retry_After="1000"), PeerUnavailable, "503"),
    "999": (lambda handler: handler.answer(999), InternalError, "HTTP 999 is no answer"),
    "a stall": (still, PeerUnavailable, "too little came within 0.3 s"),
    "gzip": (
        lambda handler: handler.answer(200, gzip.compress(handler.content), Content_Encoding="gzip"),
        InternalError,
        "compressed",
    ),
    "gzip on the way": (
        lambda handler: handler.answer(200, gzip.compress(handler.content), Transfer_Encoding="gzip"),
        InternalError,
        "compressed",
    ),
    "redirects without end": (elsewhere, InternalError, "redirects"),
    "an endless redirect": (endless_elsewhere, InternalError, "redirects"),
    "a redirect to a file": (
        lambda handler: handler.answer(302, Location="file:///etc/passwd"),
        InternalError,
        "another host",
    ),
    "a redirect into another network": (
        lambda handler: handler.answer(302, Location=f"http://localhost:{handler.web.url.rpartition(':')[2]}/"),
        InternalError,
        "another host, localhost; if that is the mirror, give its address",
    ),
    "a redirect to nowhere": (lambda handler: handler.answer(302, Location="http://["), PeerUnavailable, "broke"),
    "a part that nobody asked for": (
        lambda handler: handler.answer(206, handler.content[5:], Content_Range="bytes 5-9/10"),
        InternalError,
        "another byte",
    ),
    "a part of who knows what": (lambda handler: handler.answer(206, handler.content), InternalError, "another byte"),
}


TROUBLES = [
    *((trouble, place) for trouble in ANYWHERE for place in ("manifest.json", "north.0.block")),
    *(
        (trouble, place)
        for trouble in ("a stall", "an endless body", "404", "gzip")
        for place in ("manifest.sig", INDEX)
    ),
]
"""A signature and the list are read as a manifest is."""


@pytest.mark.parametrize(("trouble", "place"), TROUBLES)
def test_trouble_gets_one_clear_error_and_keeps_nothing_wrong(
    ranged: Web, trusted: Trusted, library: Library, sealed: Sealed, trouble: str, place: str
) -> None:
    answer, error, words = ANYWHERE[trouble]
    ranged.fault = lambda handler: answer(handler) if handler.path.endswith((place, "elsewhere")) else False
    prefix = sealed.digest[:8] if place == INDEX else sealed.digest
    with pytest.raises(error) as raised:
        get(ranged, trusted, library, prefix, SHORT if answer is still else STALL_SECONDS)
    if place in ("manifest.json", "north.0.block"):
        assert raised.match(words)
    assert "\n" not in raised.value.message
    assert not library.kept(sealed.digest).path.exists()
    part = library.draft(sealed.digest).block("north").with_suffix(".part")
    held = part.read_bytes() if part.exists() else b""
    assert held in (b"", b"{")  # the byte that came before it stood still: the digest decides in the end
    ranged.fault = lambda handler: False
    assert get(ranged, trusted, library, sealed.digest).verify(trusted.root)


@pytest.mark.parametrize(
    "answer",
    [
        lambda handler: handler.answer(206, handler.content, Content_Range="bytes 0-9/10"),
        lambda handler: handler.answer(206, handler.content[9:], Content_Range="bytes 9-10/11"),
        lambda handler: handler.answer(206, handler.content[7:], Content_Type="multipart/byteranges; boundary=x"),
        lambda handler: handler.answer(200, handler.content[:5]),
        lambda handler: handler.answer(416),
    ],
    ids=["from the beginning", "from later on", "in parts", "shorter than what is held", "416"],
)
def test_a_wrong_range_is_never_appended(
    ranged: Web, trusted: Trusted, library: Library, sealed: Sealed, answer: Callable[[Handler], object]
) -> None:
    part = begun(library, sealed, "north", sealed.blocks["north"][:8])
    ranged.fault = block_of("north", answer)
    with pytest.raises((IntegrityError, InternalError)):
        get(ranged, trusted, library, sealed.digest)
    assert not part.exists() or part.read_bytes() == sealed.blocks["north"][:8]
    ranged.fault = lambda handler: False
    assert get(ranged, trusted, library, sealed.digest).verify(trusted.root)


def test_more_than_was_announced_is_not_taken(ranged: Web, trusted: Trusted, library: Library, sealed: Sealed) -> None:
    ranged.fault = block_of("north", lambda handler: handler.answer(200, handler.content + b"x"))
    with pytest.raises(IntegrityError, match="past the"):
        get(ranged, trusted, library, sealed.digest)
    assert not library.draft(sealed.digest).block("north").with_suffix(".part").exists()


def test_a_redirect_is_followed_with_its_range(
    ranged: Web, published: Path, trusted: Trusted, library: Library, sealed: Sealed
) -> None:
    begun(library, sealed, "north", sealed.blocks["north"][:8])
    with serving(published) as there:
        ranged.fault = lambda handler: handler.answer(307, Location=there.url + handler.path)
        assert get(ranged, trusted, library, sealed.digest[:8]).verify(trusted.root)
        assert there.ranges("north.0.block") == ["bytes=8-"]


def test_an_endless_list_or_manifest_costs_bounded_memory(
    ranged: Web, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "MOST_INDEX_BYTES", 1 << 20)
    for place, ask in (
        (INDEX, lambda mirror: list(mirror.releases())),
        ("manifest.json", lambda mirror: mirror.manifest(sealed.digest)),
        ("manifest.sig", lambda mirror: mirror.manifest(sealed.digest)),
    ):
        for answer in (endless, endless_elsewhere):
            ranged.fault = lambda handler, place=place, answer=answer: (  # type: ignore[misc]
                answer(handler) if handler.path.endswith((place, "elsewhere")) else False
            )
            tracemalloc.start()
            with Mirror.dial(ranged.url) as mirror, pytest.raises((IntegrityError, InternalError)):
                ask(mirror)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 4 * Manifest.most_bytes


@pytest.mark.parametrize("place", [INDEX, "manifest.json"])
def test_a_document_that_moves_is_given_time(
    ranged: Web, published: Path, sealed: Sealed, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    monkeypatch.setattr(ProgressDeadline, "moved", lambda _: moved.append(1))
    path = published / INDEX if place == INDEX else published / sealed.digest / place
    path.write_bytes(path.read_bytes() + b"\n" * 4 * PROGRESS_BYTES)
    with Mirror.dial(ranged.url) as mirror, suppress(IntegrityError):
        list(mirror.releases()) if place == INDEX else mirror.manifest(sealed.digest)
    assert moved


def test_a_list_that_is_none_is_refused(ranged: Web, published: Path) -> None:
    for data in (b"<html>", b"{}x", b'{"format":9,"releases":[]}', b"\xff"):
        (published / INDEX).write_bytes(data)
        with Mirror.dial(ranged.url) as mirror, pytest.raises(IntegrityError, match="not a list"):
            list(mirror.releases())


def test_nobody_there_is_said(trusted: Trusted, library: Library, sealed: Sealed) -> None:
    for url, words in (("http://127.0.0.1:1", "nothing answers"), ("http://nowhere.invalid", "host name")):
        with Mirror.dial(url) as mirror, pytest.raises(PeerUnavailable, match=words):
            fetch(mirror, trusted, library, sealed.digest, patience=QUICK)


def test_tls_is_checked_and_plain_http_would_do(ranged: Web, sealed: Sealed) -> None:
    with Mirror.dial(ranged.url.replace("http:", "https:")) as mirror, pytest.raises(PeerUnavailable, match="TLS"):
        mirror.manifest(sealed.digest)


def test_a_proxy_of_the_environment_is_used(
    ranged: Web, published: Path, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", ranged.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    ranged.fault = lambda handler: handler.answer(200, (published / handler.path.split("/", 3)[3]).read_bytes())
    with Mirror.dial("http://mirror.example.org") as mirror:
        assert mirror.manifest(sealed.digest) == ReleaseFolder(published / sealed.digest).signed_manifest()
    assert ranged.asked[0][0].startswith("http://mirror.example.org/")


def test_the_consortium_that_a_release_names(ranged: Web, published: Path, trusted: Trusted, sealed: Sealed) -> None:
    with Mirror.dial(ranged.url) as mirror:
        assert consortium_of(mirror, sealed.digest) == trusted.name
        (published / sealed.digest / "manifest.json").write_bytes(b"{}")
        with pytest.raises(IntegrityError, match="not a valid Manifest"):
            consortium_of(mirror, sealed.digest)


@pytest.mark.parametrize(
    "url",
    [
        "mirror.example.org/trial", "ftp://mirror.example.org", "file:///srv", "https://", "https://u:p@m.org", "",
        "https://m.org/?x=1", "https://m.org/#x", "https://m.org/a b", "https://m.org/\x1b[1m", "http://[", "http://m:x/",
    ],
)  # fmt: skip
def test_an_address_is_one_of_a_folder_on_a_web_server(url: str) -> None:
    with pytest.raises(InvalidInput, match="mirror's address"):
        check_url(url)
