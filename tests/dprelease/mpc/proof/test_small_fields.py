"""Everything that anybody can do, in fields of 3 to 11 elements, with the code of the large one.

Units are of one or two bits and lines of one row, so that all errors in M, K and T, all challenges and all masks can be tried.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.arrays import Integers
from dprelease.mpc.encryption import Context
from dprelease.mpc.modulus import Elements, Field
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm
from dprelease.mpc.proof.parts import dealer_answer, residuals
from dprelease.mpc.proof.plan import Challenges, Combination, Directions, Fold, Lines, Matrices, ProofPlan
from dprelease.mpc.proof.same import Coin, Fingerprint
from dprelease.mpc.proof.sweeps import Side, line_products, matrices, of_directions, of_fold, of_matrices, traced
from dprelease.mpc.proofs import Proofs
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import DealtSeeds, Schedule
from tests.support.range_proofs import fixed, plan_of, verifier_sums

BIT = GridInterval(0, 1)


def words(values: npt.ArrayLike) -> Words:
    return np.asarray(values, np.uint64)


def tuples(p: int, size: int) -> Integers:
    """All tuples of so many elements: (p^size, size)."""
    return np.indices((p,) * size).reshape(size, -1).T.astype(np.int64)


def split(values: Integers, shapes: tuple[tuple[int, ...], ...]) -> tuple[Words, ...]:
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    return tuple(words(values[a:b]).reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False))


def firsts(plan: ProofPlan) -> Iterator[Combination]:
    shapes = ((plan.rows,), (plan.width,), (len(plan.claim.groups),), (len(plan.claim.norms),))
    for values in tuples(plan.field.p, sum(shape[0] for shape in shapes)):
        alpha, *others = split(values, shapes)
        yield Combination(fixed(alpha), *others)


def vectors(plan: ProofPlan) -> tuple[tuple[int, ...], ...]:
    return ((plan.units, plan.unit), *((len(norm.columns),) for norm in plan.claim.norms))


def seconds(plan: ProofPlan) -> Iterator[Directions]:
    shapes = vectors(plan)
    for values in tuples(plan.field.p, 2 * sum(int(np.prod(shape)) for shape in shapes)):
        found = split(values, (*shapes, *shapes))
        yield Directions(found[: len(shapes)], found[len(shapes) :])


def thirds(plan: ProofPlan) -> Iterator[Fold]:
    for values in tuples(plan.field.p, 2 * plan.line):
        yield Fold(*split(values, ((plan.line,), (plan.line,))))


@dataclass
class Table:
    """What R and D hold of one session: columns U and A, bits u and a."""

    plan: ProofPlan
    columns: tuple[Words, Words]
    bits: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]
    chi: Words
    psi: Words

    @property
    def sides(self) -> tuple[Side, Side]:
        receiver, dealer = (
            Side(
                lambda first, rows, b=bits: b[first : first + rows],
                lambda first, rows, c=shown: c[first : first + rows],
            )
            for bits, shown in zip(self.bits, self.columns, strict=True)
        )
        return receiver, dealer

    def honest(self, challenges: Challenges) -> tuple[Matrices, Words]:
        """M, K and T."""
        made = matrices(self.plan, challenges[0], *self.sides)
        blindings = fixed(self.chi), fixed(self.psi)
        return made, line_products(self.plan, challenges[0], challenges[1], blindings, self.sides)

    def residuals(self, challenges: Challenges, made: Matrices, lines: Words) -> tuple[int, int, int]:
        """Of R's three equations, D's shares being 0."""
        plan = self.plan
        nothing = tuple(np.zeros(shape, np.uint64) for shape in plan.matrix_shapes)
        share = Lines(np.zeros(plan.line_shape, np.uint64), fixed(self.psi))
        g, z = dealer_answer(plan, challenges, self.sides[1], nothing, share)
        pieces = [(self.columns[0], self.bits[0])]
        return residuals(
            plan, challenges, (made, lines), verifier_sums(plan, challenges, fixed(self.chi), g, pieces), z
        )


def table(plan: ProofPlan, codes: Integers, said: list[Integers], salt: int = 0) -> Table:
    """Columns Q = codes and bits that say something else, under drawn masks."""
    rng, field = np.random.default_rng(salt), plan.field
    masks, chi, psi = (
        rng.integers(0, field.p, size).astype(np.uint64) for size in (codes.shape, plan.lines, plan.lines)
    )
    a = rng.integers(0, 1 << plan.unit, (plan.rows, plan.units)).astype(np.uint32)
    shown = field.add(field.elements(codes), masks)
    return Table(plan, (shown, masks), (plan.claim.packed(said, plan.unit) ^ a, a), chi, psi)


def best(made: Table) -> float:
    """Largest probability that R accepts, over every prover: any E on M and K after c1, and any F on T after c2.

    Residuals are affine in E and F. Their linear parts are read off the verifier's own functions, and held against its
    decision on drawn errors; then all errors and all challenges are gone through.
    """
    plan = made.plan
    p, shapes, side = plan.field.p, plan.matrix_shapes, plan.line + 1
    size = sum(int(np.prod(shape)) for shape in shapes)
    ones = [split(row, shapes) for row in np.eye(size, dtype=np.int64)]
    squares = [words(row).reshape(side, side) for row in np.eye(side * side, dtype=np.int64)]
    errors, more = tuples(p, size), tuples(p, side * side)

    folds = np.array([[of_fold(plan, fold, each) for each in squares] for fold in thirds(plan)])
    passed = np.mean(more @ folds.T % p == 0, axis=1)
    traces = more @ np.array([traced(plan, each) for each in squares]) % p
    third = np.array([passed[traces == value].max() for value in range(p)])  # by how far equation (2) is to be mended

    directions = np.array([[of_directions(plan, each, one) for one in ones] for each in seconds(plan)])
    second = np.mean(third[errors @ directions.T % p], axis=1)

    total, everything = 0.0, list(firsts(plan))
    quiet = next(seconds(plan)), next(thirds(plan))
    for challenge in everything:
        linear = np.array([of_matrices(plan, challenge, one) for one in ones])
        off = made.residuals((challenge, *quiet), *made.honest((challenge, *quiet)))[0]
        total += max(second[(off + errors @ linear) % p == 0], default=0.0)
    return total / len(everything)


def check_linear(made: Table, times: int) -> None:
    """The three residuals of drawn errors under drawn challenges are what `best` takes them for."""
    plan, rng = made.plan, np.random.default_rng(1)
    p, shapes = plan.field.p, plan.matrix_shapes
    drawn = [list(each) for each in (firsts(plan), seconds(plan), thirds(plan))]
    for _ in range(times):
        first, second, third = (each[rng.integers(len(each))] for each in drawn)
        error = split(rng.integers(0, p, sum(int(np.prod(shape)) for shape in shapes)), shapes)
        other = rng.integers(0, p, plan.line_shape).astype(np.uint64)
        true, lines = made.honest((first, second, third))
        off = made.residuals((first, second, third), true, lines)
        assert off[1:] == (0, 0)
        wrong = tuple(plan.field.add(x, e) for x, e in zip(true, error, strict=True))
        found = made.residuals((first, second, third), wrong, plan.field.add(lines, other))
        assert found == (
            (off[0] + of_matrices(plan, first, error)) % p,
            (of_directions(plan, second, error) - traced(plan, other)) % p,
            of_fold(plan, third, other),
        )


NORMED = Claim((BIT,), (), (RowNorm((0,), 0),))
PAIR = Claim((GridInterval(0, 1),) * 2, (OneHot((0, 1), 1),))
CHEATS = [
    ("a number", Claim((BIT,)), 1, 1, [[2]], [[0]], (3, 5, 7)),
    ("a number, by two", Claim((BIT,)), 1, 1, [[3]], [[1]], (5, 7)),
    ("a row of two", Claim((BIT,)), 2, 1, [[0], [2]], [[0], [1]], (3, 5)),
    ("two rows, that cancel", Claim((BIT,)), 2, 1, [[2], [2]], [[1], [0]], (3,)),
    ("a norm", NORMED, 1, 1, [[1]], [[1]], (3, 5)),
    ("two levels", PAIR, 1, 2, [[1, 1]], [[1, 1]], (3,)),
    ("no level", PAIR, 1, 2, [[0, 0]], [[0, 0]], (3,)),
    ("in two units", Claim((GridInterval(0, 1),) * 2), 1, 1, [[0, 2]], [[0, 0]], (3,)),
]


@pytest.mark.parametrize(
    ("claim", "rows", "unit", "codes", "said", "p"),
    [(*rest, p) for _, *rest, primes in CHEATS for p in primes],
    ids=[f"{name}, p = {p}" for name, *_, primes in CHEATS for p in primes],
)
def test_the_best_prover_reaches_exactly_the_bound(
    claim: Claim, rows: int, unit: int, codes: list[list[int]], said: list[list[int]], p: int
) -> None:
    """Three bilinear forms, each zero with (2p - 1)/p^2: 1 - (1 - (2p - 1)/p^2)^3, which is below 6/p.

    A wrong sum of levels whose bits are true cannot be mended where all gamma are 0 and alpha and delta are not: then P has lost.
    """
    plan = plan_of(claim, rows, Field(p), unit, line=1)
    steps = [np.array(column) for column in zip(*said, strict=True)]
    steps += [np.zeros(rows, np.int64)] * (len(claim.numbers) - len(steps))
    made = table(plan, np.array(codes), steps)
    check_linear(made, 20)
    zero = (2 * p - 1) / p**2
    bound = 1 - (1 - zero) ** 3
    lost = p**-2 * (1 - zero) * (1 - (1 - zero) ** 2) if claim.groups else 0
    assert best(made) == pytest.approx(bound - lost, abs=1e-12)
    assert bound < 6 / p


@pytest.mark.parametrize("skipped", range(3))
def test_a_verifier_that_skips_an_equation_is_seen(skipped: int) -> None:
    """Its errors pass with 1, or with what is left of three bilinear forms: the search above would not give the bound."""
    plan = plan_of(Claim((BIT,)), 1, Field(5), 1, 1)
    made = table(plan, np.array([[2]]), [np.array([1])])
    p, challenges = (
        5,
        (
            Combination(fixed(words([2])), words([3]), words([]), words([])),
            Directions((words([[1]]),), (words([[4]]),)),
            Fold(words([2]), words([3])),
        ),
    )
    true, lines = made.honest(challenges)
    weight = of_matrices(plan, challenges[0], (words([[[1]]]),))
    error = 0 if skipped == 0 else -made.residuals(challenges, true, lines)[0] * pow(weight, -1, p) % p
    wrong = (plan.field.add(true[0], words([[[error]]])),)
    mend = words([[0, 0], [0, 0]]) if skipped < 2 else words([[made.residuals(challenges, wrong, lines)[1], 0], [0, 0]])
    found = made.residuals(challenges, wrong, plan.field.add(lines, mend))
    assert [place for place, off in enumerate(found) if off] == [skipped]


# Privacy. The cell is 0 or 1, p = 3, and everything that P and D draw is gone through.


class View:
    """Laws of all that R sees of one row, in its own challenges and in what D was told, over A, a, psi and D's shares."""

    def __init__(self, claim: Claim, cell: int) -> None:
        self.plan, self.cell = plan_of(claim, 1, Field(3), 1, 1), cell
        self.codes = np.full((1, self.plan.width), cell)
        self.plain = claim.bits(self.codes, 1)
        shapes = self.plan.matrix_shapes
        size = sum(int(np.prod(shape)) for shape in shapes)
        self.ones = [split(row, shapes) for row in np.eye(size, dtype=np.int64)]
        self.squares = [words(row).reshape(2, 2) for row in np.eye(4, dtype=np.int64)]
        self.shares, self.share_lines = tuples(3, size)[:, None], tuples(3, 4)[None]

    def table(self, mask: Integers, a: Integers, psi: Integers) -> Table:
        shown, bits = words((self.codes + mask) % 3), a[None].astype(np.uint32)
        return Table(self.plan, (shown, words([mask])), (self.plain ^ bits, bits), words(psi) * 0 + 1, words(psi))

    def law(self, asked: Challenges, told: Challenges, *, bound: bool = True) -> Integers:
        """Every view, as a number, as often as it comes.

        D's shares of M and K, and of T with psi, are those that P used if their challenges agree, and independent ones if not. Then
        P's message is uniform whatever is in it, and is left out. With `bound` false D's shares are P's in any case.
        """
        plan, nothing = self.plan, tuple(np.zeros(shape, np.uint64) for shape in self.plan.matrix_shapes)
        same_first = not bound or same(asked[0], told[0])
        same_second = not bound or (same_first and same(asked[1], told[1]))
        summed = self.shares @ np.array([of_matrices(plan, told[0], one) for one in self.ones])
        turned = self.shares @ np.array([of_directions(plan, told[1], one) for one in self.ones])
        traces = self.share_lines @ np.array([traced(plan, one) for one in self.squares])
        z3 = self.share_lines @ np.array([of_fold(plan, told[2], one) for one in self.squares])
        seen: list[Integers] = []
        drawn = tuples(3, plan.width), tuples(2, plan.units), tuples(3, plan.lines)
        for mask, a, psi in product(*drawn):
            made = self.table(mask, a, psi)
            true, lines = made.honest(asked)
            share = Lines(np.zeros((2, 2), np.uint64), fixed(words(psi)))
            g, z = dealer_answer(plan, told, made.sides[1], nothing, share)
            parts = [*made.columns[0][0], *made.bits[0][0], *g, int(z[0]) + summed, turned - traces, z3]
            if same_first:
                flat = np.concatenate([each.reshape(-1) for each in true]).astype(np.int64)
                parts += [each - self.shares[..., place] for place, each in enumerate(flat)]
            if same_second:
                flat = lines.reshape(-1).astype(np.int64)
                parts += [each - self.share_lines[..., place] for place, each in enumerate(flat)]
            code = np.zeros((self.shares.shape[0], self.share_lines.shape[1]), np.int64)
            for part in parts:
                code = 3 * code + np.asarray(part).astype(np.int64) % 3
            seen.append(code.reshape(-1))
        return np.sort(np.concatenate(seen))


