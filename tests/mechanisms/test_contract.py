"""The contract of `dprelease.mechanisms.base`, held against every mechanism: the product's, and a toy that it does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.catalogue import Catalogue
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.decades import Box
from dprelease.data.ranges import STEPS, Range, on_fine_grid
from dprelease.errors import DpReleaseError, IntegrityError, InvalidInput, SpecRefused
from dprelease.identity.signing import new_private_key
from dprelease.mechanisms import registry
from dprelease.mechanisms.draft import Draft, PublishedRanges
from dprelease.mechanisms.moments.released import OutcomeMoments
from dprelease.mechanisms.noisy_rows.privatize import mixer
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.mechanisms.ranges.released import EDGES, Ranges
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, names, read_options
from dprelease.mechanisms.stream.terms import StreamTerms
from dprelease.mechanisms.synthetic_control.released import Panel
from dprelease.mpc.in_memory import multiply
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec, guarantee
from dprelease.release.block import Block, expected_header, read_block, values_of
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import PartyColumns, Target, instant
from tests.mechanisms.toy import SUMS
from tests.support.certificates import NOW
from tests.support.joint import exact_gram
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.rounds import in_published_ranges
from tests.support.simulations import simulated
from tests.support.specs import SEED, categorical, numeric, ordered, random_rows
from tests.support.streams import following

COLUMNS = {
    "north": (numeric("age", 0.0, 120.0), categorical("sex", "female", "male")),
    "south": (numeric("glucose", 2.0, 30.0), numeric("weight", 30.0, 200.0)),
    "east": (categorical("smokes", "yes", "no", exhaustive=True, fill="no"), numeric("visits", 0.0, 9.0)),
}
ORDERED = {
    "north": (ordered("grade", "I", "II", "III", "IV"), numeric("age", 0.0, 120.0)),
    "south": (ordered("school", "none", "primary", "more", scores=(0.0, 6.0, 11.0)), categorical("sex", "f", "m")),
}
DONORS = {"north": tuple(numeric(f"t{year}", 0.0, 50.0) for year in range(5))}
SERIES = ("series", [10.0, 12.5, 40.0, 30.0, 20.0])
ROWS, GRID_BITS = 60, 16


@dataclass(frozen=True, eq=False)
class Case:
    mechanism: str
    parties: int = 3
    options: tuple[tuple[str, Any], ...] = ()
    unknown: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    held: Mapping[str, tuple[Column, ...]] | None = None

    def __str__(self) -> str:
        at = [f"after {self.earlier}"] if self.earlier else []
        held = ["ordered"] if self.held is ORDERED else []
        return "-".join(
            [self.mechanism, str(self.parties), *(key for key, _ in self.options), *self.unknown, *at, *held]
        )

    @property
    def columns(self) -> dict[str, tuple[Column, ...]]:
        """Party to its columns, those named in `unknown` without bounds."""
        return {
            party: tuple(
                NumericColumn(name=column.name, bounds="unknown") if column.name in self.unknown else column
                for column in own
            )
            for party, own in list((self.held or COLUMNS).items())[: self.parties]
        }


CASES = [
    Case("mixed", options=(("k", 12),)),
    Case("mixed", 1, (("k", 12), ("rho", "0"))),
    Case("mixed", options=(("k", 3), ("mixing", "buckets"))),
    Case("mixed", options=(("k", 12), ("ranges", "first"))),
    Case("mixed", 2, (("ranges", "first"), ("weights", {"glucose": 3})), unknown=("age",)),
    Case("rows", options=(("ranges", "first"),)),
    Case("rows"),
    Case("rows", 2, (("weights", {"glucose": 3}),)),
    Case("moments"),
    Case("moments", 1),
    Case("moments", 2, (("outcomes", ["weight"]),)),
    Case("moments", options=(("charge", {"north": "1/2", "south": "1/4", "east": "1/4"}),)),
    Case("moments", options=(("ranges", "folder"),)),
    Case("moments", options=(("ranges", "folder"), ("clip", 1.0), ("outcome_weight", {"weight": 1.7}))),
    Case("moments", options=(("ranges", "first"),)),
    Case("moments", 1, (("ranges", "first"), ("clip", "none"))),
    Case("ranges"),
    Case("ranges", 1),
    Case("ranges", unknown=("age", "weight")),
    Case("moments", options=(("ranges", "first"),), unknown=("age", "visits")),
    Case("moments", options=(("ranges", "folder"),), unknown=("age",)),
    Case("stream", options=(("of", "moments"), ("checkpoints", 5))),
    Case("stream", 1, (("of", "moments"), ("checkpoints", 5), ("factor", "tree"), ("most_rows", 900))),
    Case("stream", options=(("of", "moments"), ("checkpoints", 1), ("ranges", "folder"))),
    Case("stream", options=(("of", "moments"), ("checkpoints", 2), ("ranges", "folder")), unknown=("age",)),
    Case("stream", options=(("of", "mixed"), ("checkpoints", 12), ("k", 12))),
    Case("stream", 2, (("of", "mixed"), ("checkpoints", 3), ("factor", "tree"), ("weights", {"glucose": 3}))),
    Case("stream", 2, (("of", "mixed"), ("most_rows", 900), ("k", 8))),
    Case("synthetic-control", 1, (("intervention", "t3"), SERIES), held=DONORS),
    Case(
        "synthetic-control",
        1,
        (("intervention", "t1"), SERIES, ("penalty", "7/2"), ("weights_share", 0.7)),
        held=DONORS,
    ),
    Case("synthetic-control", 1, (("intervention", "t3"), SERIES, ("law", "laplace")), held=DONORS),
    Case("mixed", 2, (("k", 12),), held=ORDERED),
    Case("moments", 2, held=ORDERED),
    Case("moments", 2, (("outcomes", ["grade"]),), held=ORDERED),
    Case("moments", 2, (("ranges", "first"),), held=ORDERED),
    Case("sums"),
    Case("sums", 2, (("doubled", ["north"]),)),
]

LATER = [
    Case("stream", options=(("of", "moments"), ("checkpoints", 5)), earlier=(1, 2)),
    Case("stream", options=(("of", "moments"), ("most_rows", 900)), earlier=(1, 4, 5)),
    Case("stream", 2, (("of", "mixed"), ("checkpoints", 8), ("factor", "tree")), earlier=(1, 3)),
]
"""Releases after others of which hospitals keep something; `tests/dprelease/mechanisms/stream` makes their blocks."""


def ranges(unknown: tuple[str, ...]) -> PublishedRanges:
    """What an earlier release would have published."""
    numbers = [column.name for own in COLUMNS.values() for column in own if column.kind == "numeric"]
    found = tuple(
        Range(
            name=name,
            centre=place * STEPS // 8,
            half_width=STEPS // 2,
            box=Box(low=90, high=97) if name in unknown else None,
        )
        for place, name in enumerate(numbers)
    )
    return PublishedRanges("ab" * 32, found)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy is in the table for one test."""
    monkeypatch.setitem(registry._TABLE, SUMS.name, SUMS)


