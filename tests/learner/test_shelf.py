"""The published list without a network."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from dprelease.errors import InvalidInput
from learner.hub.shelf import LARGEST_PAGE, Shelf
from learner.hub.storage import Storage
from tests.learner.world import Sealed, World, publish_to


def test_the_list_follows_the_signed_time_and_what_was_published_meanwhile(storage: Storage, world: World) -> None:
    shelf = Shelf(storage)
    assert shelf.page(0, "") == ([], "")
    now = datetime.now(UTC)
    releases = [world.sealed(f"release {number}") for number in range(3)]
    for release, hours in zip(releases, (-2, -3, -1), strict=True):
        publish_to(storage, world, release, now + timedelta(hours=hours))
    lines, _ = shelf.page(0, "")
    assert [line.digest for line in lines] == [releases[index].digest for index in (2, 0, 1)]
    first, token = shelf.page(1, "")
    newest = world.sealed("release 3")
    publish_to(storage, world, newest, now)
    rest, _ = shelf.page(LARGEST_PAGE + 1, token)  # a page that was begun does not shift
    assert [line.digest for line in [*first, *rest]] == [line.digest for line in lines]
    assert shelf.page(1, "")[0][0].digest == newest.digest


def test_an_ambiguous_prefix_asks_for_more(storage: Storage, world: World, sealed: Sealed) -> None:
    published = publish_to(storage, world, sealed)
    twin = sealed.digest[:10] + "0" * 54
    shutil.copytree(published.path, published.path.with_name(twin))
    shelf = Shelf(storage)
    digest = bytes.fromhex(sealed.digest)
    with pytest.raises(InvalidInput, match="more digits"):
        shelf.signed_manifest(digest[:5])
    assert shelf.signed_manifest(digest[:7]) == published.signed_manifest()


def test_a_release_that_cannot_be_read_does_not_hide_the_others(storage: Storage, world: World, sealed: Sealed) -> None:
    damaged = publish_to(storage, world, world.sealed("damaged"))
    (damaged.path / "manifest.json").write_bytes(b"{")
    publish_to(storage, world, sealed)
    lines, _ = Shelf(storage).page(0, "")
    assert [line.digest for line in lines] == [sealed.digest]
