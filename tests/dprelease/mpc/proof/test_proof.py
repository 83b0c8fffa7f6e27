"""Proofs of ranges in the large field: honest ones always pass, and every deviation is refused."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.arrays import Integers
from dprelease.errors import Conflict, IntegrityError, InvalidInput
from dprelease.mpc.modulus import FIELD, Field, P
from dprelease.mpc.proof import plan as plans
from dprelease.mpc.proof import sweeps
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm
from dprelease.mpc.proof.parts import RangeProver, RangeVerifier, dealer_answer, encoded_answer, residuals
from dprelease.mpc.proof.plan import Challenges, ProofPlan
from dprelease.mpc.proof.sweeps import Side, coefficients, line_products, matrices, of_matrices
from dprelease.mpc.ring import Words
from tests.support.range_proofs import CONTEXT, Proof, fixed, plan_of, three, verifier_sums

G = 16
NUMBER, BINARY, LEVEL = GridInterval(-G, G), GridInterval(-G, G, 2 * G), GridInterval(0, G, G)
REFUSED = "the proof that masked columns lie in their bounds failed"

CLAIMS = {
    "numbers": Claim((NUMBER,) * 4),
    "one binary": Claim((BINARY,)),
    "a constant": Claim((GridInterval(G, G),)),
    "a category": Claim((LEVEL,) * 3, (OneHot((0, 1, 2), G),)),
    "an open category": Claim((LEVEL,) * 2, (OneHot((0, 1), G, open=True),)),
    "all": Claim(
        (NUMBER, GridInterval(-3, 40), BINARY, LEVEL, LEVEL, LEVEL, NUMBER),
        (OneHot((3, 4), G), OneHot((5,), G, open=True)),
        (RowNorm((0, 1), 3 * G * G), RowNorm((6,), G * G - 7)),
    ),
}


def rows_of(claim: Claim, rows: int, salt: int = 0) -> Integers:
    """Rows that fulfil a claim, by trial for norms; the first ones lie at the bounds."""
    rng = np.random.default_rng(salt)
    found = np.stack([rng.integers(0, each.span + 1, rows) * each.step + each.lower for each in claim.columns], axis=1)
    if rows > 2 and not claim.norms:
        found[0], found[1] = [each.lower for each in claim.columns], [each.upper for each in claim.columns]
    for group in claim.groups:
        chosen = rng.integers(0, len(group.columns) + group.open, rows)
        for at, place in enumerate(group.columns):
            found[:, place] = np.where(chosen == at, group.level, 0)
    for norm in claim.norms:
        places = list(norm.columns)
        while (long := (found[:, places] ** 2).sum(axis=1) > norm.squared).any():
            found[np.ix_(long, places)] //= 2
    return found


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(sweeps, "COUNTED_ROWS", 128)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("rows", [1, 2, 33, 63, 64, 65, 129])
@pytest.mark.parametrize("name", CLAIMS)
def test_honest_columns_are_accepted(name: str, rows: int) -> None:
    """Chunks are of 64 rows here, those of the first step of 128; R gets its pieces in other sizes."""
    plan = plan_of(CLAIMS[name], rows)
    assert plan.chunk_rows == 64
    proof = Proof(plan, rows_of(plan.claim, rows, rows))
    asked = proof.ask()
    answer = proof.answer(three(asked))
    asked.check(answer, proof.pieces())
    asked.check(answer, proof.pieces(50))
    asked.check(answer, proof.pieces(131))


@pytest.mark.parametrize("p", [3, 5, 7, 11])
def test_honest_columns_are_accepted_in_every_field(p: int) -> None:
    """Many proofs each, so that challenges take every value."""
    claim = Claim((GridInterval(0, 1),), (), (RowNorm((0,), 1),)) if p == 3 else Claim((GridInterval(-1, 1),))
    for salt in range(30):
        rows = 1 + salt % 4
        plan = plan_of(claim, rows, Field(p), unit=1 + salt % 3, line=1 + salt % 2)
        Proof(plan, rows_of(claim, rows, salt), salt=salt).run()


def test_bits_are_sent_as_the_plan_says() -> None:
    plan = plan_of(CLAIMS["all"], 300)
    proof = Proof(plan, rows_of(plan.claim, 300))
    sent = b"".join(map(plan.encode_bits, proof.prover.bits(plan.chunks())))
    assert len(sent) == plan.row_bytes * 300
    assert np.array_equal(plan.decode_bits(sent, 300), next(proof.pieces())[1])
    for bad in (sent[:-1], sent + bytes(4), b""):
        with pytest.raises(IntegrityError, match="bytes"):
            plan.decode_bits(bad, 300)
    assert len(proof.prover.first(bytes(32))) == 8 * (plan.units * 32 * 32 + 2 * 2 + 1)
    assert len(proof.prover.second(bytes(32), bytes(32))) == 8 * 33 * 33
    assert len(proof.answer((bytes(32),) * 3)) == 8 * (10 * plan.entries + 3)


def test_sizes_and_errors_that_the_page_names() -> None:
    page = (Path(__file__).parents[4] / "docs" / "range_proofs.md").read_text()
    plan = plan_of(Claim((GridInterval(-1024, 1024),) * 30), 10**6)
    assert plan.row_bytes * plan.rows == 48_000_000
    sizes = [8 * sum(math.prod(shape) for shape in shapes) for shapes in (plan.matrix_shapes, [plan.line_shape])]
    sizes.append(8 * sum(math.prod(shape) for shape in plan.answer_shapes))
    assert [f"{size:,}" in page for size in sizes] == [True] * 3
    zero = (2 * P - 1) / P**2
    one = -math.log2(1 - (1 - Fraction(2 * P - 1, P**2)) ** 3)
    assert 3 * zero <= 6 / P
    assert f"2^-{one:.1f}" in page


def refused(proof: Proof) -> None:
    with pytest.raises(IntegrityError, match=REFUSED):
        proof.run()


@pytest.mark.parametrize("value", [G + 1, -G - 1, 1 << 40, -(1 << 40), 1 << 60, 0x7FFF])
@pytest.mark.parametrize(("said", "row"), [(-G, 0), (0, 64), (G, 99)])
def test_one_number_beyond_its_bounds(value: int, said: int, row: int) -> None:
    claim = CLAIMS["numbers"]
    honest = rows_of(claim, 100)
    honest[row, 2] = said
    cheated = honest.copy()
    cheated[row, 2] = value
    refused(Proof(plan_of(claim, 100), cheated, claim.steps(honest)))


@pytest.mark.parametrize("value", [0, 1, G - 1, 1 - G, 2 * G])
@pytest.mark.parametrize("said", [-G, G])
def test_a_binary_that_is_neither(value: int, said: int) -> None:
    claim = CLAIMS["one binary"]
    refused(Proof(plan_of(claim, 1), np.array([[value]]), claim.steps(np.array([[said]]))))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_number_in_bounds_that_is_one_step_off_its_bits(change: int) -> None:
    claim = CLAIMS["numbers"]
    honest = np.zeros((70, 4), np.int64)
    cheated = honest.copy()
    cheated[69, 3] = change
    refused(Proof(plan_of(claim, 70), cheated, claim.steps(honest)))


@pytest.mark.parametrize("row", [[0, 0, 0], [1, 1, 0], [1, 1, 1]])
def test_a_category_without_a_level_or_with_two(row: list[int]) -> None:
    claim = CLAIMS["a category"]
    steps = [np.array([each]) for each in row]
    refused(Proof(plan_of(claim, 1), G * np.array([row]), steps))


@pytest.mark.parametrize("hidden", [0, 1])
def test_an_open_category_with_two_levels(hidden: int) -> None:
    claim = CLAIMS["an open category"]
    refused(Proof(plan_of(claim, 1), np.array([[G, G]]), [np.array([1]), np.array([1]), np.array([hidden])]))


def test_a_norm_exceeded_by_one_with_any_slack() -> None:
    claim = Claim((GridInterval(-4, 4),) * 2, (), (RowNorm((0, 1), 16),))
    for slack in range(17):
        refused(Proof(plan_of(claim, 1), np.array([[4, 1]]), [np.array([8]), np.array([5]), np.array([slack])]))
    with pytest.raises(InvalidInput, match="too large a norm"):
        Proof(plan_of(claim, 1), np.array([[4, 1]])).run()


def test_every_row_of_a_patient_is_proved() -> None:
    """A patient with several rows has each of them in bounds: nothing names patients, and the last row counts as the first."""
    claim = CLAIMS["all"]
    honest = rows_of(claim, 130)
    for row in range(0, 130, 43):
        cheated = honest.copy()
        cheated[row, 0] = G + 1
        refused(Proof(plan_of(claim, 130), cheated, claim.steps(honest)))


class Cheat(Proof):
    """A number is at 2^40; the prover mends what it can."""

    def __init__(self) -> None:
        claim = CLAIMS["numbers"]
        honest = rows_of(claim, 70)
        cheated = honest.copy()
        cheated[3, 1] += 1 << 40
        super().__init__(plan_of(claim, 70), cheated, claim.steps(honest))
        self.challenges = self.plan.challenges((bytes([1] * 32), bytes([2] * 32), bytes([3] * 32)))
        self.chi_elements, self.psi = (self.plan.chi(bytes([each] * 32)) for each in (4, 5))
        bits, masks = self.prover.masked_bits, self.prover._masks
        self.sides = Side(bits, self.prover.masked_columns), Side(masks, self.masks)
        self.matrices = matrices(self.plan, self.challenges[0], *self.sides)

    def answer(self) -> tuple[Words, Words]:
        """D's, whose shares are 0 here."""
        nothing = tuple(np.zeros(shape, np.uint64) for shape in self.plan.matrix_shapes)
        share = plans.Lines(np.zeros(self.plan.line_shape, np.uint64), self.psi)
        return dealer_answer(self.plan, self.challenges, self.sides[1], nothing, share)

    def off(self) -> int:
        """By how much equation (1) fails on true matrices."""
        return residuals(self.plan, self.challenges, (self.matrices, self.lines()), self.own(), self.answer()[1])[0]

    def lines(self) -> Words:
        return line_products(
            self.plan, self.challenges[0], self.challenges[1], (self.chi_elements, self.psi), self.sides
        )

    def own(self) -> tuple[int, int]:
        return verifier_sums(self.plan, self.challenges, self.chi_elements, self.answer()[0], self.pieces())

    def result(self, made: tuple[Words, ...], lines: Words) -> list[bool]:
        """Which of the three equations hold."""
        found = residuals(self.plan, self.challenges, (made, lines), self.own(), self.answer()[1])
        return [each == 0 for each in found]

    def mended_first(self, along: int = 0) -> Words:
        """M with an error that mends equation (1), times -1/off of its coefficient; `along` is the other place it may use."""
        field, made = self.plan.field, self.matrices[0].copy()
        weight = int(coefficients(self.plan, self.challenges[0]).diagonal[0])
        error = -self.off() * pow(weight, -1, field.p) % field.p
        made[0, 0, 0] = (int(made[0, 0, 0]) + error) % field.p
        if along:  # keeps sigma' M tau as it was, for whoever knows c2: an entry that equation (1) does not read
            left, right = self.challenges[1].left[0][0], self.challenges[1].right[0][0]
            ratio = int(left[0]) * int(right[0]) * pow(int(left[0]) * int(right[along]), -1, field.p)
            made[0, 0, along] = (int(made[0, 0, along]) - error * ratio) % field.p
        return made

    def mended_lines(self) -> tuple[Words, int]:
        """T with an error on its diagonal that mends equation (2), and how far (3) is off then."""
        field, lines = self.plan.field, self.lines()
        made = self.mended_first()
        own = self.own()
        off = residuals(self.plan, self.challenges, ((made,), lines), own, self.answer()[1])[1]
        lines[0, 0] = (int(lines[0, 0]) + off) % field.p
        return lines, residuals(self.plan, self.challenges, ((made,), lines), own, self.answer()[1])[2]


