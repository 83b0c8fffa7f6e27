"""The proof of docs/vectors/range-proofs.json, and what a receiver must refuse in its place: `python -m tests.vectors` writes it.

All randomness follows from fixed seeds, so that every run writes the same bytes.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dprelease.mpc.modulus import FIELD, P
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm
from dprelease.mpc.proof.dealer import encoded_answer
from dprelease.mpc.proof.plan import ProofPlan
from dprelease.mpc.proof.prover import RangeProver
from dprelease.mpc.proof.sweeps import coefficients
from dprelease.mpc.proof.verifier import RangeVerifier, residuals
from tests.support.range_proofs import CONTEXT, Liar, plan_of, verifier_sums

FILE = "range-proofs.json"
MASK, SEED, CHI, C1, C2, C3 = (bytes([each] * 32) for each in range(0x31, 0x37))
G = 16
CLAIM = Claim(
    (GridInterval(-G, G), GridInterval(-G, G), GridInterval(0, G, G), GridInterval(0, G, G)),
    (OneHot((2, 3), G, open=True),),
    (RowNorm((1,), 200),),
)
CODES = np.array([[-16, 14, 0, 16], [16, -14, 16, 0], [3, 0, 0, 0]])
PLAN = plan_of(CLAIM, len(CODES))

Messages = dict[str, bytes]
"""All that comes to the receiver of a proof, by kind, decrypted and whole."""


def _masks(first: int, rows: int) -> Any:
    return FIELD.read(MASK, first, rows, PLAN.width)


def messages(codes: Any = CODES, said: Any = None, third: bytes = C3) -> Messages:
    """A prover's and a dealer's; `said` are the steps that a liar's bits say, `third` what the dealer takes for c3."""
    prover = (RangeProver if said is None else Liar)(PLAN, codes, _masks, SEED, CHI)
    if isinstance(prover, Liar):
        prover.said = said
    return {
        "columns": FIELD.encode([prover.masked_columns(0, PLAN.rows)]),
        "bits": PLAN.encode_bits(prover.masked_bits(0, PLAN.rows)),
        "matrices": prover.first(C1),
        "lines": prover.second(C1, C2),
        "answer": encoded_answer(PLAN, _masks, SEED, (C1, C2, third)),
    }


GOOD = messages()


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
    return _cell(2, 0, 1 << 40)


@_refused(_EQUATIONS)
def one_step_beyond() -> Messages:
    """A cell is 17, and its bits say 16."""
    return _cell(1, 0, G + 1)


@_refused(_EQUATIONS)
def other_bits() -> Messages:
    """A cell is 4, in its bounds, and its bits say 3."""
    return _cell(2, 0, 4)


def _cell(row: int, column: int, value: int) -> Messages:
    codes = CODES.copy()
    codes[row, column] = value
    return messages(codes, CLAIM.steps(CODES))


@_refused(_EQUATIONS)
def two_levels() -> Messages:
    """A row has both levels of the category, and bits say so."""
    codes, steps = CODES.copy(), CLAIM.steps(CODES)
    codes[0, 2], steps[2] = G, np.array([1, 1, 0])
    return messages(codes, steps)


@_refused(_EQUATIONS)
def half_a_level() -> Messages:
    """Two levels are 8, neither 0 nor 16. They add up to 16, and the bits say 0 and 16."""
    codes = CODES.copy()
    codes[0, 2:] = G // 2
    return messages(codes, CLAIM.steps(CODES))


@_refused(_EQUATIONS)
def norm_too_long() -> Messages:
    """A number is 15, in its bounds, its square 225 above the norm's 200, and the slack 0."""
    codes, steps = CODES.copy(), CLAIM.steps(CODES)
    codes[0, 1], steps[1], steps[-1] = 15, np.array([31, 2, 16]), np.array([0, 4, 200])
    return messages(codes, steps)


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
    return {**GOOD, "bits": bytes([GOOD["bits"][0] ^ 1]) + GOOD["bits"][1:]}


@_refused(_EQUATIONS)
def answer_to_another_challenge() -> Messages:
    """The dealer was told another third challenge."""
    return messages(third=bytes(32))


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


def _alike(one: bytes, other: bytes) -> int:
    """With how many equal bytes both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def patches(bad: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """How messages differ from the good ones: the bytes in the place of so many from an offset on."""
    found = []
    for kind, old in GOOD.items():
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


def to_bytes() -> bytes:
    """The file."""
    first = PLAN.combination(C1)
    listed = {
        "page": "docs/range_proofs.md",
        "context": {name: getattr(CONTEXT, name) for name in ("task", "session", "sender", "receiver", "dealer")},
        "claim": {
            "columns": [{"lower": each.lower, "upper": each.upper, "step": each.step} for each in CLAIM.columns],
            "groups": [{"columns": each.columns, "level": each.level, "open": each.open} for each in CLAIM.groups],
            "norms": [{"columns": each.columns, "squared": each.squared} for each in CLAIM.norms],
        },
        "codes": CODES.tolist(),
        "seeds": {"mask": MASK.hex(), "s": SEED.hex(), "chi": CHI.hex()},
        "challenges": [C1.hex(), C2.hex(), C3.hex()],
        "alpha": first.alpha(0, PLAN.rows).tolist(),
        "gamma": first.gamma.tolist(),
        "must": "accept",
        "messages": {kind: data.hex() for kind, data in GOOD.items()},
        "bad": [
            {
                "name": name,
                "must": "refuse",
                "wrong": " ".join((fault.__doc__ or "").split()),
                "receiver_says": says,
                "changes": patches(fault()),
            }
            for name, (fault, says) in BAD.items()
        ],
    }
    return f"{json.dumps(listed, indent=1)}\n".encode()
