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


@pytest.fixture(scope="module")
def plan() -> ProofPlan:
    """By the file alone."""
    said = FILED["claim"]
    claim = Claim(
        tuple(GridInterval(**each) for each in said["columns"]),
        tuple(OneHot(tuple(each["columns"]), each["level"], each["open"]) for each in said["groups"]),
        tuple(RowNorm(tuple(each["columns"]), each["squared"]) for each in said["norms"]),
    )
    return ProofPlan(claim, len(FILED["codes"]), Context("", **FILED["context"]))


def judged(plan: ProofPlan, changes: list[dict[str, Any]]) -> None:
    challenges = tuple(map(bytes.fromhex, FILED["challenges"]))
    decide(plan, bytes.fromhex(FILED["seeds"]["chi"]), challenges, patched(FILED["messages"], changes))


def test_the_file_is_what_its_script_writes() -> None:
    assert (VECTORS / FILE).read_bytes() == to_bytes(), "if the proof was to change: python -m tests.vectors"


def test_the_good_proof_is_accepted(plan: ProofPlan) -> None:
    judged(plan, [])
    assert FILED["must"] == "accept"


@pytest.mark.parametrize("bad", FILED["bad"], ids=lambda bad: str(bad["name"]))
def test_a_bad_proof_is_refused(plan: ProofPlan, bad: dict[str, Any]) -> None:
    assert bad["changes"]
    with pytest.raises(IntegrityError, match=bad["receiver_says"]):
        judged(plan, bad["changes"])
