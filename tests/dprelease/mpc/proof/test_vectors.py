"""docs/vectors/range-proofs.json: the good proof is accepted, each bad one refused, and the file is what its script writes."""

import json
from typing import Any

import pytest

from dprelease.errors import IntegrityError
from dprelease.mpc.encryption import Context
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm
from dprelease.mpc.proof.plan import ProofPlan
from tests.proof_vectors import FILE, decide, patched, to_bytes
from tests.vectors import VECTORS

FILED = json.loads((VECTORS / FILE).read_text())
EXAMPLES = {"first": FILED, "second": FILED["second"]}


def judged(example: dict[str, Any], changes: list[dict[str, Any]]) -> None:
    """By the file alone."""
    said = example["claim"]
    claim = Claim(
        tuple(GridInterval(**each) for each in said["columns"]),
        tuple(OneHot(tuple(each["columns"]), each["level"], each["open"]) for each in said["groups"]),
        tuple(RowNorm(tuple(each["columns"]), each["squared"]) for each in said["norms"]),
    )
    plan = ProofPlan(claim, len(example["codes"]), Context("", **example["context"]))
    challenges = tuple(map(bytes.fromhex, example["challenges"]))
    decide(plan, bytes.fromhex(example["seeds"]["chi"]), challenges, patched(example["messages"], changes))


def test_the_file_is_what_its_script_writes() -> None:
    assert (VECTORS / FILE).read_bytes() == to_bytes(), "if the proof was to change: python -m tests.vectors"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_good_proof_is_accepted(name: str) -> None:
    judged(EXAMPLES[name], [])
    assert EXAMPLES[name]["must"] == "accept"


@pytest.mark.parametrize(
    ("name", "bad"),
    [pytest.param(name, bad, id=bad["name"]) for name, example in EXAMPLES.items() for bad in example["bad"]],
)
def test_a_bad_proof_is_refused(name: str, bad: dict[str, Any]) -> None:
    assert bad["changes"]
    with pytest.raises(IntegrityError, match=bad["receiver_says"]):
        judged(EXAMPLES[name], bad["changes"])
