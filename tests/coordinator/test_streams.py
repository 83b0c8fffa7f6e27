"""Streams at the office: the first checkpoint from a request, later ones from the last that was published.

Requests for moments where ranges of the same numbers were published: used unless the request says otherwise.
"""

import json
import re
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator.authority.authority import Authority
from coordinator.cli.main import main
from coordinator.cli.plan import IN_RANGES
from coordinator.clock import utc_now
from coordinator.dry_run.simulate import Signers, SimulatedSigner, Stopwatch, simulate
from coordinator.lifecycle import Approved, Cancelled, PublicationAuthorized, PublicationReported
from coordinator.proposals.proposals import propose_next
from coordinator.service.recovery import left, statement
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.canonical import sha256
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import Conflict, InvalidInput, NotFound
from dprelease.files.home import RELEASES
from dprelease.identity.signing import new_private_key
from dprelease.mechanisms.moments.terms import joint_moments
from dprelease.privacy.calibration import budget
from dprelease.release.accounting import guarantee
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import ReleaseSpec
from tests.coordinator.office import AGE, GLUCOSE, NOW, RUN_TIME, SEX, STUDY, Office, batches, catalogue, grow
from tests.coordinator.office import BATCH as ROWS
from tests.support.noise import SeededNoise
from tests.support.plans import way

STREAM: dict[str, Any] = {"mechanism": "stream", "of": "moments", "checkpoints": 3, "grid_bits": 14}


@pytest.fixture
def office(office: Office) -> Office:
    grow(office, 1)
    return office


def end(office: Office, release: Agreement, *, published: bool = True, approved: bool = True) -> None:
    with office.store.writing() as tx:
        for party in release.record.parties if approved else ():
            signed = office.approval(release.read_spec(), party).to_bytes()
            tx.releases.advance(release.digest, Approved(party), NOW, signed)
        events = (
            (PublicationAuthorized(), PublicationReported("ab" * 32))
            if published
            else (Cancelled("a hospital is away"),)
        )
        for event in events:
            tx.releases.advance(release.digest, event, NOW)


def following(office: Office, release: Agreement, seconds: int = 1, **how: Any) -> Agreement:
    now = NOW + timedelta(seconds=seconds)
    return propose_next(office.store, release.digest[:8], RUN_TIME, now, **how)