def catalogue(columns: Mapping[str, Any]) -> Catalogue:
    everything = tuple(column for own in columns.values() for column in own)
    facts = {"roster": "roster-1", "rows": ROWS, "rows_per_subject": 1, "alignment": "a" * 64}
    return Catalogue(party="north", columns=everything, **facts)


@cache
def made(case: Case) -> tuple[ReleaseSpec, Mapping[str, Fraction]]:
    """The spec that a mechanism proposes, and what it says that ledgers will be charged."""
    columns = case.columns
    target = Target(scope="joint", epsilon=5.0, delta=1e-3)
    mechanism = mechanism_named(case.mechanism)
    draft = Draft(
        columns, catalogue(columns), target, GRID_BITS, lambda size: SEED[:size], lambda _: ranges(case.unknown)
    )
    numbers = mechanism.propose(read_options(case.mechanism, dict(case.options)), draft)
    weights = {party: tuple(numbers.weights.get(column.name, 1) for column in own) for party, own in columns.items()}
    fields = {
        "title": "a contract",
        "consortium": "trial",
        "roster": "roster-1",
        "rows": ROWS,
        "rows_per_subject": 1,
        "alignment": "a" * 64,
        "grid_bits": GRID_BITS,
        "target": target,
        "parties": tuple(
            PartyColumns(
                party=party,
                key=f"{place:064x}",
                columns=own,
                weights=weights[party] if set(weights[party]) - {1} else (),
            )
            for place, (party, own) in enumerate(columns.items())
        ),
        "terms": numbers.terms,
        "created": instant(NOW),
        "expires": "2026-04-01T00:00:00Z",
    }
    spec = ReleaseSpec.model_validate(fields)
    for number in (*case.earlier[1:], case.earlier[-1] + 1) if case.earlier else ():
        spec = following(spec, ROWS, number)
    return spec, numbers.charges


