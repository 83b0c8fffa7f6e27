"""Claims of range proofs: honest rows of every kind fulfil them, each single violation is refused, and sensitivity needs no more.

The search lets altered hospitals show each receiver other rows, all of which their claims accept, and never finds a move above
what the noise is for. Without the norms of a claim it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalogue import Catalogue
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.files.settings import Mistakes
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.moments.calibration import parts
from dprelease.mechanisms.moments.claims import claim_of, power_of_two, proof_error, unproved
from dprelease.mechanisms.moments.entries import EntryKind
from dprelease.mechanisms.moments.privatize import coded, places, schedule_of
from dprelease.mechanisms.moments.terms import joint_moments, layout_of, moved_by
from dprelease.mechanisms.moments.words import NOT_REVIEWED
from dprelease.mechanisms.registry import mechanism_named, mechanism_of, read_options
from dprelease.mechanisms.stream.terms import StreamTerms, inner
from dprelease.mpc.proof.claim import Claim, RowNorm
from dprelease.release.accounting import trust
from dprelease.release.spec import ReleaseSpec
from tests.dprelease.moments.clipped_shapes import BITS, shape
from tests.support.joint import compute, entries, exact_gram, summed
from tests.support.noise import ZeroNoise
from tests.support.rounds import after, first_blocks, ranges_first
from tests.support.specs import (
    TWO_PARTIES,
    build_spec,
    categorical,
    numeric,
    ordered,
    random_raw,
    random_rows,
    with_terms,
)
from tests.support.streams import first_spec

Wide = npt.NDArray[np.int64]
Claims = Mapping[str, Claim]


EXITS = Exits((1.0, 2.0), ("died", "moved"), missing=True)
EVERY_KIND: Mapping[str, tuple[Column, ...]] = {
    "north": (
        numeric("x", 0.0, 50.0),
        ordered("grade", "I", "II", "III"),
        categorical("one", "yes"),
        categorical("two", "a", "b", exhaustive=True, fill="a"),
        categorical("open", "a", "b"),
        categorical("exit", *EXITS.levels, exhaustive=True, fill="missing"),
    ),
    "south": (
        numeric("p", public=True),
        categorical("q", "a", "b", public=True),
        categorical("r", "yes", public=True),
        categorical("band", "under 40", "40 to 50", "50 or more", exhaustive=True, fill="under 40"),
    ),
    "west": (numeric("w1"), numeric("w2"), numeric("w3")),
}


def clipped(seed: int, curious: int = 1) -> ReleaseSpec:
    """A random shape of two parties or more, in ranges, with norms."""
    random = np.random.default_rng(seed)
    while True:
        parties, clipping = shape(random)
        if len(parties) > 1:
            named = {f"p{place}": own for place, own in enumerate(parties)}
            spec = build_spec(named, mechanism="moments", grid_bits=BITS, curious=curious, dealer="coordinator")
            return with_terms(spec, clipping=clipping)


def claims_of(spec: ReleaseSpec) -> dict[str, Claim]:
    return {part.party: claim_of(spec, part.party) for part in spec.parties}


def honest(spec: ReleaseSpec, party: str, rows: int, random: np.random.Generator) -> Wide:
    """What a party multiplies, many cells of it at the ends of their ranges or beyond."""
    columns = spec.columns_by_party[party]
    raw = random_raw(columns, rows, random)
    for column in columns:
        if isinstance(column, NumericColumn):
            far = random.choice([-1e6, np.nan, 1e6], rows)
            raw[column.name] = np.where(random.random(rows) < 0.5, far, np.asarray(raw[column.name], np.float64))
    table = BoundedRows(bound(raw, columns, spec.grid_bits), columns, spec.grid_bits)
    return coded(table, spec).astype(np.int64)


@pytest.mark.parametrize("spec", [build_spec(EVERY_KIND, mechanism="moments"), *map(clipped, range(8))])
def test_honest_rows_fulfil_the_claim_and_each_violation_is_refused(spec: ReleaseSpec) -> None:
    random, layout = np.random.default_rng(3), layout_of(spec)
    seen, at = set(), 0
    for party, claim in claims_of(spec).items():
        rows = honest(spec, party, 200, random)
        claim.steps(rows)
        own = layout.variables[at : at + rows.shape[1]]
        at += rows.shape[1]
        for place, variable in enumerate(own):
            values = claim.columns[place]
            weight = values.upper
            wrong = [weight + 1, -weight - 1, 1 << 40, -(1 << 40)]
            wrong += [] if variable.measured else [weight - 1] if weight > 1 else []
            wrong += [-weight, weight - int(rows[0, place])] if variable.level else []  # another level too, or none
            wrong += [0] if not (variable.level or variable.measured) else []
            seen.add((variable.measured, variable.level, variable.public))
            for value in wrong:
                altered = rows[:1].copy()
                altered[0, place] = value
                with pytest.raises(InvalidInput):
                    claim.steps(altered)
        for norm in claim.norms:
            long = rows[:1].copy()
            long[0, norm.columns] = [claim.columns[place].upper for place in norm.columns]
            with pytest.raises(InvalidInput, match="norm"):
                claim.steps(long)
    assert at == len(layout.variables)
    if "north" in spec.columns_by_party:
        kinds = {(True, False), (False, True), (False, False)}
        assert seen == {(*kind, shown) for kind, shown in product(kinds, (False, True))}


def room(spec: ReleaseSpec) -> dict[EntryKind, Fraction]:
    """What the squared move of each kind of entry counts, if 1 is all that the noise is for."""
    split, squared = joint_moments(spec).split, moved_by(spec).on_grid(spec.grid_bits, 1)
    first, second = parts(Fraction(1), split) if split else (Fraction(1), Fraction(0))
    budget = dict(zip(EntryKind, (first, first, second, second), strict=True))
    return {kind: budget[kind] / each for kind, each in squared.items() if each}


class Search:
    """Two rows of honest hospitals that differ in private cells, and the row that each altered one shows each receiver.

    Rows are (3, m, p + 1): before, after, and shown to each of the m parties, by variable.
    """

    def __init__(self, spec: ReleaseSpec, altered: tuple[str, ...], made: Claims) -> None:
        self.layout, self.room = layout_of(spec), room(spec)
        self.claims = [made[party] for party in spec.columns_by_party]
        self.owner, self.local = places(schedule_of(spec))
        self.altered = np.isin(self.owner, [list(spec.columns_by_party).index(party) for party in altered])
        clipping = joint_moments(spec).clipping
        self.constant = 1 << spec.grid_bits if clipping is None else clipping.constant
        self.parties = len(self.claims)

    def start(self) -> Wide:
        row = np.zeros(len(self.owner), np.int64)
        row[0] = self.constant
        for place, variable in enumerate(self.layout.variables, 1):
            values = self.claims[self.owner[place]].columns[self.local[place]]
            if not variable.measured:
                row[place] = values.upper if not variable.level or self.layout.first_level[place - 1] else 0
        return np.broadcast_to(row, (3, self.parties, len(row))).copy()

    def moved(self, rows: Wide) -> list[Fraction]:
        """(c, 3, m, p + 1) to how far each moves the released entries."""
        one, other = self.layout.rows, self.layout.cols
        totals: dict[EntryKind, Wide] = {}
        sides = []
        for side in (0, 1):
            found = rows[:, side, 0]
            left, right = found[:, one], found[:, other]
            left = np.where(self.altered[one], rows[:, 2, self.owner[other], one], left)
            right = np.where(self.altered[other], rows[:, 2, self.owner[one], other], right)
            still = (self.altered[one] & ~self._differs(other)) | (self.altered[other] & ~self._differs(one))
            sides.append(np.where(still, 0, left * right))
        squares = (sides[0] - sides[1]) ** 2
        for kind in self.room:
            totals[kind] = squares[:, self.layout.kinds == kind].sum(axis=1)
        return [
            sum((self.room[kind] * int(total[c]) for kind, total in totals.items()), Fraction(0))
            for c in range(len(rows))
        ]

    def _differs(self, place: Wide) -> npt.NDArray[np.bool_]:
        """Which variables may differ between the two rows: the private ones of honest hospitals."""
        found: npt.NDArray[np.bool_] = ~self.layout.public[place] & ~self.altered[place]
        return found

    def coordinates(self) -> Iterator[tuple[tuple[slice | int, slice | int], list[int]]]:
        """Which rows a column may be changed in by itself, and the places of its variables."""
        columns: dict[int, list[int]] = {}
        for place, variable in enumerate(self.layout.variables, 1):
            columns.setdefault(variable.column, []).append(place)
        everybody = slice(0, self.parties)
        for found in columns.values():
            if self.altered[found[0]]:
                yield from (((2, k), found) for k in range(self.parties))
            elif self.layout.public[found[0]]:
                yield (slice(0, 2), everybody), found
            else:
                yield from (((side, everybody), found) for side in (0, 1))

    def options(self, row: Wide, found: list[int]) -> list[list[int]]:
        """Values that the variables of a column may have in a row, by the claim."""
        number, local = self.owner[found[0]], self.local[found]
        claim = self.claims[number]
        values = claim.columns[local[0]]
        if len(found) > 1:
            return [[values.upper if place == other else 0 for other in found] for place in found]
        if values.step > 1:
            return [[values.lower], [values.upper]]
        reach = values.upper
        for norm in claim.norms:
            if local[0] in norm.columns:
                mine = row[self.owner == number]
                others = sum(int(mine[place]) ** 2 for place in norm.columns if place != local[0])
                reach = min(reach, math.isqrt(max(0, norm.squared - others)))
        return [[value] for value in {-reach, -reach // 2, 0, reach // 2, reach}]

    def best(self, random: np.random.Generator) -> Fraction:
        """From a random start as far as changes of single columns reach."""
        rows, reached = self.start(), Fraction(-1)
        coordinates = list(self.coordinates())
        for turn in range(12):
            for chosen in random.permutation(len(coordinates)):
                (side, whose), found = coordinates[chosen]
                tried = [rows]
                for option in self.options(rows[side, whose].reshape(-1, rows.shape[-1])[0], found):
                    changed = rows.copy()
                    changed[side, whose, found[0] : found[-1] + 1] = option
                    tried.append(changed)
                if turn == 0:
                    rows = tried[random.integers(1, len(tried))]
                else:
                    distances = self.moved(np.array(tried))
                    rows = tried[max(range(len(tried)), key=distances.__getitem__)]
            found_now = self.moved(rows[None])[0]
            if turn and found_now == reached:
                break
            reached = found_now
        self._fulfils(rows)
        return reached

    def _fulfils(self, rows: Wide) -> None:
        for row in (rows[0, 0], rows[1, 0], *rows[2]):
            for number, claim in enumerate(self.claims):
                claim.steps(row[None, self.owner == number])


def searched(spec: ReleaseSpec, altered: tuple[str, ...], made: Claims | None = None, starts: int = 2) -> Fraction:
    search, random = Search(spec, altered, made or claims_of(spec)), np.random.default_rng(7)
    return max(search.best(random) for _ in range(starts))


STATED = build_spec(
    {"a": (numeric("p", public=True), numeric("q", public=True)), "b": (numeric("x"),), "c": (numeric("y"),)},
    mechanism="moments",
    grid_bits=4,
    outcomes=("p", "q"),
    guarantee="feature-DP",
    public_norm2=Fraction(1, 4),
)
MIXED_KINDS = {
    "a": (numeric("x"), categorical("b", "yes"), categorical("g", "u", "v")),
    "b": (numeric("y"), numeric("p", public=True)),
    "c": (categorical("h", "u", "v"), numeric("z")),
}
SPECS = {
    "every kind": build_spec(MIXED_KINDS, mechanism="moments", grid_bits=4),
    "two altered of four": build_spec(
        {**MIXED_KINDS, "d": (numeric("v"), numeric("w"))},
        mechanism="moments",
        grid_bits=4,
        curious=2,
        dealer="coordinator",
    ),
    "outcomes": build_spec(MIXED_KINDS, mechanism="moments", grid_bits=4, outcomes=("y", "g"), guarantee="label-DP"),
    "public outcomes": STATED,
    **{f"clipped {seed}": clipped(seed) for seed in range(8)},
}


@pytest.mark.parametrize("name", SPECS)
def test_no_rows_that_claims_accept_move_more_than_the_noise_is_for(name: str) -> None:
    spec = SPECS[name]
    parties = tuple(spec.columns_by_party)
    altered = [parties[:2]] if joint_moments(spec).curious == 2 else [(party,) for party in parties]
    found = [searched(spec, each) for each in altered]
    assert max(found) <= 1
    assert max(found) > 0.6


def without_norms(spec: ReleaseSpec) -> Claims:
    return {party: replace(claim, norms=()) for party, claim in claims_of(spec).items()}


def test_without_the_norm_of_public_outcomes_the_noise_would_not_be_enough() -> None:
    (norm,) = claim_of(STATED, "a").norms
    assert norm == RowNorm((0, 1), 64)  # 1/4 of 16^2
    assert searched(STATED, ("a",), without_norms(STATED)) > 1


def test_without_norms_of_clipped_rows_the_noise_would_not_be_enough() -> None:
    found = [searched(spec, ("p0",), without_norms(spec)) for spec in map(clipped, range(8))]
    assert sum(each > 1 for each in found) >= 2


def test_a_stated_norm_beyond_the_bounds_is_that_of_the_bounds() -> None:
    terms = joint_moments(STATED).association
    assert terms is not None
    wide = with_terms(STATED, association=terms.model_copy(update={"public_norm2": "7"}))
    assert claim_of(wide, "a").norms == (RowNorm((0, 1), 2 * 16**2),)
    assert claim_of(wide, "b").norms == ()


def test_streams_and_first_rounds_have_the_claims_of_their_moments() -> None:
    """All that a claim says is in the terms before ranges are known, and the same at every checkpoint."""
    plain = build_spec(TWO_PARTIES, mechanism="moments", grid_bits=16, rows=200)
    spec = ranges_first(plain, range_proofs=True)
    later = after(spec, first_blocks(spec, {party: random_rows(spec, party) for party in TWO_PARTIES}, ZeroNoise()))
    stream = first_spec(plain, of="moments", range_proofs=True, checkpoints=3)
    assert later.left is not None
    assert isinstance(stream.terms, StreamTerms)
    for party in TWO_PARTIES:
        claim_of(spec, party).steps(mechanism_of(spec).matrix(random_rows(spec, party), spec, later))
        assert claim_of(spec, party) == claim_of(later.left, party)
        claim_of(inner(stream, stream.terms, 200), party).steps(
            mechanism_of(stream).matrix(random_rows(stream, party), stream)
        )
    for each in (spec, stream):
        mechanism_of(each).check(each)
        assert NOT_REVIEWED in trust(each)


@pytest.mark.parametrize(
    "spec", [build_spec(EVERY_KIND, mechanism="moments"), clipped(3), STATED], ids=["kinds", "norms", "stated"]
)
def test_sessions_that_prove_them_leave_the_exact_moments(spec: ReleaseSpec) -> None:
    proved = with_terms(spec, range_proofs=True)
    schedule = schedule_of(proved)
    assert schedule.claims == claims_of(spec)
    assert not schedule_of(spec).claims
    tables = {party: random_rows(spec, party) for party in schedule.parties}
    if spec is STATED:  # 1/4 is as long as both numbers at 1/3
        tables["a"] = replace(tables["a"], codes=tables["a"].codes // 3)
    found = summed(
        proved, [block.values for block in compute(proved, tables, dict.fromkeys(tables, ZeroNoise())).blocks.values()]
    )
    assert found[0].tolist() == entries(proved, exact_gram(proved, tables))
    if spec is STATED:
        with pytest.raises(InvalidInput, match="too large a norm"):
            compute(proved, {**tables, "a": random_rows(spec, "a")}, dict.fromkeys(tables, ZeroNoise()))


# What a spec and a request may say.


def test_the_key_is_left_out_of_canonical_bytes_where_nothing_is_proved() -> None:
    spec = build_spec(mechanism="moments")
    assert b"range_proofs" not in spec.to_bytes()
    assert b'"range_proofs":true' in with_terms(spec, range_proofs=True).to_bytes()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (build_spec({"a": (numeric("x"),)}, mechanism="moments"), "one hospital alone"),
        (with_terms(build_spec(mechanism="moments"), modulus=None), "modulo 2\\^64"),
    ],
)
def test_a_claim_that_cannot_be_made_is_refused(spec: ReleaseSpec, why: str) -> None:
    mechanism_of(spec).check(spec)
    with pytest.raises(SpecRefused, match=f"range_proofs: .*{why}"):
        mechanism_of(spec).check(with_terms(spec, range_proofs=True))
    with pytest.raises(InvalidInput, match="range_proofs: one hospital"):
        ranges_first(build_spec({"a": (numeric("x"),)}, mechanism="moments", grid_bits=16), range_proofs=True)


def test_sums_of_a_row_that_wrap_have_no_claim() -> None:
    spec = clipped(0)
    (party, claim), *_ = ((party, each) for party, each in claims_of(spec).items() if each.norms)
    terms = joint_moments(spec)
    assert unproved(spec.columns_by_party, terms, BITS) is None
    assert terms.clipping is not None
    far = terms.clipping.model_copy(
        update={"norms": tuple(norm.model_copy(update={"squared": 1 << 61}) for norm in terms.clipping.norms)}
    )
    refused = unproved(spec.columns_by_party, terms.model_copy(update={"clipping": far}), BITS)
    assert refused is not None
    assert f"a row of {party} could wrap" in refused
    assert claim.norms


@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_the_option_is_auto_or_a_boolean(value: object) -> None:
    with pytest.raises(Mistakes, match='write "auto", true or false'):
        read_options("moments", {"range_proofs": value})


@pytest.mark.parametrize(("curious", "power"), [(1, "2^-52.4"), (3, "2^-50.8")])
def test_the_error_of_a_session_is_that_of_all_its_proofs_or_comparisons(curious: int, power: str) -> None:
    p = 2**61 - 1
    x = Fraction(2 * p - 1, p**2)
    proof, comparison = 1 - (1 - x) ** 3, x + Fraction(1, p)
    error = proof_error(curious)
    assert 64 * curious * max(proof, comparison) < error
    assert power_of_two(error) == power
    assert float(error) < 2 ** float(power.removeprefix("2^")) < 1.08 * float(error)


def wanted(parties: int, **options: object) -> tuple[bool, str]:
    """Whether a request of so many hospitals gets proofs, and what its plan says."""
    columns = {f"p{place}": (numeric(f"x{place}"),) for place in range(parties)}
    spec = build_spec(columns, mechanism="moments", grid_bits=16)
    facts = {name: getattr(spec, name) for name in ("roster", "rows", "rows_per_subject", "alignment")}
    draft = Draft(columns, Catalogue(party="p0", columns=columns["p0"], **facts), spec.target, 16, bytes)
    found = mechanism_named("moments").propose(read_options("moments", options), draft)
    return joint_moments(spec.model_copy(update={"terms": found.terms})).range_proofs, found.explanation


def test_requests_get_proofs_where_a_claim_can_be_made() -> None:
    proved, said = wanted(3)
    assert proved
    assert "3 range proofs are made: each hospital proves to one other" in said
    assert wanted(3, range_proofs=True)[0]
    proved, said = wanted(3, range_proofs=False)
    assert not proved
    assert "No range proofs are made; the key range_proofs" in said
    assert wanted(1) == (False, wanted(1, range_proofs=False)[1])


def test_a_person_decides_where_proofs_are_left_out() -> None:
    def reasons(spec: ReleaseSpec) -> tuple[str, ...]:
        return mechanism_of(spec).review_reasons(spec, "b", named=True)

    (doubt, counted) = reasons(STATED)
    assert doubt.startswith("there are no range proofs")
    assert "counts on a" in counted
    proved = with_terms(STATED, range_proofs=True)
    assert reasons(proved) == ()
    assert not any("counts on" in each for each in trust(proved))
    assert "3 range proofs" in " ".join(mechanism_of(proved).statements(proved).details)