def same(one: Combination | Directions, other: Combination | Directions) -> bool:
    return one is other


VIEWED = {"a number": (Claim((BIT,)), 37, 6), "a norm": (Claim((BIT,), (), (RowNorm((0,), 1),)), 88_411, 1)}
"""One in so many of all challenges is taken, and so many pairs of them. No factor is three: each element takes all its values."""
KINDS = pytest.mark.parametrize(("claim", "every", "pairs"), VIEWED.values(), ids=VIEWED)


def challenged(claim: Claim) -> list[Challenges]:
    plan = plan_of(claim, 1, Field(3), 1, 1)
    return list(product(firsts(plan), seconds(plan), thirds(plan)))


@KINDS
def test_a_receivers_view_has_one_law_for_both_values_of_a_cell(claim: Claim, every: int, pairs: int) -> None:
    """Zero challenges among them, which R may choose as it likes."""
    views = View(claim, 0), View(claim, 1)
    for challenges in challenged(claim)[::every]:
        one, other = (view.law(challenges, challenges) for view in views)
        assert np.array_equal(one, other)
        assert one[0] < one[-1]


@pytest.mark.parametrize("differs", range(3))
@KINDS
def test_other_challenges_told_to_the_dealer_show_nothing(claim: Claim, every: int, pairs: int, differs: int) -> None:
    views, everything = (View(claim, 0), View(claim, 1)), challenged(claim)
    rng = np.random.default_rng(differs)
    for _ in range(pairs):
        asked, other = (everything[each] for each in rng.choice(len(everything), 2, replace=False))
        told = tuple(other[place] if place == differs else asked[place] for place in range(3))
        first, second, third = told
        laws = [view.law(asked, (first, second, third)) for view in views]
        assert np.array_equal(*laws)