def test_whoever_mends_an_equation_fails_the_next_one() -> None:
    """So a verifier that skips one of the three accepts 2^40: each is needed."""
    cheat = Cheat()
    assert cheat.result(cheat.matrices, cheat.lines()) == [False, True, True]
    assert cheat.result((cheat.mended_first(),), cheat.lines()) == [True, False, True]
    lines, _ = cheat.mended_lines()
    assert cheat.result((cheat.mended_first(),), lines) == [True, True, False]


def test_a_second_challenge_that_is_known_early_lets_a_cheat_pass() -> None:
    """Hence it is fresh for each proof, and drawn after M has come."""
    cheat = Cheat()
    assert cheat.result((cheat.mended_first(along=1),), cheat.lines()) == [True, True, True]


def test_blinding_that_is_chosen_late_lets_a_cheat_pass() -> None:
    """Hence its seed is in the commitment, and `RangeVerifier.begin` asks for it before a challenge is drawn."""
    cheat = Cheat()
    p, made = cheat.plan.field.p, (cheat.mended_first(),)
    lines, off = cheat.mended_lines()
    g = cheat.answer()[0]
    chi = cheat.chi_elements(0, cheat.plan.lines).copy()
    chi[0] = (int(chi[0]) + off * pow(int(g[0]), -1, p)) % p
    cheat.chi_elements = fixed(chi)
    assert cheat.result(made, lines) == [True, True, True]


