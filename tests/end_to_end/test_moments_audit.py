"""An empirical audit of joint moments through the real processes, on the worst pair of neighbours.

Six patients. In the second table one of them has other cells in all three hospitals: every number goes from the end of its
range to the middle, and the binary to its other level, which no pair of rows exceeds. Many releases of each table, at a
mu so large that few are needed, are told apart by an attacker who knows both tables.

A curious hospital subtracts its own noise from what is released. Here one adds none instead, which shows the same.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from audit import audit
from coordinator.cli.options import opened
from coordinator.clock import utc_now
from coordinator.proposals import proposals
from coordinator.settings import CoordinatorSettings
from demo.consortium import Consortium, wait_for
from dprelease.about import About, Creator
from dprelease.files.settings import read_settings
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.privacy.gaussian import mu_of
from dprelease.release.folder import ReleaseFolder
from tests.end_to_end.hospitals import Hospital, found, numeric, scaled_gram
from tests.statistical.auditor import Audit, Sighting, audit_known
from tests.support.forked import ForkedConsortium

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]

ABOUT = About(description="Made-up rows", licence="CC0-1.0", creators=(Creator(name="A test"),))
NAMES = ("clinic", "ward", "lab")
EPSILON, DELTA = 6000.0, 1e-5
STATED = mu_of(EPSILON, DELTA)
"""105; for whoever knows one hospital's noise. A stranger faces three shares where two are promised."""
STRANGER = STATED * math.sqrt(2 / 3)

WIDTH = 12
LEFT_OUT = list(combinations(range(WIDTH), 2))
"""Numbers of every hospital's columns that a release does without. No two releases have the same columns of anybody, so
policy approves them all; each has p = 31 variables and r = 526 noisy entries."""

MANY = 16
"""N releases of each table measure mu with a relative standard error of sqrt(2/(N mu^2) + 1/(4 N r)) = 0.64 %: 5 % is 7.8
of it, which a sound mechanism exceeds with a probability of 1e-14."""

FEW = 6
"""The same to 1.1 %, for what is 18 % and more away from the stated mu."""

ADDS_NONE = ("-m", "tests.support.faulty", "silence@dprelease.privacy.noise:SecureNoise.discrete_gaussian", "--")
ADDS_HALF = ("-m", "tests.support.faulty", "halve@dprelease.privacy.noise:SecureNoise.discrete_gaussian", "--")


def hospitals(replaced: bool) -> list[Hospital]:
    """The three hospitals over one of the two tables."""
    random = np.random.default_rng(21)
    made = []
    for name in NAMES:
        columns = {f"{name}{number}": numeric(-1, 1) for number in range(WIDTH)}
        cells: dict[str, list[object]] = {
            column: [0.0 if replaced else 1.0, *map(float, random.choice([-1.0, 1.0], 19))] for column in columns
        }
        if name == NAMES[0]:
            columns["smoker"] = 'kind = "categorical"\nlevels = ["yes"]'
            cells["smoker"] = ["no" if replaced else "yes", *random.choice(["yes", "no"], 19).tolist()]
        made.append(Hospital(name, columns, cells))
    return made


TABLES = hospitals(replaced=False), hospitals(replaced=True)


