"""The proof of docs/vectors/range-proofs.json, and what a receiver must refuse in its place: `python -m tests.vectors` writes it.

All randomness follows from fixed seeds, so that every run writes the same bytes.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dprelease.arrays import Integers
from dprelease.mpc.modulus import FIELD, P
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm
from dprelease.mpc.proof.parts import RangeProver, RangeVerifier, encoded_answer, residuals
from dprelease.mpc.proof.plan import ProofPlan
from dprelease.mpc.proof.sweeps import coefficients
from dprelease.mpc.ring import Words
from tests.support.range_proofs import CONTEXT, plan_of, verifier_sums

FILE = "range-proofs.json"
MASK, SEED, CHI, C1, C2, C3 = (bytes([each] * 32) for each in range(0x31, 0x37))
G = 16
NUMBER, BINARY, LEVEL = GridInterval(-G, G), GridInterval(-G, G, 2 * G), GridInterval(0, G, G)

Changes = Mapping[tuple[int, int], int]
SAME: Changes = {}
Told = tuple[bytes, bytes, bytes]
TOLD: Told = C1, C2, C3
Messages = dict[str, bytes]
"""All that comes to the receiver of a proof, by kind, decrypted and whole."""


@dataclass(frozen=True)
class Example:
    """An honest prover's plan and codes, and what others send: cells, and steps that bits say, by (row, column or number)."""

    plan: ProofPlan
    codes: Integers

    def masks(self, first: int, rows: int) -> Words:
        return FIELD.read(MASK, first, rows, self.plan.width)

    def messages(self, cells: Changes = SAME, steps: Changes = SAME, told: Told = TOLD) -> Messages:
        """A prover's, and those of a dealer that was told these challenges."""
        codes, said = self.codes.copy(), np.stack(self.plan.claim.steps(self.codes), 1)
        for changed, to in ((codes, cells), (said, steps)):
            for place, value in to.items():
                changed[place] = value
        bits = self.plan.claim.packed([*said.T], self.plan.unit)
        prover = RangeProver(self.plan, codes, self.masks, SEED, CHI, bits)
        return {
            "columns": FIELD.encode([prover.masked_columns(0, self.plan.rows)]),
            "bits": self.plan.encode_bits(prover.masked_bits(0, self.plan.rows)),
            "matrices": prover.first(C1),
            "lines": prover.second(C1, C2),
            "answer": encoded_answer(self.plan, self.masks, SEED, told),
        }


SMALL = Example(
    plan_of(Claim((NUMBER, NUMBER, LEVEL, LEVEL), (OneHot((2, 3), G, open=True),), (RowNorm((1,), 200),)), 3),
    np.array([[-16, 14, 0, 16], [16, -14, 16, 0], [3, 0, 0, 0]]),
)
LONG = Example(
    plan_of(
        Claim(
            (NUMBER, NUMBER, NUMBER, BINARY, LEVEL, LEVEL, LEVEL),
            (OneHot((4, 5, 6), G),),
            (RowNorm((0, 1), 400), RowNorm((2,), 100)),
        ),
        33,
    ),
    np.array([[row % 14, -row % 14, row % 11, (-G, G)[row % 2], *np.roll([G, 0, 0], row)] for row in range(33)]),
)
"""Rows of two lines, bits of two units with a number across both, two norms and a category that is not open."""
PLAN, GOOD, LONG_GOOD = SMALL.plan, SMALL.messages(), LONG.messages()


def decide(plan: ProofPlan, chi: bytes, challenges: tuple[bytes, ...], said: Mapping[str, bytes]) -> None:
    """Raises unless a receiver accepts."""
    (columns,) = plan.field.decode(said["columns"], ((plan.rows, plan.width),), "masked columns")
    bits = plan.decode_bits(said["bits"], plan.rows)
    asked = RangeVerifier(plan, chi, challenges, (said["matrices"], said["lines"]))
    asked.check(said["answer"], [(columns, bits)])


def _off(said: Messages) -> tuple[int, int, int]:
    """How far each equation is from holding."""
    challenges = PLAN.challenges((C1, C2, C3))
    columns, *_ = FIELD.decode(said["columns"], ((PLAN.rows, PLAN.width),), "")
    g, scalars = FIELD.decode(said["answer"], PLAN.answer_shapes, "")
    *matrices, lines = (
        *FIELD.decode(said["matrices"], PLAN.matrix_shapes, ""),
        *FIELD.decode(said["lines"], (PLAN.line_shape,), ""),
    )
    own = verifier_sums(PLAN, challenges, PLAN.chi(CHI), g, [(columns, PLAN.decode_bits(said["bits"], PLAN.rows))])
    return residuals(PLAN, challenges, (tuple(matrices), lines), own, scalars)


