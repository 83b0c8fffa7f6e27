"""What signed manifests say was spent: by date, added up exactly, roster by roster."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dprelease.about import About, Creator
from dprelease.description.spending import Account, accounts, spending_document
from dprelease.document.text import text
from dprelease.errors import IntegrityError, PeerUnavailable, TooManyRequests
from dprelease.privacy.calibration import budget
from dprelease.privacy.price import epsilon_text, mu2_text
from dprelease.release.accounting import guarantee
from dprelease.release.manifest import Manifest
from dprelease.spec_base import Target
from learner.cli.main import main
from learner.client.download import Patience
from learner.client.pinned_roots import Trusted, TrustStore
from learner.client.sources import signed_manifests
from learner.hub.list_page import list_page
from learner.hub.server import Hub
from learner.hub.storage import Storage
from learner.listing import Listed
from tests.learner.world import CONSORTIUM, Sealed, World, publish_to

DELTA = 1e-6
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def releases(world: World) -> tuple[Sealed, Sealed, Sealed]:
    """In the order in which they are published."""
    return (
        world.sealed("the second title"),
        world.sealed("rows that were noised", mechanism="rows", delta=1e-3),
        world.sealed("moments", mechanism="moments", epsilon=0.5),
    )


@pytest.fixture(scope="module")
def published(
    world: World, releases: tuple[Sealed, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[bytes, str], ...]:
    """Manifest and signature of each, an hour apart."""
    storage = Storage(tmp_path_factory.mktemp("published"), 1 << 30)
    hours = [NOW - timedelta(hours=3 - at) for at in range(len(releases))]
    folders = [publish_to(storage, world, sealed, at) for sealed, at in zip(releases, hours, strict=True)]
    storage.close()
    return tuple(folder.signed_manifest() for folder in folders)


@pytest.fixture
def account(published: tuple[tuple[bytes, str], ...]) -> Account:
    (found,) = accounts(Manifest.from_bytes(data) for data, _ in reversed(published))
    return found


def test_spending_adds_up_by_date(account: Account, releases: tuple[Sealed, ...]) -> None:
    given = [guarantee(sealed.spec) for sealed in releases]
    assert [each.manifest.spec.digest() for each in account.releases] == [sealed.digest for sealed in releases]
    assert [each.mu2 for each in account.releases] == [one.joint_mu2 for one in given]
    assert [each.total for each in account.releases] == [
        sum((one.joint_mu2 for one in given[: at + 1]), Fraction(0)) for at in range(3)
    ]
    assert account.hospitals == {
        party: sum((one.party(party).mu2 for one in given), Fraction(0)) for party in ("north", "south")
    }
    assert sum(account.hospitals.values()) == account.total  # joint moments are charged once, in parts


def test_what_is_left_follows_from_a_budget_that_somebody_announced(account: Account) -> None:
    left = budget(Target(scope="joint", epsilon=3.0, delta=DELTA)) - account.total
    assert account.remaining(3.0, DELTA) == left
    latest = account.releases[-1]
    plenty, unsaid, over = (spending_document(CONSORTIUM, [account], DELTA, each) for each in (3.0, None, 0.1))
    assert plenty.notes[0] == (
        f"Roster roster-1: what is left of epsilon = 3 is enough for {left // latest.mu2} more like the latest release, "
        f"{latest.manifest.spec.digest()[:12]}."
    )
    assert plenty.table("rosters").grid.lines[0][3:] == (mu2_text(left), epsilon_text(left, DELTA))
    assert "declare no budget" in unsaid.notes[0]
    assert over.notes[0] == "Roster roster-1: a budget of epsilon = 0.1 is exceeded."
    assert over.table("rosters").grid.lines[0][3:] == (mu2_text(account.remaining(0.1, DELTA)), "-")


def test_what_is_left_of_a_budget_that_releases_declare_stands_on_the_list(world: World, tmp_path: Path) -> None:
    """The latest release with a budget has the last word, at its own delta."""
    about = {"description": "ages", "licence": "CC0-1.0", "creators": [{"name": "A clinic"}]}
    asked = [{"delta": 1e-3}, {"about": About(**about, budget=3.0)}, {"about": About(**about)}]
    with closing(Storage(tmp_path, 1 << 30)) as storage:
        for hour, more in enumerate(asked):
            sealed = world.sealed(f"release {hour}", mechanism="moments", epsilon=0.5, **more)
            folder = publish_to(storage, world, sealed, NOW - timedelta(hours=3 - hour))
        lines = list(storage.index.lines.values())[::-1]
        page = list_page(folder.path.parent, lines)
        (found,) = accounts(storage.release(line.digest).manifest() for line in lines)
    declared = Target(scope="joint", epsilon=3.0, delta=found.releases[1].manifest.spec.target.delta)
    assert found.declared == declared
    more = (budget(declared) - found.total) // found.releases[-1].mu2
    told = f"what is left of epsilon = 3 is enough for {more} more like the latest release"
    assert told in page
    assert 'class="limit"' in page
    document = spending_document(CONSORTIUM, [found], DELTA, None)
    assert told in document.notes[0]
    left = document.table("rosters").grid.lines[0][3]
    assert left == mu2_text(budget(declared) - found.total)
    assert left in page


def test_a_declared_budget_that_releases_exceed_together_is_told(world: World, tmp_path: Path) -> None:
    """No signature holds releases to it: the list adds them up, and a release alone says that it cannot."""
    about = About(description="ages", licence="CC0-1.0", creators=(Creator(name="A clinic"),), budget=0.6)
    with closing(Storage(tmp_path / "hub", 1 << 30)) as storage:
        for title in ("one", "two"):
            sealed = world.sealed(title, mechanism="moments", epsilon=0.5, about=about)
            folder = publish_to(storage, world, sealed)
        assert "a budget of epsilon = 0.6 is exceeded" in list_page(folder.path.parent, [*storage.index.lines.values()])
    TrustStore(tmp_path).add(CONSORTIUM, world.root.certificate, "h:1")
    asked = ["--home", str(tmp_path), "verify", str(folder.path), "--json"]
    notes = json.loads(CliRunner().invoke(main, asked, catch_exceptions=False).stdout)["notes"]
    assert "The budget is epsilon = 0.6 for all releases of the same patients, as the consortium declares." in notes[-1]
    assert "learner spending" in notes[-1]


def test_rosters_are_kept_apart(account: Account) -> None:
    first, *others = [each.manifest for each in account.releases]
    spec = first.spec.model_copy(update={"roster": "another"})
    found = accounts([first.model_copy(update={"spec": spec}), *others])
    assert [each.roster for each in found] == ["another", "roster-1"]
    assert [len(each.releases) for each in found] == [1, 2]
    assert found[0].total == account.releases[0].mu2


class _Hub:
    """Answers from a list; away as often as it is told."""

    def __init__(self, published: tuple[tuple[bytes, str], ...], away: int = 0) -> None:
        self._by_digest = {Manifest.from_bytes(data).spec.digest(): (data, signature) for data, signature in published}
        self.away = away
        self.names: dict[str, str] = {}

    def releases(self) -> Iterator[Listed]:
        return iter([Listed(digest, "a lie", "never", 1, 1, 1) for digest in self._by_digest])

    def manifest(self, prefix: str) -> tuple[bytes, str]:
        if self.away:
            self.away -= 1
            raise TooManyRequests("later")
        return self._by_digest[self.names.get(prefix, prefix)]


def read(hub: Any, trusted: Trusted) -> list[Manifest]:
    return list(signed_manifests(hub, trusted, Patience(attempts=3, sleep=lambda _: None)))


def test_only_what_is_signed_counts(published: tuple[tuple[bytes, str], ...], trusted: Trusted) -> None:
    hub = _Hub(published)
    assert [manifest.to_bytes() for manifest in read(hub, trusted)] == [data for data, _ in published]
    one, other, _ = [line.digest for line in hub.releases()]
    hub.names = {one: other}
    with pytest.raises(IntegrityError, match="another release"):
        read(hub, trusted)
    data, signature = published[0]
    with pytest.raises(IntegrityError):
        read(_Hub(((data.replace(b"the second title", b"the second lie!!"), signature),)), trusted)


def test_a_hub_that_asks_for_patience_gets_some(published: tuple[tuple[bytes, str], ...], trusted: Trusted) -> None:
    assert len(read(_Hub(published, away=2), trusted)) == 3
    with pytest.raises(PeerUnavailable):
        read(_Hub(published, away=3), trusted)


def test_the_command(
    world: World, releases: tuple[Sealed, ...], account: Account, tmp_path: Path, start_hub: Callable[..., Hub]
) -> None:
    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(main, ["--home", str(tmp_path / "home"), *arguments])
        assert result.exit_code == 0, result.output
        return result

    storage = Storage(tmp_path / "storage", 1 << 30)
    for at, sealed in enumerate(releases):
        publish_to(storage, world, sealed, NOW - timedelta(hours=3 - at))
    storage.close()
    port = start_hub().public_port
    run("trust", "add", CONSORTIUM, "--root", str(world.root_path), "--yes", "--hub", f"localhost:{port}")
    shown = run("spending", "--budget", "3", "--delta", f"{DELTA}").stdout
    for each in account.releases:
        assert mu2_text(each.total) in shown
        assert each.manifest.spec.digest()[:16] in shown
    assert shown == text(spending_document(CONSORTIUM, [account], DELTA, 3.0)) + "\n"
    found = json.loads(run("spending", "--json").stdout)
    assert (found["consortium"], found["delta"]) == (CONSORTIUM, releases[-1].spec.target.delta)
    (roster,) = found["rosters"]
    assert [Fraction(each["spent_mu2"]) for each in found["releases"]] == [each.total for each in account.releases]
    assert {each["hospital"]: Fraction(each["mu2"]) for each in found["charged"]} == account.hospitals
    assert roster["remaining_mu2"] is None


def test_nothing_published_is_said(world: World, tmp_path: Path, start_hub: Callable[..., Hub]) -> None:
    home = ("--home", str(tmp_path / "home"))
    port = start_hub().public_port
    add = ("trust", "add", CONSORTIUM, "--root", str(world.root_path), "--yes", "--hub", f"localhost:{port}")
    assert CliRunner().invoke(main, [*home, *add]).exit_code == 0
    assert CliRunner().invoke(main, [*home, "spending"]).stdout.endswith("Nothing has been published yet.\n")