def test_challenges_are_drawn_one_after_the_other_and_afresh() -> None:
    plan = plan_of(CLAIMS["numbers"], 3)
    proof = Proof(plan, rows_of(plan.claim, 3))
    begun = RangeVerifier.begin(plan, proof.chi)
    asked = begun.take(proof.prover.first(begun.challenges[0]))
    done = asked.take(proof.prover.second(*asked.challenges))
    others = RangeVerifier.begin(plan, proof.chi).take(done.messages[0])
    assert len({*done.challenges, *others.challenges}) == 5
    assert done.messages[0] == asked.messages[0]
    with pytest.raises(Conflict, match="three challenges, once"):
        done.take(done.messages[1])
    with pytest.raises(Conflict, match="after three challenges"):
        asked.check(b"", proof.pieces())
    restored = RangeVerifier(plan, proof.chi, done.challenges, done.messages)  # as from disk
    restored.check(proof.answer(three(restored)), proof.pieces())
    for seeds, messages in (((), ()), (done.challenges, done.messages[:1]), ((b"short",), ())):
        with pytest.raises(InvalidInput, match="one challenge more"):
            RangeVerifier(plan, proof.chi, seeds, messages)
    with pytest.raises(IntegrityError, match="seed of 32 bytes"):
        RangeVerifier.begin(plan, b"short")