def blocks_of(spec: ReleaseSpec, tables: Mapping[str, BoundedRows], noise: Any) -> dict[str, tuple[Block, ...]]:
    mechanism = mechanism_of(spec)
    schedule, products = mechanism.schedule(spec), {}
    blocks: dict[str, tuple[Block, ...]] = dict.fromkeys(tables, ())
    for sequences in spec.rounds():
        earlier = mechanism.earlier(spec, values_of(blocks))
        if schedule is not None and sequences == spec.rounds()[-1]:
            matrices = {party: mechanism.matrix(rows, spec, earlier) for party, rows in tables.items()}
            keys = {party: new_private_key() for party in tables}
            commitments = dict.fromkeys(tables, "5e" * 32)
            products = dict(multiply(schedule, matrices, keys, commitments, lambda name: nullcontext()))
        made = {
            party: privatize(rows, spec, party, noise, products.get(party), earlier) for party, rows in tables.items()
        }
        assert all([block.header.sequence for block in own] == [*sequences] for own in made.values())
        blocks = {party: own + made[party] for party, own in blocks.items()}
    return blocks


def tables_of(spec: ReleaseSpec) -> dict[str, BoundedRows]:
    return {part.party: random_rows(spec, part.party) for part in spec.parties}


@cache
def noisy(case: Case) -> dict[str, tuple[Block, ...]]:
    spec, _ = made(case)
    return blocks_of(spec, tables_of(spec), SeededNoise(2))


def test_every_mechanism_of_the_table_is_held_against_the_contract() -> None:
    assert {case.mechanism for case in CASES} == set(names())


@pytest.mark.parametrize("case", CASES + LATER, ids=str)
def test_a_spec_survives_its_bytes_and_names_its_mechanism(case: Case) -> None:
    spec, _ = made(case)
    again = ReleaseSpec.from_bytes(spec.to_bytes())
    assert again == spec
    assert type(again.terms) is mechanism_named(case.mechanism).terms
    assert again.mechanism == case.mechanism


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_proposed_keeps_to_the_target_and_costs_what_ledgers_are_charged(case: Case) -> None:
    spec, charges = made(case)
    given = check_spec(spec)
    cost = mechanism_of(spec).cost(spec)
    assert {part.party: part.mu2 for part in given.parties} == dict(cost.charges)
    for party, mu2 in cost.charges.items():
        assert charges[party] * (1 - Fraction(1, 10**6)) < mu2 <= charges[party]
    assert sum(cost.charges.values()) == cost.joint
    assert all(cost.exposures[party] >= mu2 for party, mu2 in cost.charges.items())
    assert given.joint_epsilon <= spec.target.epsilon


@pytest.mark.parametrize("case", CASES + LATER, ids=str)
def test_its_words_are_sentences(case: Case) -> None:
    spec, _ = made(case)
    words = mechanism_of(spec).statements(spec)
    assert all((words.would_publish, words.content, words.summary))
    assert "\n" not in "".join((words.would_publish, words.content, words.summary, words.shape, *words.details))
    assert words.trust
    assert all(sentence.endswith(".") for sentence in (*words.trust, *guarantee(spec).words()))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_blocks_have_the_shapes_that_were_promised(case: Case) -> None:
    spec, _ = made(case)
    for party, blocks in noisy(case).items():
        assert [block.values.shape for block in blocks] == [*mechanism_of(spec).shapes(spec, party)]
        for at, block in enumerate(blocks):
            assert block.header == expected_header(spec, party, at)
            np.testing.assert_array_equal(read_block(block.to_bytes(), spec, party, at).values, block.values)


