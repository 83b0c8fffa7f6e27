"""A rehearsal goes the whole way: noise as declared, blocks as sealed, a release that any learner can verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.dry_run.simulate import Stopwatch, rehearse, traffic
from dprelease.agreement import check_all
from dprelease.errors import IntegrityError, SpecRefused
from dprelease.mechanisms.moments.own_products import schedule_of
from dprelease.mechanisms.noisy_rows.privatize import integer_query
from dprelease.release.accounting import guarantee
from dprelease.release.block import block_size
from dprelease.release.fake import NOTE, fake_rows
from dprelease.release.folder import ReleaseFolder
from tests.support.certificates import NOW
from tests.support.noise import RecordingNoise, ZeroNoise
from tests.support.rehearsals import made_up, rehearsed
from tests.support.specs import TWO_PARTIES, build_spec, new_consortium, numeric, with_terms

THREE = {**TWO_PARTIES, "west": (numeric("weight", 30.0, 200.0),)}


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_what_is_written_verifies_and_says_fake(mechanism: str, tmp_path: Path) -> None:
    real = build_spec(THREE, mechanism=mechanism)
    done = rehearsed(real, "glucose", tmp_path / "FAKE", RecordingNoise())
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
    done = rehearsed(build_spec(), "glucose", tmp_path, noise)
    drawn = iter(noise.draws)
    for part in done.spec.parties:
        mixing, anchor = next(drawn), next(drawn)
        scales = done.spec.terms.noise_of(part.party)
        assert (mixing.scale, anchor.scale) == (scales.scale, scales.anchor_scale)
        exact = integer_query(done.rows[part.party].codes, done.spec, done.spec.terms)
        expected = exact + np.vstack([anchor.values, mixing.values])
        assert np.array_equal(done.release.blocks[part.party][0].values, expected)
    assert done.rows["FAKE-south"].digest() == fake_rows(done.spec, "glucose")["FAKE-south"].digest()


def test_approvals_are_those_of_the_throw_away_keys(tmp_path: Path) -> None:
    fake, signers = made_up(build_spec())
    done = rehearse(fake, "glucose", signers, ZeroNoise(), ReleaseFolder(tmp_path), NOW, Stopwatch())
    pins = {part.party: part.key for part in fake.parties}
    check_all(done.folder.manifest().approvals, fake, signers.root, pins)


def test_a_spec_that_does_not_add_up_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    fake, signers = made_up(build_spec())
    weaker = fake.terms.noise[0].model_copy(update={"scale": fake.terms.noise[0].scale / 2})
    spec = with_terms(fake, noise=(weaker, *fake.terms.noise[1:]))
    with pytest.raises(SpecRefused):
        rehearse(spec, "glucose", signers, ZeroNoise(), ReleaseFolder(tmp_path / "none"), NOW, Stopwatch())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("mechanism", "steps"), [("mixed", {"query and draw noise"}), ("moments", {"deal randomness", "draw noise"})]
)
def test_every_step_is_measured(mechanism: str, steps: set[str], tmp_path: Path) -> None:
    watch = Stopwatch()
    rehearsed(build_spec(mechanism=mechanism), "glucose", tmp_path, ZeroNoise(), watch)
    assert steps | {"make up rows", "read back and verify"} <= watch.seconds.keys()
    assert all(seconds >= 0 for seconds in watch.seconds.values())


def test_a_step_in_parts_adds_up_also_when_it_fails() -> None:
    watch = Stopwatch({"one": 5.0})
    with pytest.raises(ValueError, match="no"), watch.step("one"):
        raise ValueError("no")
    assert watch.seconds["one"] > 5.0


def test_the_traffic_of_blocks_is_known_from_the_spec() -> None:
    spec = build_spec()
    found = traffic(spec)
    assert {name: each.block for name, each in found.items()} == {
        name: block_size(spec, name) for name in ("north", "south")
    }
    assert all((each.columns, each.dealt) == (0, 0) for each in found.values())


def test_the_traffic_of_moments_is_that_of_the_plan() -> None:
    spec = build_spec(THREE, mechanism="moments")  # north and south are dealt to by west, and so on in turn
    schedule, found = schedule_of(spec), traffic(spec)
    for name, each in found.items():
        assert each.block == block_size(spec, name)
        assert each.columns == 2 * schedule.columns_size(name)
    sealed_key = 32 + 48
    west = [schedule.deal_size("west", dealer) for dealer in ("south", "north")]
    dealt = [schedule.deal_size(receiver, "west") for receiver in ("north", "south")]
    assert found["west"].dealt == sum(size + 48 for size in (*west, *dealt)) + 2 * sealed_key
    (alone,) = traffic(build_spec({"west": THREE["west"]}, mechanism="moments")).values()
    assert (alone.columns, alone.dealt) == (0, 0)