@KINDS
def test_shares_that_do_not_depend_on_challenges_would_show_the_cell(claim: Claim, every: int, pairs: int) -> None:
    """The reason to derive them: with one share for all first challenges, the two views differ."""
    views, everything = (View(claim, 0), View(claim, 1)), challenged(claim)
    asked, other = (everything[each] for each in np.random.default_rng(0).choice(len(everything), 2, replace=False))
    laws = [view.law(asked, (other[0], asked[1], asked[2]), bound=False) for view in views]
    assert not np.array_equal(*laws)


def test_a_dealer_that_answers_wrongly_is_accepted_by_chance_alone() -> None:
    """D sends g + delta and moves its scalar as it likes: of all chi one in p accepts, whatever the columns are."""
    plan = plan_of(Claim((BIT,)), 2, Field(3), 1, 1)
    rng = np.random.default_rng(0)
    challenges = (
        Combination(fixed(words([1, 2])), words([1]), words([]), words([])),
        Directions((words([[2]]),), (words([[1]]),)),
        Fold(words([1]), words([2])),
    )
    for codes in product(range(2), repeat=2):
        cells = np.array(codes)[:, None]
        made = table(plan, cells, [cells[:, 0]], int(rng.integers(100)))
        share = Lines(np.zeros((2, 2), np.uint64), fixed(made.psi))
        nothing = tuple(np.zeros(shape, np.uint64) for shape in plan.matrix_shapes)
        g, z = dealer_answer(plan, challenges, made.sides[1], nothing, share)
        accepted = np.zeros((3, 3, 3), np.int64)
        for chi in tuples(3, 2):
            made.chi = words(chi)
            sent = made.honest(challenges)
            for delta, moved in product(tuples(3, 2), range(3)):
                shown, scalars = plan.field.add(g, words(delta)), words([z[0], z[1], (int(z[2]) + moved) % 3])
                own = verifier_sums(plan, challenges, fixed(made.chi), shown, [(made.columns[0], made.bits[0])])
                accepted[(*delta, moved)] += residuals(plan, challenges, sent, own, scalars) == (0, 0, 0)
        assert accepted[0, 0].tolist() == [9, 0, 0]
        accepted[0, 0] = 3
        assert (accepted == 3).all()