@pytest.mark.parametrize("case", CASES + LATER, ids=str)
def test_every_party_sends_the_blocks_of_every_round(case: Case) -> None:
    spec, _ = made(case)
    mechanism = mechanism_of(spec)
    counts = mechanism.rounds(spec)
    assert min(counts) > 0
    assert [len(sequences) for sequences in spec.rounds()] == [*counts]
    assert {len(mechanism.shapes(spec, part.party)) for part in spec.parties} == {sum(counts)}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_noise_learners_read_the_exact_statistic(case: Case) -> None:
    spec, _ = made(case)
    tables = tables_of(spec)
    blocks = blocks_of(spec, tables, ZeroNoise())
    release = Release(spec, blocks, ())
    view, codes = release.view, np.hstack([tables[part.party].codes for part in spec.parties])
    if isinstance(view, NoisyRows) and release.first_ranges is not None:
        for each in release.first_ranges.ranges:
            at = spec.released.index(each.name)
            codes[:, at] = each.code(codes[:, at], GRID_BITS, 1 << GRID_BITS)
    rows = codes / 2.0**GRID_BITS
    if isinstance(spec.terms, StreamTerms):  # at its first checkpoint it is a release of its first patients
        spec = spec.model_copy(update={"terms": spec.terms.of})
    if isinstance(view, Ranges):
        for each in view.columns:
            codes = np.hstack([tables[part.party].codes for part in spec.parties])
            cells = on_fine_grid(codes[:, spec.released.index(each.column.name)], GRID_BITS, each.range.box) / STEPS
            below = (cells[:, None] < EDGES[1:-1]).mean(axis=0)
            np.testing.assert_allclose(each.distribution.noisy, below, atol=1e-9)
            assert view.rows == ROWS
    elif isinstance(view, Panel):
        before, terms = view.before, spec.terms
        target = (np.array(terms.series) / 25.0 - 1.0)[:before]  # type: ignore[attr-defined]
        gram = rows[:, :before] @ rows[:, :before].T + view.penalty / 2 * np.eye(ROWS)
        np.testing.assert_allclose(view.weights, np.linalg.solve(gram, rows[:, :before] @ target), atol=2.0**-24 + 1e-5)
        np.testing.assert_array_equal(view.donors, rows[:, before:])
    elif isinstance(view, NoisyRows):
        exact = {
            "mixed": lambda: _mixed(spec, rows),
            "rows": lambda: rows,
            "sums": lambda: np.tile(rows.sum(axis=0), (2, 1)),
        }[spec.mechanism]()
        np.testing.assert_allclose(view.values, exact, atol=1e-9)
        mean, _ = view.means()
        if spec.mechanism != "mixed" or view.anchor:
            np.testing.assert_allclose(mean, rows.mean(axis=0), atol=1e-9)
    else:
        if len(spec.rounds()) > 1:
            spec = in_published_ranges(spec, {party: own[:-1] for party, own in blocks.items()})
        clipping = spec.terms.clipping  # type: ignore[attr-defined]
        one = (
            np.full(len(view.layout.variables) + 1, 1 << GRID_BITS) if clipping is None else clipping.units(view.layout)
        )
        gram = exact_gram(spec, tables).astype(np.float64) / np.outer(one, one)
        if isinstance(view, OutcomeMoments):
            features = np.flatnonzero(~view.layout.outcome)
            np.testing.assert_allclose(view.across, gram[features], atol=1e-9)
        else:
            np.testing.assert_allclose(view.gram, gram, atol=1e-9)


def _mixed(spec: ReleaseSpec, rows: Any) -> Any:
    terms: Any = spec.terms
    signs = mixer(terms, spec).signs(0, spec.rows)
    rho = float(terms.rho)
    mixed = signs @ rows * np.sqrt((1 - rho) / terms.squared_norm)
    return np.vstack([rows.sum(axis=0) * np.sqrt(rho), mixed]) if rho else mixed


