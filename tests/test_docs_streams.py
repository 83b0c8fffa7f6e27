"""What docs/format.md says about streams, computed again from its words alone and compared with code and vectors."""

import hashlib
import math

import pytest

from dprelease.mechanisms.stream.factorization import FACTORS, MOST_CHECKPOINTS, FactorName
from dprelease.mechanisms.stream.terms import StreamTerms
from dprelease.release.accounting import check_spec, trust
from tests.support.specs import SEED, build_spec, with_terms
from tests.support.streams import first_spec, following
from tests.test_docs_format import V, sentences

Rows = list[list[int]]


def root(checkpoints: int, fall: int) -> Rows:
    """Rows of the square root by the words of section 18, weighted by d with r_k = (20 k - fall) / (20 k)."""
    values, weights = [1.0], [1.0]
    for k in range(1, checkpoints + 1):
        values.append(values[-1] * ((2 * k - 1) / (2 * k)))
        weights.append(weights[-1] * ((20 * k - fall) / (20 * k)))
    norms = []
    for s in range(1, min(checkpoints, 60) + 1):
        squares = 0.0
        for t in range(s, checkpoints + 1):
            squares += (values[t - s] * weights[t]) * (values[t - s] * weights[t])
        norms.append(math.sqrt(squares))
    return [
        [round(values[t - s] * weights[t] / norms[s - 1] * 4096) for s in range(1, t + 1)]
        for t in range(1, min(checkpoints, 60) + 1)
    ]


def tree(checkpoints: int) -> Rows:
    found = []
    for t in range(1, checkpoints + 1):
        for u in (1 << place for place in range(checkpoints.bit_length()) if t % (1 << place) == 0):
            found.append([0] * (t - u) + [1] * u)
    return found


def printed(text: str) -> tuple[int, Rows]:
    norm, *rows = text.splitlines()
    return int(norm), [[int(each) for each in row.split()] for row in rows]


@pytest.mark.parametrize(
    ("name", "text", "checkpoints", "rows"),
    [
        ("square-root", V["stream-square-root"], 4, root(4, 0)),
        ("weighted", V["stream-weighted"], MOST_CHECKPOINTS, root(MOST_CHECKPOINTS, 9)),
        ("tree", V["stream-tree"], 4, tree(4)),
    ],
)
def test_matrices(name: FactorName, text: str, checkpoints: int, rows: Rows) -> None:
    norm, shown = printed(text)
    factor = FACTORS[name]
    made = [row.tolist() for t in range(1, 61) if t <= checkpoints for row in factor.rows(t, checkpoints)]
    assert made == rows
    assert rows[: len(shown)] == shown
    assert factor.norm2(checkpoints) == norm
    if checkpoints == 4:
        assert norm == max(sum(row[s] ** 2 for row in shown if len(row) > s) for s in range(4))


def test_seeds() -> None:
    spec = first_spec(build_spec(), of="mixed", checkpoints=3)
    assert isinstance(spec.terms, StreamTerms)
    assert hashlib.sha256(SEED + bytes([0] * 7 + [2])).hexdigest() == V["stream-seed"]
    assert spec.terms.of.mixing.seed == SEED.hex()  # type: ignore[attr-defined]


@pytest.mark.parametrize("of", ["mixed", "moments"])
@pytest.mark.parametrize("q", [1, 3])
def test_words(of: str, q: int) -> None:
    plain = build_spec(mechanism=of, rows_per_subject=q)
    plain = with_terms(plain, range_proofs=True) if of == "moments" else plain
    spec = first_spec(plain, of=of, checkpoints=7)
    whom = V["words-stream-whom"].splitlines()[0 if q == 1 else 1].format(q=q)
    for number, each in ((1, spec), (2, following(spec, 10))):
        (said,) = (text.format(t=number, T=7, WHOM=whom) for text in sentences("words-stream"))
        words = check_spec(each).words()
        assert words[-2] == said
        assert words[:-2] == check_spec(spec).words()[:-2]
        assert trust(each) == (*trust(plain), *sentences("trust-stream"))