# The comparison of what P showed under several masks.


class Told(Field):
    """A field whose streams are written down: (seed, purpose) to elements."""

    def __init__(self, p: int, streams: Mapping[tuple[bytes, str], Integers]) -> None:
        super().__init__(p)
        self.streams = streams

    def uniform(self, seed: bytes, context: Context) -> Elements:
        return fixed(words(self.streams[seed, context.purpose]))


def coin_of(p: int, rows: npt.ArrayLike, columns: npt.ArrayLike, dealers: npt.ArrayLike) -> Coin:
    drawn = {"rows": rows, "columns": columns, "dealers": dealers}
    streams = {(b"", f"same, {purpose}"): np.array(found) for purpose, found in drawn.items()}
    return Coin(b"", Told(p, streams), np.size(columns), Context("", "", "", "", "", ""))


def fingerprint(coin: Coin, matrix: Integers) -> int:
    same = Fingerprint(coin)
    assert sum(len(chunk) for chunk in same.through([words(row[None]) for row in matrix])) == len(matrix)
    return same.value


@pytest.mark.parametrize(
    ("p", "rows", "width", "dealers"),
    [
        (3, 1, 1, "bc"),
        (5, 1, 1, "bc"),
        (7, 1, 1, "bc"),
        (3, 2, 2, "bc"),
        (3, 1, 1, "bcd"),
        (5, 1, 1, "bcd"),
        (3, 1, 2, "bcd"),
    ],
)
def test_the_best_pair_of_different_columns_passes_with_exactly_the_bound(
    p: int, rows: int, width: int, dealers: str
) -> None:
    """Every difference, every coin: x + (1 - x)/p, x = (2p - 1)/p^2, below 3/p. The last Q may be 0, as weights add up to 0."""
    size = rows * width
    ones = np.eye(size, dtype=np.int64).reshape(-1, rows, width)
    rho = [coin_of(p, drawn[:rows], drawn[rows:], []) for drawn in tuples(p, rows + width)]
    prints = np.array([[fingerprint(coin, one) for one in ones] for coin in rho]) @ tuples(p, size).T % p
    drawn = [coin_of(p, [], [], c).weights(tuple(dealers)) for c in tuples(p, len(dealers) - 1)]
    assert all(sum(weights.values()) % p == 0 for weights in drawn)
    passed = np.zeros(p ** (size * (len(dealers) - 1)))
    for row, weights in product(prints, drawn):
        total = np.zeros((), np.int64)
        for dealer in dealers[:-1]:
            total = np.add.outer(total, weights[dealer] * row)
        passed += (total % p == 0).reshape(-1) / len(prints) / len(drawn)
    zero = (2 * p - 1) / p**2
    assert passed[0] == pytest.approx(1)
    assert passed[1:].max() == pytest.approx(zero + (1 - zero) / p, abs=1e-12)
    assert passed[1:].max() < 3 / p