def test_the_next_checkpoint_is_the_stream_with_the_next_batch(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    second = following(office, first)
    old, new = first.read_spec(), second.read_spec()
    terms: Any = new.terms
    assert (new.rows, new.alignment) == (ROWS, batches(2)[0].alignment)
    assert (terms.first, terms.previous, terms.past) == (first.digest, first.digest, (1,))
    assert (
        new.model_copy(update={key: getattr(old, key) for key in ("alignment", "terms", "created", "expires")}) == old
    )
    assert second.record.joint == first.record.joint
    end(office, second)
    grow(office, 1, 2, 3)
    terms = following(office, first, 2).read_spec().terms
    assert (terms.first, terms.previous, terms.past) == (first.digest, second.digest, (1, 2))


def test_a_stream_counts_once(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    end(office, following(office, first))
    price = guarantee(first.read_spec())
    with office.store.reading() as tx:
        found = statement(office.store, tx, Authority.found("Trio", NOW), "north", NOW).statement.charges
        member = tx.members.find("north")
        assert member is not None
        assert left(tx, "north", "cohort") == member.cap_mu2 - price.party("north").mu2
    assert [Fraction(each.mu2) for each in found] == [price.party("north").mu2, 0]
    assert [Fraction(each.exposure) for each in found] == [price.party("north").exposure, 0]


def test_a_checkpoint_may_be_proposed_again_in_the_same_second(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    digests = set()
    for _ in range(3):
        again = following(office, first)
        digests.add(again.digest)
        end(office, again, published=False, approved=False)
    assert len(digests) == 3


@pytest.mark.parametrize("approved", [True, False])
def test_a_checkpoint_that_failed_is_spent_once_all_had_approved_it(office: Office, approved: bool) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2, 3)
    end(office, following(office, first), published=False, approved=approved)
    terms: Any = following(office, first, 2).read_spec().terms
    assert (terms.checkpoint, terms.previous) == (3 if approved else 2, first.digest)


def test_a_batch_may_be_left_out_for_good(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 3)
    with pytest.raises(InvalidInput, match=r"batch 2 is not there yet at north, south \(north has 2, the last is 3; "):
        following(office, first)
    third = following(office, first, number=3)
    end(office, third)
    grow(office, 1, 2, 3)
    for number in (2, 3):
        with pytest.raises(
            InvalidInput, match=rf"checkpoint {number} was published or approved by all before.*next is 4"
        ):
            following(office, first, number=number)
    for there in ((1, 2, 3), (1, 2, 3, 4)):
        grow(office, *there)
        with pytest.raises(InvalidInput, match="the stream has 3 checkpoints, so there is no checkpoint 4"):
            following(office, first)


def test_what_cannot_be_proposed_is_refused_in_one_sentence(office: Office) -> None:
    office.report(catalogue("north"), catalogue("south"))
    with pytest.raises(
        InvalidInput, match=r"batch 1 is not there yet at north, south \(north has none: its party.toml"
    ):
        office.propose(**STREAM)
    alone = office.propose()
    grow(office, 1)
    with pytest.raises(InvalidInput, match="is no checkpoint of a stream; it stands alone"):
        following(office, alone)
    with pytest.raises(NotFound):
        propose_next(office.store, "0000", RUN_TIME, NOW)
    first = office.propose(**STREAM)
    with pytest.raises(
        Conflict, match=rf"checkpoint 1 of 'Age and glucose' is open, {first.digest[:12]}: waits for north"
    ):
        following(office, first)
    end(office, first, published=False)
    with pytest.raises(Conflict, match="has no published checkpoint to go on from; propose a new one"):
        following(office, first)


def test_parties_that_do_not_have_the_same_batch_are_named(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2, parties=("north",))
    with pytest.raises(InvalidInput, match=r"batch 2 is not there yet at south \(south has 1, the last is 1\)"):
        following(office, first)
    grow(office, 1, 2, parties=("south",), who=b"others")
    with pytest.raises(InvalidInput, match=r"not the same patients in the same order: north \| south"):
        following(office, first)
    grow(office, 1, 2, parties=("south",), rows=ROWS - 1)
    with pytest.raises(InvalidInput, match="numbers of rows differ: north 400, south 399"):
        following(office, first)


def test_a_stream_ends_with_a_partys_key(office: Office, store: Store) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    with store.writing() as tx:
        tx.members.revoke("south", NOW)
    with pytest.raises(InvalidInput, match="south was revoked"):
        following(office, first)
    office.enrol("south")
    with pytest.raises(InvalidInput, match="south has another key than when the stream began"):
        following(office, first)


def test_more_patients_than_there_is_room_for(office: Office) -> None:
    first = office.propose(**STREAM, most_rows=ROWS + 1)
    end(office, first)
    grow(office, 1, 2)
    with pytest.raises(InvalidInput, match="room for 401 patients, and with 400 new ones there would be 800"):
        following(office, first)


def test_the_commands(opened: Office, tmp_path: Path) -> None:
    grow(opened, 1)
    request = tmp_path / "stream.toml"
    keys = "\n".join(f"{key} = {json.dumps(value)}" for key, value in STREAM.items())
    request.write_text(f"{keys}\n{STUDY}")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["release", *arguments])
        assert result.exit_code == 0, result.output
        assert "pay twice" not in result.output
        return result.stdout

    made = json.loads(run("create", str(request), "--json"))
    digest = made["digest"]
    most = 2 * 3 * ROWS
    assert made["plan"].startswith(f"One release of all {most} patients that the stream has room for: p = ")
    assert f"of n = {most:,}" in made["plan"]
    assert f" As a stream of up to 3 checkpoints, the first of {ROWS} patients, noise is " in made["plan"]
    assert f"n = {ROWS} at this checkpoint, mechanism stream" in run("show", digest)
    end(opened, opened.release(digest))
    grow(opened, 1, 2)
    made = json.loads(run("next", digest[:8], "--json"))
    assert (made["stream"], made["checkpoint"], made["rows"]) == (digest, 2, ROWS)
    assert {Fraction(mu2) for mu2 in made["charged_mu2"].values()} == {0}
    assert f"Age and glucose (checkpoint 2 of stream {digest[:12]})\nstate        PROPOSED" in run(
        "show", made["digest"]
    )
    assert f"(checkpoint 1 of stream {digest[:12]})" in run("list")
    refused = CliRunner().invoke(main, ["release", "next", digest[:8]])
    assert refused.exit_code == 15
    assert "checkpoint 2 of 'Age and glucose' is open" in refused.output


MOMENTS = 'mechanism = "moments"\n'
UNKNOWN = NumericColumn(name="glucose", bounds="unknown")


@pytest.fixture
def office_with_hub(opened: Office, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """An office whose root is that of its hospitals; nothing was fetched on its machine."""
    (home / "root.pem").write_bytes(opened.authority.root_pem)
    monkeypatch.setenv("LEARNER_HOME", str(tmp_path / "learner"))
    return opened


@pytest.fixture
def hub(home: Path) -> Path:
    """Where the hub keeps what is published."""
    return home / "hub" / "storage" / "published"


FIRST: dict[str, Any] = {"mechanism": "moments", "ranges": "first"}


def made(office_with_hub: Office, folder: Path, seconds: int = 0, **changed: object) -> Agreement:
    """A published release of made-up rows, its files beside one another in a folder."""
    now = utc_now() - timedelta(hours=1) + timedelta(seconds=seconds)
    release = office_with_hub.propose(now, **{"mechanism": "ranges", **changed})
    end(office_with_hub, release)
    spec, key = release.read_spec(), new_private_key()
    hub = SimulatedSigner(key, office_with_hub.authority.issue("hub", "hub", key.public_key(), now, 30).decode())
    parties = {
        part.party: SimulatedSigner(office_with_hub.keys[part.party], office_with_hub.certificates[part.party])
        for part in spec.parties
    }
    signers = Signers(office_with_hub.authority.root_pem.decode(), hub, parties)
    path = ReleaseFolder(folder / release.digest)
    simulate(spec, spec.columns[-1].name, signers, SeededNoise(3), path, utc_now(), Stopwatch())
    return release


def create(study: Path, request: str, *more: str) -> Result:
    study.write_text(request)
    return CliRunner().invoke(main, ["release", "create", str(study), *more])


def proposed(office_with_hub: Office, study: Path, request: str) -> ReleaseSpec:
    found = create(study, request, "--json")
    assert found.exit_code == 0, found.output
    return office_with_hub.release(json.loads(found.stdout)["digest"]).read_spec()


def clipping(spec: ReleaseSpec) -> Any:
    return joint_moments(spec).clipping


@pytest.mark.parametrize(("said", "of"), [("", {}), ('ranges = "auto"\n', {}), ("", FIRST)])
def test_the_latest_that_fit_are_used_at_no_charge_and_it_is_said(
    office_with_hub: Office, study: Path, hub: Path, said: str, of: dict[str, Any]
) -> None:
    older, latest = made(office_with_hub, hub), made(office_with_hub, hub, seconds=1, **of)
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
    spec = office_with_hub.release(printed.stdout.split()[1]).read_spec()
    assert clipping(spec).source == latest.digest
    published = ReleaseFolder(hub / latest.digest).verify(office_with_hub.authority.root_pem.decode())
    ranges = (published.first_ranges if of else published.ranges()).ranges  # type: ignore[union-attr]
    assert {each.name: each for each in clipping(spec).ranges} == {each.name: each for each in ranges}
    cost = sum(part.mu2 for part in guarantee(spec).parties)
    assert budget(spec.target) * (1 - 1 / 10**6) < cost <= budget(spec.target)

    planned = json.loads(CliRunner().invoke(main, ["plan", str(study), "--signal", "0.3", "--json"]).stdout)
    assert IN_RANGES in planned["notes"]
    reusing = way(planned, "moments in ranges")
    assert reusing["reuse"] == saved
    assert reusing["charged_mu2"] == {part.party: str(part.mu2) for part in guarantee(spec).parties}
    shown = CliRunner().invoke(main, ["release", "show", spec.digest(), "--json"])
    assert json.loads(shown.stdout)["ranges"] == latest.digest


def test_what_a_request_says_is_obeyed(office_with_hub: Office, study: Path, hub: Path) -> None:
    older, latest = made(office_with_hub, hub), made(office_with_hub, hub, seconds=1)
    folder = json.dumps(str(hub / older.digest))
    assert clipping(proposed(office_with_hub, study, f"{MOMENTS}ranges = {folder}\n{STUDY}")).source == older.digest
    assert clipping(proposed(office_with_hub, study, f'{MOMENTS}ranges = "none"\n{STUDY}')) is None
    assert clipping(proposed(office_with_hub, study, f'{MOMENTS}outcomes = ["glucose"]\n{STUDY}')) is None
    first = proposed(office_with_hub, study, f'{MOMENTS}ranges = "first"\n{STUDY}')
    assert joint_moments(first).first is not None
    assert clipping(first).source is None
    clipped = proposed(office_with_hub, study, f'{MOMENTS}clip = "none"\noutcome_weight = {{ glucose = 1.7 }}\n{STUDY}')
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
def test_others_are_not_used(office_with_hub: Office, study: Path, hub: Path, now: dict[str, Any]) -> None:
    made(office_with_hub, hub)
    columns: dict[str, tuple[Column, ...]] = {"north": (AGE, SEX), "south": (GLUCOSE,)}
    columns |= {party: now.pop(party) for party in tuple(columns) if party in now}
    for party, own in columns.items():
        office_with_hub.report(catalogue(party, columns=own, **now), now=utc_now())
    request = MOMENTS + STUDY.replace('["glucose"]', '"*"')
    assert clipping(proposed(office_with_hub, study, request)) is None
    refused = create(study, f"clip = 2\n{request}")
    assert refused.exit_code
    assert "clip and outcome_weight belong to a release with ranges" in refused.stderr


def test_moments_in_bounds_or_in_ranges_of_others_have_none_to_use(
    office_with_hub: Office, study: Path, hub: Path
) -> None:
    release = made(office_with_hub, hub, mechanism="moments")
    assert clipping(proposed(office_with_hub, study, MOMENTS + STUDY)) is None
    named = json.dumps(str(hub / release.digest))
    assert "has no ranges" in create(study, f"{MOMENTS}ranges = {named}\n{STUDY}").stderr
    first = made(office_with_hub, hub, seconds=1, mechanism="ranges")
    end(office_with_hub, office_with_hub.release(proposed(office_with_hub, study, MOMENTS + STUDY).digest()))
    assert clipping(proposed(office_with_hub, study, MOMENTS + STUDY.replace("Age", "Years"))).source == first.digest


def test_to_pay_for_them_again_is_warned_of(office_with_hub: Office, study: Path, hub: Path) -> None:
    first = f'{MOMENTS}ranges = "first"\n'
    assert "warning" not in create(study, first + STUDY).stderr
    release = made(office_with_hub, hub, **FIRST)
    warning = f"warning: {release.digest[:12]} has published ranges of all these numbers"
    for request in (first, 'mechanism = "ranges"\n'):
        assert warning in create(study, request + STUDY.replace("Age", "Years"), "--dry-run").stderr
        assert warning in create(study, request + STUDY.replace("Age", "Years")).stderr
    assert warning not in create(study, MOMENTS + STUDY).stderr


def test_those_of_a_release_that_is_not_published_are_not_used(office_with_hub: Office, study: Path) -> None:
    office_with_hub.propose(utc_now(), mechanism="ranges")
    assert clipping(proposed(office_with_hub, study, MOMENTS + STUDY)) is None


def test_of_fewer_columns_and_hospitals_they_are_used(office_with_hub: Office, study: Path, hub: Path) -> None:
    release = made(office_with_hub, hub)
    spec = proposed(office_with_hub, study, MOMENTS + STUDY.replace('north = "*"\n', ""))
    assert clipping(spec).source == release.digest
    assert [each.name for each in clipping(spec).ranges] == ["glucose"]


def test_numbers_without_bounds_need_nothing_more(office_with_hub: Office, study: Path, hub: Path) -> None:
    office_with_hub.report(catalogue("south", columns=(UNKNOWN,)), now=utc_now())
    refused = create(study, MOMENTS + STUDY)
    assert refused.exit_code
    assert "glucose has unknown bounds" in refused.stderr
    release = made(office_with_hub, hub)
    assert clipping(proposed(office_with_hub, study, MOMENTS + STUDY)).source == release.digest
    assert "glucose has unknown bounds" in create(study, f'{MOMENTS}ranges = "none"\n{STUDY}').stderr


def test_without_the_files_it_is_refused_and_never_in_public_bounds(
    office_with_hub: Office, study: Path, tmp_path: Path
) -> None:
    release = made(office_with_hub, tmp_path / "learner" / RELEASES)
    assert clipping(proposed(office_with_hub, study, MOMENTS + STUDY)).source == release.digest  # fetched
    kept = tmp_path / "learner" / RELEASES / release.digest
    kept.rename(tmp_path / "away")
    for refused in (create(study, MOMENTS + STUDY), CliRunner().invoke(main, ["plan", str(study)])):
        assert refused.exit_code
        assert f"learner fetch {release.digest[:12]}" in refused.stderr
    named = f"ranges = {json.dumps(str(tmp_path / 'away'))}\n"
    again = STUDY.replace("Age and glucose", "The same again")
    assert clipping(proposed(office_with_hub, study, MOMENTS + named + again)).source == release.digest
    assert clipping(proposed(office_with_hub, study, f'{MOMENTS}ranges = "none"\n{STUDY}')) is None


def test_what_does_not_verify_or_is_another_release_is_refused(office_with_hub: Office, study: Path, hub: Path) -> None:
    older, latest = made(office_with_hub, hub), made(office_with_hub, hub, seconds=1)
    (hub / latest.digest).rename(hub / "away")
    (hub / older.digest).rename(hub / latest.digest)
    refused = create(study, MOMENTS + STUDY)
    assert refused.exit_code
    assert f"holds release {older.digest[:12]}" in refused.stderr
    block = ReleaseFolder(hub / latest.digest).block("south")
    block.write_bytes(block.read_bytes()[:-1] + b"\x55")
    assert create(study, MOMENTS + STUDY).exit_code
    with office_with_hub.store.reading() as tx:
        assert {each.read_spec().mechanism for each in tx.releases.all()} == {"ranges"}


def test_a_stream_uses_those_of_its_first_patients(office_with_hub: Office, study: Path, hub: Path) -> None:
    stream = 'mechanism = "stream"\nof = "moments"\ncheckpoints = 3\n'
    (batch,) = batches(1)
    for party in ("north", "south"):
        table = {"rows": batch.rows, "alignment": batch.alignment, "batches": (batch,)}
        office_with_hub.report(catalogue(party, **table), now=utc_now())
    release = made(office_with_hub, hub)
    spec = proposed(office_with_hub, study, stream + STUDY)
    terms: Any = spec.terms
    assert terms.of.clipping.source == release.digest
    planned = json.loads(CliRunner().invoke(main, ["plan", str(study), "--signal", "0.3", "--json"]).stdout)
    assert way(planned, "stream")["reuse"].startswith(f"in the ranges that release {release.digest[:12]} published")
    assert IN_RANGES in planned["notes"]


def test_a_dry_run_says_so_too(office_with_hub: Office, study: Path, hub: Path) -> None:
    release = made(office_with_hub, hub)
    shown = create(study, MOMENTS + STUDY, "--dry-run", "--target", "glucose")
    assert shown.exit_code == 0, shown.output
    assert f" in the ranges that release {release.digest[:12]} published, at no charge" in shown.stdout
