"""Requests for moments where ranges of the same numbers were published: used unless the request says otherwise."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import main
from coordinator.clock import utc_now
from coordinator.dry_run.simulate import Signer, Signers, Stopwatch, rehearse
from coordinator.store.agreements import Agreement
from dprelease.canonical import sha256
from dprelease.data.columns import Column, NumericColumn
from dprelease.files.home import RELEASES
from dprelease.identity.signing import new_private_key
from dprelease.mechanisms.moments.terms import joint_moments
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import guarantee
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import ReleaseSpec
from tests.coordinator.office import AGE, GLUCOSE, SEX, STUDY, Office, batches, catalogue
from tests.coordinator.test_streams import end
from tests.support.noise import SeededNoise
from tests.support.plans import way

MOMENTS = 'mechanism = "moments"\n'
UNKNOWN = NumericColumn(name="glucose", bounds="unknown")


@pytest.fixture
def office(opened: Office, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """An office whose root is that of its hospitals; nothing was fetched on its machine."""
    (home / "root.pem").write_bytes(opened.authority.root_pem)
    monkeypatch.setenv("LEARNER_HOME", str(tmp_path / "learner"))
    return opened


@pytest.fixture
def hub(home: Path) -> Path:
    """Where the hub keeps what is published."""
    return home / "hub" / "storage" / "published"


FIRST: dict[str, Any] = {"mechanism": "moments", "ranges": "first"}


def made(office: Office, folder: Path, seconds: int = 0, **changed: object) -> Agreement:
    """A published release of made-up rows, its files beside one another in a folder."""
    now = utc_now() - timedelta(hours=1) + timedelta(seconds=seconds)
    release = office.propose(now, **{"mechanism": "ranges", **changed})
    end(office, release)
    spec, key = release.read_spec(), new_private_key()
    hub = Signer(key, office.authority.issue("hub", "hub", key.public_key(), now, 30).decode())
    parties = {part.party: Signer(office.keys[part.party], office.certificates[part.party]) for part in spec.parties}
    signers = Signers(office.authority.root_pem.decode(), hub, parties)
    path = ReleaseFolder(folder / release.digest)
    rehearse(spec, spec.columns[-1].name, signers, SeededNoise(3), path, utc_now(), Stopwatch())
    return release


def create(study: Path, request: str, *more: str) -> Result:
    study.write_text(request)
    return CliRunner().invoke(main, ["release", "create", str(study), *more])


def proposed(office: Office, study: Path, request: str) -> ReleaseSpec:
    found = create(study, request, "--json")
    assert found.exit_code == 0, found.output
    return office.release(json.loads(found.stdout)["digest"]).read_spec()


def clipping(spec: ReleaseSpec) -> Any:
    return joint_moments(spec).clipping


@pytest.mark.parametrize(("said", "of"), [("", {}), ('ranges = "auto"\n', {}), ("", FIRST)])
def test_the_latest_that_fit_are_used_at_no_charge_and_it_is_said(
    office: Office, study: Path, hub: Path, said: str, of: dict[str, Any]
) -> None:
    older, latest = made(office, hub), made(office, hub, seconds=1, **of)
    assert older.digest != latest.digest
    request = MOMENTS + said + STUDY
    printed = create(study, request)
    assert printed.exit_code == 0, printed.output
    release = f"release {latest.digest[:12]}"
    saved = f"in the ranges that {release} published, at no charge, where new ones would cost 3/20 of mu^2"
    assert re.search(
        rf"^plan +{re.escape(saved)}; the key ranges of a request says otherwise. p = ", printed.stdout, re.MULTILINE
    )
    assert f", ranges of {release}\n" in printed.stdout
    spec = office.release(printed.stdout.split()[1]).read_spec()
    assert clipping(spec).source == latest.digest
    published = ReleaseFolder(hub / latest.digest).verify(office.authority.root_pem.decode())
    ranges = (published.first_ranges if of else published.ranges()).ranges  # type: ignore[union-attr]
    assert {each.name: each for each in clipping(spec).ranges} == {each.name: each for each in ranges}
    cost = sum(part.mu2 for part in guarantee(spec).parties)
    assert budget(spec.target) * (1 - 1 / 10**6) < cost <= budget(spec.target)

    planned = json.loads(CliRunner().invoke(main, ["plan", str(study), "--signal", "0.3", "--json"]).stdout)
    reusing = way(planned, "moments in ranges")
    assert reusing["reuse"] == saved
    assert reusing["charged_mu2"] == {part.party: str(part.mu2) for part in guarantee(spec).parties}
    shown = CliRunner().invoke(main, ["release", "show", spec.digest(), "--json"])
    assert json.loads(shown.stdout)["ranges"] == latest.digest


def test_what_a_request_says_is_obeyed(office: Office, study: Path, hub: Path) -> None:
    older, latest = made(office, hub), made(office, hub, seconds=1)
    folder = json.dumps(str(hub / older.digest))
    assert clipping(proposed(office, study, f"{MOMENTS}ranges = {folder}\n{STUDY}")).source == older.digest
    assert clipping(proposed(office, study, f'{MOMENTS}ranges = "none"\n{STUDY}')) is None
    assert clipping(proposed(office, study, f'{MOMENTS}outcomes = ["glucose"]\n{STUDY}')) is None
    first = proposed(office, study, f'{MOMENTS}ranges = "first"\n{STUDY}')
    assert joint_moments(first).first is not None
    assert clipping(first).source is None
    clipped = proposed(office, study, f'{MOMENTS}clip = "none"\noutcome_weight = {{ glucose = 1.7 }}\n{STUDY}')
    assert (clipping(clipped).source, clipping(clipped).norms) == (latest.digest, ())
    heaviest = clipping(clipped).number_weights(clipped.columns)
    assert max(heaviest, key=heaviest.__getitem__) == "glucose"


@pytest.mark.parametrize(
    "now",
    [
        {"rows": 1001},
        {"alignment": sha256(b"other patients")},
        {"roster": "registry"},
        {"south": (GLUCOSE.model_copy(update={"upper": 40.0}),)},
        {"south": (GLUCOSE, GLUCOSE.model_copy(update={"name": "insulin"}))},
        {"north": (GLUCOSE, SEX), "south": (AGE,)},
    ],
    ids=["a patient more", "others", "another roster", "another bound", "a number more", "at other hospitals"],
)
def test_others_are_not_used(office: Office, study: Path, hub: Path, now: dict[str, Any]) -> None:
    made(office, hub)
    columns: dict[str, tuple[Column, ...]] = {"north": (AGE, SEX), "south": (GLUCOSE,)}
    columns |= {party: now.pop(party) for party in tuple(columns) if party in now}
    for party, own in columns.items():
        office.report(catalogue(party, columns=own, **now), now=utc_now())
    request = MOMENTS + STUDY.replace('["glucose"]', '"*"')
    assert clipping(proposed(office, study, request)) is None
    refused = create(study, f"clip = 2\n{request}")
    assert refused.exit_code
    assert "clip and outcome_weight belong to a release with ranges" in refused.stderr


def test_moments_in_bounds_or_in_ranges_of_others_have_none_to_use(office: Office, study: Path, hub: Path) -> None:
    release = made(office, hub, mechanism="moments")
    assert clipping(proposed(office, study, MOMENTS + STUDY)) is None
    named = json.dumps(str(hub / release.digest))
    assert "has no ranges" in create(study, f"{MOMENTS}ranges = {named}\n{STUDY}").stderr
    first = made(office, hub, seconds=1, mechanism="ranges")
    end(office, office.release(proposed(office, study, MOMENTS + STUDY).digest()))
    assert clipping(proposed(office, study, MOMENTS + STUDY.replace("Age", "Years"))).source == first.digest


def test_to_pay_for_them_again_is_warned_of(office: Office, study: Path, hub: Path) -> None:
    first = f'{MOMENTS}ranges = "first"\n'
    assert "warning" not in create(study, first + STUDY).stderr
    release = made(office, hub, **FIRST)
    warning = f"warning: {release.digest[:12]} has published ranges of all these numbers"
    for request in (first, 'mechanism = "ranges"\n'):
        assert warning in create(study, request + STUDY.replace("Age", "Years"), "--dry-run").stderr
        assert warning in create(study, request + STUDY.replace("Age", "Years")).stderr
    assert warning not in create(study, MOMENTS + STUDY).stderr


def test_those_of_a_release_that_is_not_published_are_not_used(office: Office, study: Path) -> None:
    office.propose(utc_now(), mechanism="ranges")
    assert clipping(proposed(office, study, MOMENTS + STUDY)) is None


def test_of_fewer_columns_and_hospitals_they_are_used(office: Office, study: Path, hub: Path) -> None:
    release = made(office, hub)
    spec = proposed(office, study, MOMENTS + STUDY.replace('north = "*"\n', ""))
    assert clipping(spec).source == release.digest
    assert [each.name for each in clipping(spec).ranges] == ["glucose"]


def test_numbers_without_bounds_need_nothing_more(office: Office, study: Path, hub: Path) -> None:
    office.report(catalogue("south", columns=(UNKNOWN,)), now=utc_now())
    refused = create(study, MOMENTS + STUDY)
    assert refused.exit_code
    assert "glucose has unknown bounds" in refused.stderr
    release = made(office, hub)
    assert clipping(proposed(office, study, MOMENTS + STUDY)).source == release.digest
    assert "glucose has unknown bounds" in create(study, f'{MOMENTS}ranges = "none"\n{STUDY}').stderr


def test_without_the_files_it_is_refused_and_never_in_public_bounds(
    office: Office, study: Path, tmp_path: Path
) -> None:
    release = made(office, tmp_path / "learner" / RELEASES)
    assert clipping(proposed(office, study, MOMENTS + STUDY)).source == release.digest  # fetched
    kept = tmp_path / "learner" / RELEASES / release.digest
    kept.rename(tmp_path / "away")
    for refused in (create(study, MOMENTS + STUDY), CliRunner().invoke(main, ["plan", str(study)])):
        assert refused.exit_code
        assert f"learner fetch {release.digest[:12]}" in refused.stderr
    named = f"ranges = {json.dumps(str(tmp_path / 'away'))}\n"
    again = STUDY.replace("Age and glucose", "The same again")
    assert clipping(proposed(office, study, MOMENTS + named + again)).source == release.digest
    assert clipping(proposed(office, study, f'{MOMENTS}ranges = "none"\n{STUDY}')) is None


def test_what_does_not_verify_or_is_another_release_is_refused(office: Office, study: Path, hub: Path) -> None:
    older, latest = made(office, hub), made(office, hub, seconds=1)
    (hub / latest.digest).rename(hub / "away")
    (hub / older.digest).rename(hub / latest.digest)
    refused = create(study, MOMENTS + STUDY)
    assert refused.exit_code
    assert f"holds release {older.digest[:12]}" in refused.stderr
    block = ReleaseFolder(hub / latest.digest).block("south")
    block.write_bytes(block.read_bytes()[:-1] + b"\x55")
    assert create(study, MOMENTS + STUDY).exit_code
    with office.store.reading() as tx:
        assert {each.read_spec().mechanism for each in tx.releases.all()} == {"ranges"}


def test_a_stream_uses_those_of_its_first_patients(office: Office, study: Path, hub: Path) -> None:
    stream = 'mechanism = "stream"\nof = "moments"\ncheckpoints = 3\n'
    (batch,) = batches(1)
    for party in ("north", "south"):
        table = {"rows": batch.rows, "alignment": batch.alignment, "batches": (batch,)}
        office.report(catalogue(party, **table), now=utc_now())
    release = made(office, hub)
    spec = proposed(office, study, stream + STUDY)
    terms: Any = spec.terms
    assert terms.of.clipping.source == release.digest
    shown = CliRunner().invoke(main, ["plan", str(study), "--signal", "0.3"])
    assert f"stream: in the ranges that release {release.digest[:12]} published" in shown.stdout


def test_a_dry_run_says_so_too(office: Office, study: Path, hub: Path) -> None:
    release = made(office, hub)
    shown = create(study, MOMENTS + STUDY, "--dry-run", "--target", "glucose")
    assert shown.exit_code == 0, shown.output
    assert f" in the ranges that release {release.digest[:12]} published, at no charge" in shown.stdout