FOUR, STREAMS = "abcd", dict[tuple[bytes, str], Integers]()
AROUND = Schedule("", dict.fromkeys(FOUR, 1), 1, 1, 1, True, Told(3, STREAMS), dict.fromkeys(FOUR, Claim((BIT,))))
TOSSED = [(1, 1, 0), (1, 1, 1), (2, 1, 2), (0, 1, 1), (1, 0, 0)]
"""Coins about one cell: rho, and c of all dealers but the last."""


@cache
def printed(told: int, value: int) -> bytes:
    """Fingerprint of one element under a coin, as a party keeps it."""
    return fingerprint(coin_of(3, [TOSSED[told][0]], [1], []), np.array([[value]])).to_bytes(8, "little")


@cache
def said(party: str, told: int, shown: int, dealt: int, peer: str = "", mask: int = 0) -> int:
    """Part of the sum about the one cell of a that a party signs, by the code of a session.

    Args:
        party: b, c or d.
        told: place in `TOSSED` of the coin that it saw.
        shown: what it holds of a: the cell under another's mask.
        dealt: the mask that it dealt.
        peer: with whom it has a mask that cancels; those with others are 0.
        mask: this one.
    """
    seed = bytes([told]) * 32
    STREAMS[seed, "same, dealers"] = np.array(TOSSED[told][1:])
    STREAMS.update({(each.encode(), f"same, masks {seed.hex()}"): np.array([mask * (each == peer)]) for each in FOUR})
    stored = {"coin+a": seed, "shown+a": printed(told, shown), "dealt+a": printed(told, dealt)}
    at: Any = SimpleNamespace(schedule=AROUND, session="")
    at.find = lambda _, sender: SimpleNamespace(payload=seed.hex()) if sender == AROUND.tosser("a") else None
    at.context = lambda purpose, _: Context(purpose, "", "", "", "", "")
    storage = SimpleNamespace(messages=lambda: (), read_private=stored.get)
    exchange: Any = SimpleNamespace(at=at, party=party, storage=storage)
    return Proofs(exchange, "", {}, DealtSeeds(), {each: each.encode() for each in FOUR})._part("a")