@pytest.fixture
def made() -> tuple[Proof, RangeVerifier, bytes]:
    plan = plan_of(CLAIMS["all"], 70)
    proof = Proof(plan, rows_of(plan.claim, 70))
    asked = proof.ask()
    return proof, asked, proof.answer(three(asked))


def beyond(data: bytes, place: int, more: int = P) -> bytes:
    """The same element, as a word that is not below p."""
    words = np.frombuffer(data, "<u8").copy()
    words[place] += np.uint64(more)
    return words.tobytes()


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("more", [P, 5 * P])
def test_words_that_are_no_elements_are_refused_everywhere(
    made: tuple[Proof, RangeVerifier, bytes], place: int, more: int
) -> None:
    proof, asked, answer = made
    first, second = asked.messages
    begun = RangeVerifier.begin(proof.plan, proof.chi)
    with pytest.raises(IntegrityError, match="no element"):
        begun.take(beyond(first, place, more))
    with pytest.raises(IntegrityError, match="no element"):
        begun.take(first).take(beyond(second, place, more))
    with pytest.raises(IntegrityError, match="no element"):
        asked.check(beyond(answer, place, more), proof.pieces())
    ((columns, bits),) = proof.pieces()
    columns[place, place] += np.uint64(more)
    with pytest.raises(IntegrityError, match="no element"):
        asked.check(answer, [(columns, bits)])


