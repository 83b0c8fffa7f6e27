"""Blocks of joint moments after sessions in one process: their sum is exact, and everything that travels is checked.

Public features that follow from one another: named, and refused; private cells play no part.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column
from dprelease.errors import DataRefused, IntegrityError
from dprelease.identity.signing import PrivateKey, key_fingerprint, new_private_key
from dprelease.mechanisms.moments.public_side import following
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc import round as mpc_round
from dprelease.mpc.encryption import ColumnCipher
from dprelease.mpc.in_memory import Step, multiply
from dprelease.privacy.noise import NoiseSource
from dprelease.release.approval import commit, new_salt
from dprelease.release.spec import ReleaseSpec
from tests.support.blocks import privatize
from tests.support.joint import entries, exact_gram, summed
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
    assert summed(spec, blocks.values())[0].tolist() == exact
    recording = RecordingNoise()
    noisy = summed(spec, run(spec, keys, recording).values())
    drawn = np.zeros(layout_of(spec).entries, np.int64)
    for at in range(0, len(recording.draws), 2):
        drawn[~layout_of(spec).diagonal] += recording.draws[at].values[0]
        drawn[layout_of(spec).diagonal] += recording.draws[at + 1].values[0]
    assert noisy[0].tolist() == [a + int(b) for a, b in zip(exact, drawn, strict=True)]


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


N = 60
BITS = 10
RANDOM = np.random.default_rng(5)
A, B = RANDOM.integers(-512, 512, (2, N)) / 1024
GROUP = [str(each) for each in RANDOM.choice(["I", "II", "other"], N)]
CELLS = {"a": A, "b": B, "sum": A + B, "flat": np.full(N, 0.25), "stage": GROUP, "y": RANDOM.uniform(-1, 1, N)}


def rows(*columns: Column, **cells: object) -> BoundedRows:
    raw = {**CELLS, **cells}
    return BoundedRows(bound({each.name: raw[each.name] for each in columns}, columns, BITS), columns, BITS)  # type: ignore[misc]


def shown(name: str) -> Column:
    return numeric(name, public=True)


def check_public(bounded: BoundedRows, spec: ReleaseSpec, party: str) -> None:
    mechanism_of(spec).check_public(bounded, spec, party)


STAGE = categorical("stage", "I", "II", public=True)


@pytest.mark.parametrize(
    ("columns", "cells", "found"),
    [
        ((shown("a"), shown("b")), {}, ()),
        ((shown("a"), shown("b"), STAGE), {}, ()),
        ((shown("a"), shown("flat")), {}, ("flat",)),
        ((shown("a"), STAGE), {"stage": ["I", "II"] * (N // 2)}, ("stage=other",)),
        ((shown("a"), STAGE), {"a": np.array([each == "II" for each in GROUP]) / 2}, ("a", "stage=II")),
        ((shown("a"), numeric("b")), {"b": A}, ()),
        ((numeric("a"), numeric("flat")), {}, ()),
        ((shown("a"), shown("y")), {"y": A}, ()),
    ],
)
def test_what_follows_from_the_others_is_named(
    columns: tuple[Column, ...], cells: dict[str, object], found: tuple[str, ...]
) -> None:
    said = following(rows(*columns, **cells), ("y",))
    assert set(said) <= set(found)
    assert bool(said) == bool(found)


def test_one_of_a_dependent_set_is_enough_to_leave_out() -> None:
    assert len(following(rows(shown("a"), shown("b"), shown("sum")), ())) == 1
    assert following(rows(shown("a"), numeric("b"), shown("sum")), ()) == ()


def test_more_features_than_patients_follow_from_one_another() -> None:
    few = [numeric(f"x{place}", public=True) for place in range(5)]
    raw = {each.name: RANDOM.uniform(-1, 1, 4) for each in few}
    bounded = BoundedRows(bound(raw, tuple(few), BITS), tuple(few), BITS)  # type: ignore[arg-type]
    assert len(following(bounded, ())) == 2  # three and the constant fill four rows


def test_only_a_release_with_outcomes_is_refused() -> None:
    columns = (shown("a"), shown("flat"))
    parties = {"north": columns, "south": (numeric("y"),)}
    bounded = rows(*columns)
    check_public(bounded, build_spec(parties, mechanism="moments", guarantee="label-DP"), "north")
    check_public(bounded, build_spec(parties, guarantee="label-DP"), "north")
    spec = build_spec(parties, mechanism="moments", guarantee="label-DP", outcomes=("y",))
    with pytest.raises(DataRefused) as refused:
        check_public(bounded, spec, "north")
    assert refused.value.message.startswith(
        "public features that follow from the others and the constant: flat. Ask for"
    )


def test_outcomes_longer_than_their_owner_said_are_refused_at_the_owner_only() -> None:
    columns = (shown("a"), shown("b"))
    longest = float((A**2 + B**2).max())
    for norm2, fits in ((longest + 0.01, True), (longest - 0.01, False)):
        spec = build_spec(
            {"north": columns, "south": (numeric("y"),)},
            mechanism="moments",
            guarantee="feature-DP",
            outcomes=("a", "b"),
            public_norm2=Fraction(f"{norm2:.6f}"),
        )
        check_public(rows(numeric("y")), spec, "south")
        if fits:
            check_public(rows(*columns), spec, "north")
        else:
            with pytest.raises(DataRefused, match="state at least that"):
                check_public(rows(*columns), spec, "north")