def shown_to(party: str, cell: int, dealt: Mapping[str, int]) -> int:
    """The cell of a that a party holds, given the dealers' masks."""
    return (cell + dealt[AROUND.dealer_of("a", party)]) % 3


def law(altered: str, cell: int, told: tuple[int, int], *, bound: bool = True) -> Integers:
    """Counts of all that an altered party sees of a's cell: what it receives, and the parts of the two others.

    Gone through are the masks that these dealt, and theirs for one another: one for each coin, or for all if `bound` is false.
    """
    one, other = (party for party in "bcd" if party != altered)
    counts = np.zeros((3,) * 3, np.int64)
    for first, second, *masks in product(range(3), repeat=4 if bound and told[0] != told[1] else 3):
        dealt = {altered: 1, one: first, other: second}
        part = said(one, told[0], shown_to(one, cell, dealt), first, other, masks[0])
        rest = said(other, told[1], shown_to(other, cell, dealt), second, one, masks[-1])
        counts[shown_to(altered, cell, dealt), part, rest] += 1
    return counts


@pytest.mark.parametrize("altered", "bcd")
def test_a_comparison_has_one_law_for_both_values_of_a_cell(altered: str) -> None:
    """The two others saw one coin, or different coins."""
    for told in product(range(len(TOSSED)), repeat=2):
        assert np.array_equal(law(altered, 0, told), law(altered, 1, told))


def test_masks_that_do_not_depend_on_coins_would_show_the_cell() -> None:
    assert not np.array_equal(law("d", 0, (0, 1), bound=False), law("d", 1, (0, 1), bound=False))


def test_parts_about_columns_that_are_the_same_add_up_to_nothing() -> None:
    for told, cell, masks in product(range(len(TOSSED)), range(2), product(range(3), repeat=3)):
        dealt = dict(zip("bcd", masks, strict=True))
        assert sum(said(party, told, shown_to(party, cell, dealt), dealt[party]) for party in dealt) % 3 == 0
