"""`learner list`, `fetch`, `verify`, `spending`: from a list to a verified release on this machine, and what all releases spent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, Task, TaskID, TextColumn, TransferSpeedColumn
from rich.text import Text

from dprelease.about import DECLARED
from dprelease.cli.printing import json_option, print_document
from dprelease.description.spending import accounts, latest_delta, spending_document
from dprelease.document.document import Document, Table
from dprelease.errors import IntegrityError
from dprelease.files.extras import installed
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import listed, one_line
from dprelease.release.folder import BLOCKS, MANIFEST, SIGNATURE
from dprelease.release.spec import BlockKey
from dprelease.release.verification import checks
from learner.client import download
from learner.client.download import consortium_of, fetch
from learner.client.library import Library, Opened, open_release, open_verified
from learner.client.mirror import Mirror, split_release
from learner.client.pinned_roots import TrustStore
from learner.client.sources import SourceAddress, answered, hub_first, mirrors_first, signed_manifests
from learner.listing import Listed, listing

from_option = click.option("--from", "name", metavar="NAME", help="Consortium; may be left out if only one is trusted.")
OUT_TOO = {"token_normalize_func": lambda name: "output" if name == "out" else name}
"""For commands whose ``--output`` was called ``--out`` before."""
BUDGET = "The budget is {}. A release alone does not show that others keep to it: learner spending adds up what was published."
MOST_LISTED = 1000
"""Releases in a table; it is made whole before its first line is printed."""


def tell(line: str) -> None:
    """Say what somebody should know, beside the answer."""
    click.echo(one_line(line), err=True)


@click.command("list")
@from_option
@click.option("--about", is_flag=True, help="Fetch each signed manifest, too, for licence, creators and description.")
@json_option
@click.pass_obj
def list_releases(home: Path, name: str | None, about: bool, as_json: bool) -> None:
    """List what a consortium has published, newest first, as its hub says or else a mirror; of very many the newest 1,000.

    \b
    Example:
      learner list --from trial
      learner list --json              # all of them
    """
    most, consortium = None if as_json else MOST_LISTED + 1, TrustStore(home).get(name)
    places, told = hub_first(consortium), None
    if about:
        made = answered(places, lambda source: list(islice(signed_manifests(source, consortium), most)), tell)
        lines = [Listed.of(each.spec.digest(), each) for each in made]
        told = {each.spec.digest(): each.spec.about for each in made}
    else:
        lines = answered(places, lambda source: list(islice(source.releases(), most)), tell)
    print_document(listing(lines if as_json else lines[:MOST_LISTED], told), as_json=as_json)
    if not as_json and len(lines) > MOST_LISTED:
        tell(f"these are the newest {MOST_LISTED:,}; learner list --json prints all")


@click.command("fetch")
@click.argument("release", metavar="ID|URL")
@from_option
@json_option
@click.pass_obj
def fetch_release(home: Path, release: str, name: str | None, as_json: bool) -> None:
    """Download release ID and verify it; run it again to go on after a break.

    ID is the release's digest, or its first 8 digits or more; mirrors are asked first, then the hub. URL is a release's
    folder on any web server. A release that does not verify is not kept.

    \b
    Example:
      learner fetch 3f9a12c4 --from trial
      learner fetch https://mirror.example.org/trial/DIGEST
    """
    trust = TrustStore(home)
    if "://" in release:
        url, release = split_release(release)
        places: tuple[SourceAddress, ...] = (SourceAddress(url, partial(Mirror.dial, url)),)
        consortium = trust.get(name or answered(places, lambda source: consortium_of(source, release), tell))
    else:
        consortium = trust.get(name)
        places = mirrors_first(consortium)
    with download_bar() as progress:
        folder = answered(places, lambda source: fetch(source, consortium, Library(home), release, progress), tell)
    tell(f"kept in {folder.path}")
    print_document(verified(open_verified(folder, trust, consortium.name)), as_json=as_json, explain=True)


@click.command("verify")
@click.argument("release", metavar="ID|DIR")
@from_option
@json_option
@click.pass_obj
def verify_release(home: Path, release: str, name: str | None, as_json: bool) -> None:
    """Check a fetched release, or a folder that holds one, without any network.

    \b
    Example:
      learner verify 3f9a12c4
    """
    opened = open_release(home, release, name)
    altered, notes = _beside(opened)
    about = opened.release.spec.about
    declared = (BUDGET.format(DECLARED.format(about.budget)),) if about and about.budget else ()
    print_document(verified(opened, (*notes, *declared)), as_json=as_json, explain=True)
    if altered:
        raise IntegrityError(
            f"altered beside the signed release: {listed(altered)}. The signed release itself is genuine: take numbers from it, or "
            "these files from the hub"
        )


def verified(opened: Opened, notes: tuple[str, ...] = ()) -> Document:
    """All that was checked, the guarantee, and who is trusted for it."""
    spec = opened.release.spec
    facts = {
        "release": spec.digest(),
        "consortium": spec.consortium,
        "published": opened.manifest.published,
        "mechanism": spec.mechanism,
        spec.counted: spec.patients,
        "content": mechanism_of(spec).statements(spec).content,
        "root_sha256": opened.consortium.fingerprint,
        "folder": str(opened.folder.path),
        "checked": tuple(checks(spec)),
    }
    columns = [(name, opened.release.column(name).unit) for name in spec.released]
    table = Table.of("columns", ("name", "unit"), columns, detail=True)
    return Document(spec.title, facts, (table,), notes, opened.release.promise, {"verified": True})


def _beside(opened: Opened) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of files beside a release that somebody altered, and notes on all that are beside it and no part of it."""
    if {path.name for path in opened.folder.path.iterdir()} <= {MANIFEST, SIGNATURE, BLOCKS}:
        return (), ()
    if not installed("jinja2"):
        return (), ("Files beside the release were not compared with it, which takes Jinja2.",)
    from dprelease.publication.beside import compared  # it loads jinja2
    from dprelease.publication.plain import LAYOUT

    found = compared(opened.folder, opened.release)
    if not (wrong := found.differing):
        return (), ("Files beside the release follow from its signed bytes.",)
    if found.altered:
        return wrong, (f"The signed release is genuine. Not made from its bytes: {listed(wrong)}.",)
    of = "no layout" if found.layout is None else f"layout {found.layout}"
    return (), (
        f"Another version of dprelease wrote files beside the release: README.txt says {of}, and this version makes layout "
        f"{LAYOUT}. So it cannot check {listed(wrong)}. The signed release is genuine.",
    )