def test_surplus_and_missing_rows_are_refused(made: tuple[Proof, RangeVerifier, bytes]) -> None:
    proof, asked, answer = made
    ((columns, bits),) = proof.pieces()
    for pieces in (
        [(columns, bits), (columns[:1], bits[:1])],
        [(columns[:-1], bits[:-1])],
        [(np.tile(columns, (40, 1)), np.tile(bits, (40, 1)))],
        [(columns[:, :-1], bits)],
        [(columns, bits[:, :-1])],
        [(columns, bits[:-1])],
        [(columns, np.tile(bits, (2, 1)))],
        [],
    ):
        with pytest.raises(IntegrityError, match=r"another shape|the same rows"):
            asked.check(answer, pieces)


def test_every_cell_and_every_bit_counts() -> None:
    """One step in any column of any row, and any bit of any unit, also those that no number has."""
    plan = plan_of(CLAIMS["all"], 3)
    proof = Proof(plan, rows_of(plan.claim, 3))
    asked = proof.ask()
    answer = proof.answer(three(asked))
    ((columns, bits),) = proof.pieces()
    for row, place in np.ndindex(columns.shape):
        moved = columns.copy()
        moved[row, place] = (int(moved[row, place]) + 1) % P
        with pytest.raises(IntegrityError, match=REFUSED):
            asked.check(answer, [(moved, bits)])
    for row, unit, bit in np.ndindex(*bits.shape, 32):
        flipped = bits.copy()
        flipped[row, unit] ^= np.uint32(1 << bit)
        with pytest.raises(IntegrityError, match=REFUSED):
            asked.check(answer, [(columns, flipped)])
    asked.check(answer, [(columns, bits)])


def test_a_second_answer_would_show_the_dealers_side() -> None:
    """Two third challenges that differ in one place, by one: the difference is <tau, e> of single rows, hence their bits."""
    cheat = Cheat()
    first, second, third = cheat.challenges
    moved = third.right.copy()
    moved[5] = (int(moved[5]) + 1) % FIELD.p
    one = cheat.answer()[0]
    cheat.challenges = (first, second, plans.Fold(third.left, moved))
    shown = FIELD.subtract(cheat.answer()[0], one).reshape(-1, cheat.plan.entries)
    entries = sweeps.RowEntries(cheat.plan, second.right)(cheat.sides[1], 0, 70)
    assert shown[0].tolist() == entries[:, 5].tolist()
    assert shown[1].tolist() == entries[:, 37].tolist()