def _added(data: bytes, more: int, word: int = 0, modulo: int = P) -> bytes:
    words = [*np.frombuffer(data, "<u8").tolist()]
    words[word] = (words[word] + more) % modulo
    return np.array(words, "<u8").tobytes()


Fault = Callable[[], Messages]
BAD: dict[str, tuple[Fault, str]] = {}
"""Name to what a receiver gets, and a part of what ours says."""
_EQUATIONS = "the proof that masked columns lie in their bounds failed"


def _refused(says: str) -> Callable[[Fault], Fault]:
    def register(fault: Fault) -> Fault:
        BAD[fault.__name__.strip("_").replace("_", "-")] = (fault, says)
        return fault

    return register


@_refused(_EQUATIONS)
def cell_of_2_to_the_40() -> Messages:
    """A cell is 2^40; the bits say 3. It would show a row of the receiver."""
    return SMALL.messages({(2, 0): 1 << 40})


@_refused(_EQUATIONS)
def one_step_beyond() -> Messages:
    """A cell is 17, and its bits say 16."""
    return SMALL.messages({(1, 0): G + 1})


@_refused(_EQUATIONS)
def other_bits() -> Messages:
    """A cell is 4, in its bounds, and its bits say 3."""
    return SMALL.messages({(2, 0): 4})


@_refused(_EQUATIONS)
def two_levels() -> Messages:
    """A row has both levels of the category, and bits say so."""
    return SMALL.messages({(0, 2): G}, {(0, 2): 1})


