"""Blocks of joint moments after sessions in one process: their sum is exact, and everything that travels is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows
from dprelease.errors import DataRefused, IntegrityError
from dprelease.identity.signing import PrivateKey, key_fingerprint, new_private_key
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc import round as mpc_round
from dprelease.mpc.encryption import ColumnCipher
from dprelease.mpc.in_memory import Step, multiply
from dprelease.privacy.noise import NoiseSource
from dprelease.release.approval import commit, new_salt
from dprelease.release.spec import ReleaseSpec
from tests.support.blocks import privatize
from tests.support.joint import entries, exact_gram
from tests.support.noise import RecordingNoise, ZeroNoise
from tests.support.specs import TWO_PARTIES, build_spec, categorical, numeric, random_rows

THREE = {**TWO_PARTIES, "west": (numeric("weight", 30.0, 200.0), categorical("smokes", "yes"))}
ALONE = {"north": TWO_PARTIES["north"]}


@contextmanager
def unmeasured(name: str) -> Iterator[None]:
    yield


def compute(
    spec: ReleaseSpec,
    tables: Mapping[str, BoundedRows],
    keys: Mapping[str, PrivateKey],
    commitments: Mapping[str, str],
    noise: NoiseSource,
    step: Step,
) -> dict[str, np.ndarray]:
    mechanism = mechanism_of(spec)
    schedule = mechanism.schedule(spec)
    matrices = {party: mechanism.matrix(table, spec) for party, table in tables.items()}
    products = multiply(schedule, matrices, keys, commitments, step) if schedule else {}
    return {party: privatize(table, spec, party, noise, products.get(party)).values for party, table in tables.items()}


def run(spec: ReleaseSpec, keys: dict[str, PrivateKey], noise: NoiseSource, seed: int = 5) -> dict[str, np.ndarray]:
    tables = {part.party: random_rows(spec, part.party, seed) for part in spec.parties}
    commitments = {party: commit(new_salt(), table.digest()) for party, table in tables.items()}
    return compute(spec, tables, keys, commitments, noise, unmeasured)


def made(parties: dict[str, object], **more: object) -> tuple[ReleaseSpec, dict[str, PrivateKey]]:
    keys = {name: new_private_key() for name in parties}
    named = {name: key_fingerprint(key.public_key()) for name, key in keys.items()}
    return build_spec(parties, mechanism="moments", keys=named, **more), keys  # type: ignore[arg-type]


CASES = [
    pytest.param(ALONE, {}, id="alone"),
    pytest.param(TWO_PARTIES, {}, id="coordinator deals"),
    pytest.param(THREE, {}, id="hospitals deal in turn"),
    pytest.param(THREE, {"dealer": "coordinator", "curious": 2}, id="two curious"),
]


@pytest.mark.parametrize(("parties", "more"), CASES)
def test_blocks_add_up_to_the_exact_moments_and_the_noise(parties: dict[str, object], more: dict[str, object]) -> None:
    spec, keys = made(parties, **more)
    tables = {part.party: random_rows(spec, part.party, 5) for part in spec.parties}
    exact = entries(spec, exact_gram(spec, tables))
    blocks = run(spec, keys, ZeroNoise())
    total = sum(block.view(np.uint64) for block in blocks.values())
    assert np.asarray(total).view(np.int64)[0].tolist() == exact
    recording = RecordingNoise()
    noisy = sum(block.view(np.uint64) for block in run(spec, keys, recording).values())
    drawn = np.zeros(layout_of(spec).entries, np.int64)
    for at in range(0, len(recording.draws), 2):
        drawn[~layout_of(spec).diagonal] += recording.draws[at].values[0]
        drawn[layout_of(spec).diagonal] += recording.draws[at + 1].values[0]
    assert np.asarray(noisy).view(np.int64)[0].tolist() == [a + int(b) for a, b in zip(exact, drawn, strict=True)]


def test_a_block_alone_says_nothing() -> None:
    spec, keys = made(THREE)
    one, other = run(spec, keys, ZeroNoise()), run(spec, keys, ZeroNoise())
    for name in one:  # fresh keys, fresh masks: two runs over one table share no entry
        assert not np.any(one[name] == other[name])


def test_other_rows_than_the_specs_are_refused() -> None:
    spec, keys = made(TWO_PARTIES)
    tables = {part.party: random_rows(build_spec(rows=39), part.party) for part in spec.parties}
    with pytest.raises((DataRefused, IntegrityError)):
        compute(spec, tables, keys, dict.fromkeys(tables, "ab" * 32), ZeroNoise(), unmeasured)


def test_a_parcel_that_its_sender_did_not_sign_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, keys = made(TWO_PARTIES)
    honest, stranger = mpc_round.sign_message, new_private_key()
    monkeypatch.setattr(mpc_round, "sign_message", lambda _, header: honest(stranger, header))
    with pytest.raises(IntegrityError, match="did not sign"):
        run(spec, keys, ZeroNoise())


def test_columns_that_were_altered_under_way_are_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, keys = made(TWO_PARTIES)
    honest = ColumnCipher.encrypt
    monkeypatch.setattr(ColumnCipher, "encrypt", lambda *given: bytes([honest(*given)[0] ^ 1]) + honest(*given)[1:])
    with pytest.raises(IntegrityError, match=r"columns of .* was altered"):
        run(spec, keys, ZeroNoise())