def test_two_challenges_are_answered_under_independent_shares() -> None:
    """So whoever gets two answers of P, or tells P and D different challenges, holds no difference of true matrices."""
    plan = plan_of(CLAIMS["numbers"], 4)
    seed, c = bytes([9] * 32), [bytes([each] * 32) for each in range(3)]
    one, other = (plan.matrix_share(seed, each)[0] for each in c[:2])
    assert not np.any(one == other)
    lines = [plan.lines_share(seed, *each) for each in ((c[0], c[1]), (c[0], c[2]), (c[2], c[1]))]
    assert not any(np.any(lines[i].share == lines[j].share) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert not any(np.any(lines[i].psi(0, 8) == lines[j].psi(0, 8)) for i, j in ((0, 1), (0, 2), (1, 2)))
    again = plan.lines_share(seed, c[0], c[1])
    assert np.array_equal(again.share, lines[0].share)


def test_shares_and_blinding_are_each_receivers_own_and_bits_one_for_all() -> None:
    claim, codes = CLAIMS["numbers"], rows_of(CLAIMS["numbers"], 4)
    made = []
    for receiver in ("south", "west"):
        context = type(CONTEXT)(**{**vars(CONTEXT), "receiver": receiver})
        plan = ProofPlan(claim, 4, context)
        proof = Proof(plan, codes)
        bits = next(proof.prover.bits(proof.plan.chunks()))
        made.append((bits, plan.matrix_share(proof.seed, bytes(32))[0], plan.chi(proof.chi)(0, 4)))
    assert np.array_equal(made[0][0], made[1][0])
    assert not np.any(made[0][1] == made[1][1])
    assert not np.any(made[0][2] == made[1][2])


def test_a_prover_with_other_shapes_is_refused() -> None:
    plan = plan_of(CLAIMS["numbers"], 4)
    masks: Callable[[int, int], Words] = lambda first, rows: np.zeros((rows, 4), np.uint64)  # noqa: E731
    codes: npt.NDArray[np.int64] = np.zeros((4, 4), np.int64)
    for shown, seed, chi in ((codes[:3], bytes(32), bytes(32)), (codes, bytes(31), bytes(32)), (codes, bytes(32), b"")):
        with pytest.raises(InvalidInput, match="do not fit"):
            RangeProver(plan, shown, masks, seed, chi, plan.claim.bits(codes))
    with pytest.raises(InvalidInput, match="32 bytes"):
        encoded_answer(plan, masks, b"short", (bytes(32),) * 3)


def test_the_parts_of_the_first_equation_are_what_it_says() -> None:
    """By Python's integers, on rows that break everything: the sum over the claim itself, without a matrix or a share."""
    claim, rows, p = CLAIMS["all"], 5, P
    plan, honest = plan_of(claim, rows), rows_of(CLAIMS["all"], rows)
    codes = honest + np.arange(35).reshape(5, 7) ** 3
    proof = Proof(plan, codes, claim.steps(honest))
    challenges: Challenges = plan.challenges((bytes(32), bytes([1] * 32), bytes([2] * 32)))
    first = challenges[0]
    numbers = [
        each * number.step + number.lower for each, number in zip(claim.steps(honest), claim.numbers, strict=True)
    ]
    total = 0
    for i, alpha in enumerate(first.alpha(0, rows).tolist()):
        q = codes[i].tolist()
        parts = [int(gamma) * (q[c] - int(numbers[c][i])) for c, gamma in enumerate(first.gamma)]
        parts.append(int(first.delta[0]) * (q[3] + q[4] - G))
        parts.append(int(first.delta[1]) * (q[5] + int(numbers[7][i]) - G))
        parts.append(int(first.theta[0]) * (q[0] ** 2 + q[1] ** 2 + int(numbers[8][i]) - 3 * G * G))
        parts.append(int(first.theta[1]) * (q[6] ** 2 + int(numbers[9][i]) - G * G + 7))
        total += alpha * sum(parts)
    sides = Side(proof.prover.masked_bits, proof.prover.masked_columns), Side(proof.prover._masks, proof.masks)
    made = matrices(plan, first, *sides)
    nothing = tuple(np.zeros(shape, np.uint64) for shape in plan.matrix_shapes)
    lines = plans.Lines(np.zeros(plan.line_shape, np.uint64), plan.chi(bytes(32)))
    g, z = dealer_answer(plan, challenges, sides[1], nothing, lines)
    own = verifier_sums(plan, challenges, plan.chi(bytes(32)), g, proof.pieces())
    assert (own[0] + of_matrices(plan, first, made) + int(z[0])) % p == total % p
