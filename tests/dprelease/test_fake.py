"""Made-up releases: FAKE in every name, every other number as it is, cells that follow from the spec alone.

A simulation goes the whole way: noise as declared, blocks as sealed, a release that any learner can verify.
"""

import math
from pathlib import Path

import numpy as np
import pytest

from coordinator.dry_run.simulate import Stopwatch, simulate, traffic
from dprelease.agreement import check_all
from dprelease.canonical import sha256
from dprelease.data.bounding import RawColumn
from dprelease.errors import IntegrityError, InvalidInput, SpecRefused
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mechanisms.noisy_rows.privatize import integer_query
from dprelease.release.accounting import check_spec, guarantee
from dprelease.release.block import block_size
from dprelease.release.fake import NOTE, SIGNAL, fake_cells, fake_rows, fake_spec, marked, note
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import ReleaseSpec
from tests.support.certificates import NOW
from tests.support.noise import RecordingNoise, ZeroNoise
from tests.support.simulations import made_up, simulated
from tests.support.specs import TWO_PARTIES, build_spec, categorical, new_consortium, numeric, with_terms

ROWS = 4000
THREE = {
    "a": (numeric("x", 10.0, 20.0), categorical("colour", "red", "green")),
    "b": (numeric("z"), categorical("smokes", "yes")),
    "c": (numeric("y", -5.0, 0.0),),
}


def spec_of(mechanism: str = "mixed", **more: object) -> ReleaseSpec:
    """With keys that are the same every time, and so with the same cells."""
    real = build_spec(THREE, mechanism=mechanism, rows=ROWS, **more)  # type: ignore[arg-type]
    return fake_spec(real, {marked(name): sha256(name.encode()) for name in THREE}, ROWS)


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_all_names_say_fake_and_no_number_changes(mechanism: str) -> None:
    real = build_spec(mechanism=mechanism)
    fake, _ = made_up(real)
    assert (fake.title, fake.consortium, fake.roster) == ("FAKE: a test release", "FAKE-trial", "FAKE-roster-1")
    assert [part.party for part in fake.parties] == ["FAKE-north", "FAKE-south"]
    assert fake.alignment != real.alignment
    assert not {part.key for part in fake.parties} & {part.key for part in real.parties}
    named = {"title", "consortium", "roster", "alignment", "parties", "terms"}
    assert fake.model_dump(exclude=named) == real.model_dump(exclude=named)
    without = {"noise": {"__all__": {"party"}}}
    assert fake.terms.model_dump(exclude=without) == real.terms.model_dump(exclude=without)
    assert [part.columns for part in fake.parties] == [part.columns for part in real.parties]
    assert [part.mu2 for part in check_spec(fake).parties] == [part.mu2 for part in guarantee(real).parties]


def test_fewer_patients_but_not_fewer_than_mixing_rows() -> None:
    real = build_spec(rows=40, outputs=8)
    assert made_up(real, 8)[0].rows == 8
    with pytest.raises(InvalidInput, match="more mixing rows than patients"):
        made_up(real, 7)


def test_only_made_up_releases_carry_the_note() -> None:
    assert note(build_spec()) == ()
    assert note(spec_of()) == (NOTE,)


def numbers(cells: RawColumn) -> np.ndarray:
    return np.asarray(cells, np.float64)


def test_cells_follow_from_the_spec_and_from_nothing_else() -> None:
    one, other = spec_of(), spec_of("rows")
    assert np.array_equal(fake_cells(one, "y")["x"], fake_cells(one, "y")["x"])
    assert not np.array_equal(fake_cells(one, "y")["x"], fake_cells(other, "y")["x"])


def test_numbers_spread_evenly_over_their_ranges_and_categories_over_their_levels() -> None:
    cells = fake_cells(spec_of(), "y")
    for name, lower, upper in (("x", 10.0, 20.0), ("z", -1.0, 1.0), ("y", -5.0, 0.0)):
        scaled = (numbers(cells[name]) - lower) / (upper - lower)
        assert 0 < scaled.min() < 0.01 < 0.99 < scaled.max() < 1
        gap = np.abs(np.sort(scaled) - (np.arange(ROWS) + 0.5) / ROWS).max()
        assert gap < 2.5 / math.sqrt(ROWS)  # Kolmogorov's statistic; beyond it once in 100,000 draws
    counts = {level: list(cells["colour"]).count(level) for level in ("red", "green", "other")}
    assert sum(counts.values()) == ROWS
    assert all(abs(count - ROWS / 3) < 5 * math.sqrt(ROWS * 2 / 9) for count in counts.values())