@_refused(_EQUATIONS)
def half_a_level() -> Messages:
    """Two levels are 8, neither 0 nor 16. They add up to 16, and the bits say 0 and 16."""
    return SMALL.messages({(0, 2): G // 2, (0, 3): G // 2})


@_refused(_EQUATIONS)
def norm_too_long() -> Messages:
    """A number is 15, in its bounds, its square 225 above the norm's 200, and the slack 0."""
    return SMALL.messages({(0, 1): 15}, {(0, 1): 31, (0, 5): 0})


@_refused(_EQUATIONS)
def first_equation_mended() -> Messages:
    """A cell is 2^40, and the prover's share of M makes equation (1) hold. Equation (2) does not."""
    said = cell_of_2_to_the_40()
    weight = int(coefficients(PLAN, PLAN.combination(C1)).diagonal[0])
    return {**said, "matrices": _added(said["matrices"], -_off(said)[0] * pow(weight, -1, P))}


@_refused(_EQUATIONS)
def second_equation_mended() -> Messages:
    """The same, and the prover's share of T makes equation (2) hold. Equation (3) does not."""
    said = first_equation_mended()
    return {**said, "lines": _added(said["lines"], _off(said)[1])}


@_refused(_EQUATIONS)
def bit_flipped() -> Messages:
    """One bit of u is another one."""
    return _flipped(GOOD, 0, 1)


def _flipped(good: Messages, byte: int, mask: int) -> Messages:
    bits = bytearray(good["bits"])
    bits[byte] ^= mask
    return {**good, "bits": bytes(bits)}


@_refused(_EQUATIONS)
def answer_to_another_challenge() -> Messages:
    """The dealer was told another third challenge."""
    return SMALL.messages(told=(C1, C2, bytes(32)))


@_refused(_EQUATIONS)
def answer_altered() -> Messages:
    """The first element of g is larger by 1."""
    return {**GOOD, "answer": _added(GOOD["answer"], 1)}


@_refused(_EQUATIONS)
def scalar_altered() -> Messages:
    """The last of the dealer's three elements is larger by 1."""
    return {**GOOD, "answer": _added(GOOD["answer"], 1, -1)}


def _of_another_form() -> None:
    """A word that is no element, a message that is a word longer, and one that is shorter, of each kind."""

    def register(kind: str, name: str, wrong: str, change: Callable[[bytes], bytes], says: str) -> None:
        def fault() -> Messages:
            return {**GOOD, kind: change(GOOD[kind])}

        fault.__name__, fault.__doc__ = f"{kind}_{name}", f"{wrong} of `{kind}`."
        _refused(says)(fault)

    for kind in GOOD:
        if kind != "bits":
            beyond: Callable[[bytes], bytes] = lambda data: _added(data, P, modulo=1 << 64)  # noqa: E731
            register(kind, "word_beyond", "2^61 - 1 is added to the first word", beyond, "no element")
        word = 4 * PLAN.units if kind == "bits" else 8
        register(
            kind,
            "longer",
            "A word of zeros is behind the last one",
            lambda data, word=word: data + bytes(word),
            "bytes",
        )  # type: ignore[misc]
        register(kind, "shorter", "The last word is missing", lambda data, word=word: data[:-word], "bytes")  # type: ignore[misc]


_of_another_form()

BAD_LONG: dict[str, tuple[Messages, str]] = {
    "last-row-beyond": (LONG.messages({(32, 0): G + 1}), "The cell of the last row is 17."),
    "binary-that-is-neither": (LONG.messages({(31, 3): 0}), "A binary is 0, neither -16 nor 16."),
    "no-level": (LONG.messages({(3, 4): 0}, {(3, 4): 0}), "A row has no level of the category, and bits say so."),
    "second-norm-too-long": (
        LONG.messages({(32, 2): 11}, {(32, 2): G + 11, (32, 8): 0}),
        "A number is 11, its square 121 above the second norm's 100, and the slack 0.",
    ),
    "answer-to-another-first-challenge": (
        LONG.messages(told=(C2, C2, C3)),
        "The dealer was told another first challenge.",
    ),
    "answer-to-another-second-challenge": (
        LONG.messages(told=(C1, C1, C3)),
        "The dealer was told another second challenge.",
    ),
    "unused-bit": (_flipped(LONG_GOOD, -1, 128), "The last bit of the last row is another one. No number has it."),
    **{
        f"{kind}-altered": (
            {**LONG_GOOD, kind: _added(LONG_GOOD[kind], 1)},
            f"The first word of `{kind}` is larger by 1.",
        )
        for kind in ("matrices", "lines")
    },
}


def _alike(one: bytes, other: bytes) -> int:
    """With how many equal bytes both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def patches(good: Messages, bad: Messages) -> list[dict[str, Any]]:
    """How messages differ from the good ones: the bytes in the place of so many from an offset on."""
    found = []
    for kind, old in good.items():
        new = bad[kind]
        if new != old:
            start = _alike(old, new)
            end = _alike(old[start:][::-1], new[start:][::-1])
            removed, put = old[start : len(old) - end], new[start : len(new) - end]
            found.append({"kind": kind, "offset": start, "removed": len(removed), "put": put.hex()})
    return found


def patched(good: Mapping[str, str], changes: list[dict[str, Any]]) -> Messages:
    """The messages of a bad proof."""
    made = {kind: bytes.fromhex(data) for kind, data in good.items()}
    for each in changes:
        data, at = made[each["kind"]], each["offset"]
        made[each["kind"]] = data[:at] + bytes.fromhex(each["put"]) + data[at + each["removed"] :]
    return made


def listed(example: Example, bad: Mapping[str, tuple[Messages, str, str]]) -> dict[str, Any]:
    """An example, with the good messages and bad ones: what is wrong with each, and what a receiver says."""
    claim, first, good = example.plan.claim, example.plan.combination(C1), example.messages()
    return {
        "context": {name: getattr(CONTEXT, name) for name in ("task", "session", "sender", "receiver", "dealer")},
        "claim": {
            "columns": [{"lower": each.lower, "upper": each.upper, "step": each.step} for each in claim.columns],
            "groups": [{"columns": each.columns, "level": each.level, "open": each.open} for each in claim.groups],
            "norms": [{"columns": each.columns, "squared": each.squared} for each in claim.norms],
        },
        "codes": example.codes.tolist(),
        "seeds": {"mask": MASK.hex(), "s": SEED.hex(), "chi": CHI.hex()},
        "challenges": [C1.hex(), C2.hex(), C3.hex()],
        "alpha": first.alpha(0, example.plan.rows).tolist(),
        "gamma": first.gamma.tolist(),
        "must": "accept",
        "messages": {kind: data.hex() for kind, data in good.items()},
        "bad": [
            {"name": name, "must": "refuse", "wrong": wrong, "receiver_says": says, "changes": patches(good, said)}
            for name, (said, wrong, says) in bad.items()
        ],
    }


def to_bytes() -> bytes:
    """The file."""
    bad = {name: (fault(), " ".join((fault.__doc__ or "").split()), says) for name, (fault, says) in BAD.items()}
    second = listed(LONG, {name: (*each, _EQUATIONS) for name, each in BAD_LONG.items()})
    made = {"page": "docs/range_proofs.md", **listed(SMALL, bad), "second": second}
    return f"{json.dumps(made, indent=1)}\n".encode()