def numbers_in(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number of plain data, rationals in strings included, with the way to it."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from numbers_in(value, (*path, key))
    elif isinstance(data, list):
        for at, value in enumerate(data):
            yield from numbers_in(value, (*path, at))
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path, data
    elif isinstance(data, str):
        try:
            yield path, Fraction(data) if len(data) < 60 else data
        except ValueError:
            return


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    copied = dict(data) if isinstance(data, dict) else list(data)
    copied[path[0]] = value if len(path) == 1 else changed(copied[path[0]], path[1:], value)
    return copied


@pytest.mark.parametrize("case", CASES + LATER, ids=str)
def test_no_number_of_its_terms_may_be_another_for_less_noise(case: Case) -> None:
    """Half or twice of any number is refused, or costs no less than it says: what a lying coordinator might try."""
    spec, _ = made(case)
    data = spec.model_dump(mode="json")
    allowed = check_spec(spec).joint_mu2
    tried = 0
    for path, value in numbers_in(data["terms"]):
        if isinstance(value, str):
            continue  # a seed: any is as good
        for other in (value / 2, value * 2, 0, -value):
            text = str(Fraction(other)) if isinstance(value, Fraction) else other
            text = int(text) if isinstance(value, int) else text
            if text == value or (isinstance(value, Fraction) and Fraction(text) == value):
                continue
            lie = changed(data, ("terms", *path), text)
            tried += 1
            try:
                found = check_spec(ReleaseSpec.model_validate_json(json.dumps(lie)))
            except (DpReleaseError, ValueError):
                continue
            assert found.joint_mu2 <= allowed, (path, text)
    assert tried


@pytest.mark.parametrize("case", CASES, ids=str)
def test_blocks_of_other_shapes_or_garbage_are_refused(case: Case) -> None:
    (spec, _), blocks = made(case), noisy(case)
    party = next(iter(blocks))
    data = blocks[party][0].to_bytes()
    for wrong in (data[:-8], data + b"\0" * 8, b"X" + data[1:], b""):
        with pytest.raises(IntegrityError):
            read_block(wrong, spec, party)
    with pytest.raises(InvalidInput, match="has no block"):
        expected_header(spec, party, len(blocks[party]))
    if mechanism_of(spec).checks_sum:
        first = blocks[party][0]
        garbage = Block(first.header, np.full_like(first.values, 1 << 59), first.public)
        with pytest.raises(IntegrityError):
            _ = Release(spec, {**blocks, party: (garbage, *blocks[party][1:])}, ()).view


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_dry_run_equals_the_real_one_in_shape_and_price(case: Case, tmp_path: Path) -> None:
    spec, _ = made(case)
    found = simulated(spec, spec.columns[0].name, tmp_path / "fake", SeededNoise(4))
    real, fake = guarantee(spec), guarantee(found.spec)
    assert found.release.guarantee[1:] == fake.words()  # as the manifest says, and whoever verifies it
    assert (real.joint_mu2, real.joint_epsilon) == (fake.joint_mu2, fake.joint_epsilon)
    assert [part.mu2 for part in real.parties] == [part.mu2 for part in fake.parties]
    shapes = [[block.values.shape for block in blocks] for blocks in found.release.blocks.values()]
    assert shapes == [[*mechanism_of(spec).shapes(spec, part.party)] for part in spec.parties]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_options_of_another_mechanism_are_refused_by_name(case: Case) -> None:
    own = mechanism_named(case.mechanism).options.model_fields
    for other in names():
        for key in mechanism_named(other).options.model_fields.keys() - own.keys():
            with pytest.raises(ValueError, match=f"{key} belongs to mechanism"):
                read_options(case.mechanism, {key: 1})
    with pytest.raises(ValueError, match="nonsense"):
        read_options(case.mechanism, {"nonsense": 1})


def test_a_name_is_taken_once() -> None:
    with pytest.raises(InvalidInput, match="is there already"):
        registry.register(SUMS)


def test_terms_of_no_mechanism_are_refused() -> None:
    spec, _ = made(CASES[0])
    data = spec.model_dump(mode="json")
    for terms in ({"mechanism": "other"}, {}, [], None, {**data["terms"], "extra": 1}):
        with pytest.raises(ValueError, match="terms"):
            ReleaseSpec.model_validate_json(json.dumps({**data, "terms": terms}))


def test_a_refusal_names_the_first_number_that_disagrees() -> None:
    spec, _ = made(CASES[0])
    terms: Any = spec.terms
    noise = (terms.noise[0].model_copy(update={"scale": 1.0}), *terms.noise[1:])
    lie = spec.model_copy(update={"terms": terms.model_copy(update={"noise": noise})})
    with pytest.raises(SpecRefused, match="north"):
        check_spec(lie)