@click.command("spending")
@click.option("--delta", type=float, help="delta at which epsilon is shown; that of the latest release if left out.")
@click.option(
    "--budget", type=float, metavar="EPSILON", help="Budget at that delta; what releases declare if left out."
)
@from_option
@json_option
@click.pass_obj
def spending(home: Path, delta: float | None, budget: float | None, name: str | None, as_json: bool) -> None:
    """Show every release by date with what it spent, what all up to it spent, and what is left of a budget.

    Fetches and checks each signed manifest, from the hub or else a mirror; nothing is taken from an unsigned list. Rosters
    are sets of patients: one account for each.

    \b
    Example:
      learner spending --from trial --budget 3
    """
    consortium = TrustStore(home).get(name)
    found = answered(hub_first(consortium), lambda source: accounts(signed_manifests(source, consortium)), tell)
    shown_at = latest_delta(found) if delta is None else delta
    print_document(spending_document(consortium.name, found, shown_at, budget), as_json=as_json)


def print_about(
    opened: Sequence[Opened], document: Document, *, as_json: bool, explain: bool = False, shown: Collection[str] = ()
) -> None:
    """A document about releases, and that they were verified."""
    if not as_json:
        for each in opened:
            click.echo(f"verified: release {each.release.digest} of {each.consortium.name}")
        click.echo()
    print_document(document, as_json=as_json, explain=explain, shown=shown)


class _SpeedColumn(TransferSpeedColumn):
    """The speed of a download, and nothing for a block that came at once, which has none."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.finished_speed or task.speed else Text()


@contextmanager
def download_bar() -> Iterator[download.Progress]:
    """Bars of a download's blocks on standard error, so that standard output stays clean for --json."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), _SpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[BlockKey, TaskID] = {}

        def progress(key: BlockKey, held: int, size: int) -> None:
            if key not in tasks:
                tasks[key] = bar.add_task(key.words, total=size)
            bar.update(tasks[key], completed=held)

        yield progress