@dataclass
class Campaign:
    """One consortium and the releases that are made in it.

    Attributes:
        consortium: it.
        left_out: what the next releases do without.
    """

    consortium: Consortium
    left_out: Iterator[tuple[int, ...]] = field(default_factory=lambda: iter(LEFT_OUT))

    def release(self, count: int) -> list[Sighting]:
        """Propose so many releases at once, wait until all are public, and look at them."""
        settings = read_settings(self.consortium.office / "coordinator.toml", CoordinatorSettings)
        with opened(settings) as store:  # as `coordinator release create` does, without a process for each
            digests = [
                proposals.create(store, self._request(), timedelta(hours=1), utc_now()).release.digest
                for _ in range(count)
            ]
        folders = [self.consortium.hub / "storage" / "published" / digest for digest in digests]
        wait_for(lambda: all((each / "manifest.json").exists() for each in folders), 180, "all releases to be public")
        return [self._look(ReleaseFolder(folder)) for folder in folders]

    def _request(self) -> proposals.Request:
        left_out = next(self.left_out)
        columns = {
            hospital.name: tuple(name for number, name in enumerate(hospital.columns) if number not in left_out)
            for hospital in TABLES[0]
        }
        title = f"without {left_out}"
        return proposals.Request(
            title=title, parties=columns, mechanism="moments", epsilon=EPSILON, delta=DELTA, about=ABOUT
        )

    def _look(self, folder: ReleaseFolder) -> Sighting:
        release = folder.verify((self.consortium.hub / "root.pem").read_text())
        spec, moments = release.spec, release.moments()
        places = layout_of(spec).rows, layout_of(spec).cols
        one, two = (scaled_gram(spec, table)[places] for table in TABLES)
        spread = moments.noise_sd[places]
        sighting = Sighting((moments.gram[places] - one) / spread, (two - one) / spread)
        # No two rows are further apart: by the declared noise these tables differ by all of the stated mu.
        assert math.isclose(float(np.linalg.norm(sighting.shift)), STRANGER, rel_tol=1e-6)
        return sighting

    def restart(self, name: str, launcher: Sequence[str] = ()) -> None:
        """Another way of adding noise, from now on."""
        self.consortium.halt(name)
        self.consortium.restart(name, launcher=launcher)

    def replace_tables(self, spare: Path) -> None:
        """Every hospital's file is exchanged for the second table; prepared in a folder outside the consortium's."""
        for hospital in TABLES[1]:
            hospital.write(spare / hospital.name, seed=5)
            (spare / hospital.name / "table.csv").replace(self.consortium.hospital(hospital.name) / "table.csv")


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Audit]:
    """What an attacker measures when all add noise, when one adds none, and when moreover another adds half of its."""
    folder = tmp_path_factory.mktemp("moments-audit")
    with ForkedConsortium(folder / "consortium") as consortium:
        found(consortium, TABLES[0], epsilon=1e6)
        campaign = Campaign(consortium)
        for role, settings in (("coordinator", consortium.office), ("hub", consortium.hub)):
            with (settings / f"{role}.toml").open("a") as file:  # many sessions at once, looked at ten times a second
                file.write("\n[limits]\ncalls_per_second = 1000\n")
            campaign.restart(role)
        honest = [campaign.release(FEW)]
        campaign.restart("lab", ADDS_NONE)
        curious = [campaign.release(MANY)]
        campaign.restart("ward", ADDS_HALF)
        broken = [campaign.release(FEW)]
        campaign.replace_tables(folder / "spare")
        broken.append(campaign.release(FEW))
        campaign.restart("ward")
        curious.append(campaign.release(MANY))
        campaign.restart("lab")
        honest.append(campaign.release(FEW))
    assert audit(consortium.folder) == []
    return {"honest": audit_known(*honest), "curious": audit_known(*curious), "broken": audit_known(*broken)}


@pytest.mark.timeout(900)
def test_a_curious_hospital_learns_what_is_stated(audits: dict[str, Audit]) -> None:
    measured = audits["curious"]
    assert measured.standard_error < 0.05 / 7 * STATED
    assert abs(measured.mu / STATED - 1) < 0.05


@pytest.mark.timeout(900)
def test_a_stranger_learns_less(audits: dict[str, Audit]) -> None:
    assert audits["honest"].agrees(STRANGER, errors=7)
    assert not audits["honest"].agrees(STATED, errors=7)


@pytest.mark.timeout(900)
def test_a_hospital_that_adds_half_of_its_noise_is_caught(audits: dict[str, Audit]) -> None:
    """Of two promised shares 5/4 are left: mu is larger by sqrt(8/5)."""
    assert audits["broken"].agrees(STATED * math.sqrt(8 / 5), errors=7)
    assert audits["broken"].mu > STATED + 7 * audits["broken"].standard_error