@pytest.mark.parametrize("outcome", ["y", "x"])
def test_the_outcome_depends_on_the_others_and_they_on_nothing(outcome: str) -> None:
    cells = fake_cells(spec_of(), outcome)
    numeric_cells = {name: numbers(cells[name]) for name in ("x", "z", "y")}
    indicators = np.column_stack(
        [np.array(cells["colour"]) == "red", np.array(cells["colour"]) == "green", np.array(cells["smokes"]) == "yes"]
    ).astype(np.float64)
    others = [values for name, values in numeric_cells.items() if name != outcome]
    design = np.column_stack([np.ones(ROWS), indicators, *others])
    y = numeric_cells[outcome]
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert (
        abs(1 - left.var() / y.var() - SIGNAL) < 0.06
    )  # 5 standard errors of R^2, and a bend that lines do not follow
    assert abs(np.corrcoef(others)[0, 1]) < 5 / math.sqrt(ROWS)


THREE_OF_REHEARSAL = {**TWO_PARTIES, "west": (numeric("weight", 30.0, 200.0),)}


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_what_is_written_verifies_and_says_fake(mechanism: str, tmp_path: Path) -> None:
    real = build_spec(THREE_OF_REHEARSAL, mechanism=mechanism)
    done = simulated(real, "glucose", tmp_path / "FAKE", RecordingNoise())
    assert done.release.guarantee == (NOTE, *guarantee(done.spec).words())
    manifest = done.folder.manifest()
    assert manifest.spec == done.spec == done.release.spec
    assert manifest.guarantee == guarantee(done.spec).words()
    assert manifest.spec.consortium == "FAKE-trial"
    assert sorted(path.name for path in (tmp_path / "FAKE" / "blocks").iterdir()) == [
        "FAKE-north.0.block",
        "FAKE-south.0.block",
        "FAKE-west.0.block",
    ]
    with pytest.raises(IntegrityError):
        done.folder.verify(new_consortium("FAKE-north").root.certificate)


def test_blocks_are_the_query_of_the_made_up_rows_and_the_noise(tmp_path: Path) -> None:
    noise = RecordingNoise()
    done = simulated(build_spec(), "glucose", tmp_path, noise)
    drawn = iter(noise.draws)
    for part in done.spec.parties:
        mixing, anchor = next(drawn), next(drawn)
        scales = done.spec.terms.noise_of(part.party)
        assert (mixing.scale, anchor.scale) == (scales.scale, scales.anchor_scale)
        exact = integer_query([done.rows[part.party].codes], done.spec, done.spec.terms)
        expected = exact + np.vstack([anchor.values, mixing.values])
        assert np.array_equal(done.release.blocks[part.party][0].values, expected)
    assert done.rows["FAKE-south"].digest() == fake_rows(done.spec, "glucose")["FAKE-south"].digest()


def test_approvals_are_those_of_the_throw_away_keys(tmp_path: Path) -> None:
    fake, signers = made_up(build_spec())
    done = simulate(fake, "glucose", signers, ZeroNoise(), ReleaseFolder(tmp_path), NOW, Stopwatch())
    pins = {part.party: part.key for part in fake.parties}
    check_all(done.folder.manifest().approvals, fake, signers.root, pins)


def test_a_spec_that_does_not_add_up_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    fake, signers = made_up(build_spec())
    weaker = fake.terms.noise[0].model_copy(update={"scale": fake.terms.noise[0].scale / 2})
    spec = with_terms(fake, noise=(weaker, *fake.terms.noise[1:]))
    with pytest.raises(SpecRefused):
        simulate(spec, "glucose", signers, ZeroNoise(), ReleaseFolder(tmp_path / "none"), NOW, Stopwatch())
    assert not (tmp_path / "none").exists()


def test_a_step_in_parts_adds_up_also_when_it_fails() -> None:
    watch = Stopwatch({"one": 5.0})
    with pytest.raises(ValueError, match="no"), watch.step("one"):
        raise ValueError("no")
    assert watch.seconds["one"] > 5.0


def test_the_traffic_of_moments_is_that_of_the_plan() -> None:
    spec = build_spec(
        THREE_OF_REHEARSAL, mechanism="moments"
    )  # north and south are dealt to by west, and so on in turn
    schedule, found = schedule_of(spec), traffic(spec)
    for name, each in found.items():
        assert each.block == block_size(spec, name)
        assert each.columns == 2 * schedule.columns_size(name)
    sealed_key = 32 + 48
    west = [schedule.deal_size("west", dealer) for dealer in ("south", "north")]
    dealt = [schedule.deal_size(receiver, "west") for receiver in ("north", "south")]
    assert found["west"].dealt == sum(size + 48 for size in (*west, *dealt)) + 2 * sealed_key
    (alone,) = traffic(build_spec({"west": THREE_OF_REHEARSAL["west"]}, mechanism="moments")).values()
    assert (alone.columns, alone.dealt) == (0, 0)
