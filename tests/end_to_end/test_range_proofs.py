"""What a hospital with altered software may try against the others, through real processes: no release, or other numbers only.

Source: docs/range_proofs.md 8 and 9.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from audit import audit
from demo.consortium import Consortium, wait_for
from dprelease.errors import ProofRefused
from dprelease.mpc.session import MOST_REFUSED
from dprelease.wire.boundary import row_for
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose
from tests.support.forked import ForkedConsortium

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.slow,
]  # without processes, `tests/dprelease/mpc/test_proofs.py` tries them

NAMES, ALTERED = ("clinic", "ward", "lab"), "lab"
ROWS = 300
BOUNDS = "the proof that masked columns lie in their bounds failed"
SAME = "a hospital showed different columns to different hospitals"
MATRIX, STEPS = "party_node.computation.sessions:Computation._matrix", "unchecked@dprelease.mpc.proof.claim:Claim.steps"
EXCHANGE, DEALER = "dprelease.mpc.exchange", "dprelease.mpc.schedule"

REFUSED: dict[str, tuple[str, ...]] = {
    "a cell of 2^40": (BOUNDS, f"outlier@{EXCHANGE}:masked"),
    "a cell that is neither 0 nor a level": (BOUNDS, f"between@{EXCHANGE}:masked"),
    "a bit that is not that of its column": (BOUNDS, "flip@dprelease.mpc.proof.claim:Claim.bits"),
    "a category without a level": (BOUNDS, f"no-level@{MATRIX}", STEPS),
    "a category with two": (BOUNDS, f"two-levels@{MATRIX}", STEPS),
    "numbers that are too long together": (BOUNDS, f"corner@{MATRIX}", STEPS),
    "other columns to another receiver": (SAME, *(f"two-faced@{EXCHANGE}:Exchange.{each}" for each in ("mask", "prover"))),
    "a wrong answer as a dealer": (BOUNDS, f"shift@{DEALER}:DealtSeeds.answer"),
    "another seed dealt than answered about": (BOUNDS, f"first-seed@{DEALER}:deal"),
    "another seed dealt than compared": (SAME, f"second-seed@{DEALER}:deal"),
}  # fmt: skip
NUMBERS = {
    "the same patient in every row": "constant@dprelease.mechanisms.moments.privatize:coded",
    "a wrong correction as a dealer": f"other-word@{DEALER}:deal",
    "a wrong half of a product": f"more@{EXCHANGE}:share",
    "a wrong block": "more@dprelease.mechanisms.moments.privatize:exact_share",
    "no noise of its own": "silence@dprelease.mechanisms.moments.privatize:drawn",
}


@dataclass(frozen=True)
class Honest:
    """Three hospitals whose ranges are published, and what an honest release of moments leaves after them.

    Attributes:
        at: their processes.
        files: it adds these, named without its digest.
    """

    at: Consortium
    files: set[str]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Honest]:
    with ForkedConsortium(tmp_path_factory.mktemp("proofs") / "consortium") as consortium:
        found(consortium, hospitals(), epsilon=1000.0, delta=0.1)
        assert released(consortium, "ranges")[1] == "PUBLISHED"
        before = files(consortium)
        release, state = released(consortium, "moments")
        assert state == "PUBLISHED"
        wait_for(lambda: not sessions(consortium), 30, "the session to be erased")
        yield Honest(consortium, files(consortium, release) - before)
        assert audit(consortium.folder) == []


def hospitals() -> list[Hospital]:
    """Their columns have a binary, a category, and two numbers whose rows are clipped together."""
    random = np.random.default_rng(12)
    numbers = [[*map(float, each)] for each in random.normal(50, 5, (4, ROWS))]
    smoker, blood = random.choice(["yes", "no"], ROWS).tolist(), random.choice(["A", "B", "0"], ROWS).tolist()
    columns = {
        "weight": numeric(0, 100),
        "height": numeric(0, 100),
        "blood": 'kind = "categorical"\nlevels = ["A", "B"]',
    }
    return [
        Hospital(
            "clinic",
            {"smoker": 'kind = "categorical"\nlevels = ["yes"]', "age": numeric(0, 100)},
            {"smoker": smoker, "age": numbers[0]},
            policy="",
        ),
        Hospital("ward", {"pressure": numeric(0, 100)}, {"pressure": numbers[1]}, policy=""),
        Hospital(ALTERED, columns, {"weight": numbers[2], "height": numbers[3], "blood": blood}, policy=""),
    ]


def released(consortium: Consortium, mechanism: str) -> tuple[str, str]:
    """A release that people approve; its digest, and its state at the end."""
    release = propose(consortium, hospitals(), mechanism=mechanism, epsilon=8.0, delta=1e-5)
    for name in NAMES:
        consortium.approve(release, name)
    return release, final_state(consortium, release)


def files(consortium: Consortium, release: str = "-") -> set[str]:
    """All files at hospitals and hub, but those that a database makes and removes at will."""
    folders = [*map(consortium.hospital, NAMES), consortium.hub]
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    names = {str(path.relative_to(consortium.folder)).replace(release, "RELEASE") for path in paths}
    return {name for name in names if not name.endswith(("-wal", "-shm", "-journal"))}


def sessions(consortium: Consortium) -> list[Path]:
    return [path for name in NAMES for path in (consortium.hospital(name) / "state" / "joint").glob("*")]


def altered(consortium: Consortium, *faults: str) -> None:
    consortium.halt(ALTERED)
    consortium.restart(ALTERED, launcher=("-m", "tests.support.faulty", *faults, "--"))


@pytest.mark.parametrize("how", REFUSED)
def test_a_deviation_that_is_seen_ends_the_release(honest: Honest, how: str) -> None:
    """Nobody made a block, so nobody can read anything; and nobody says who it was."""
    (reason, *faults), consortium = REFUSED[how], honest.at
    altered(consortium, *faults)
    logs = [consortium.log(name) for name in NAMES if name != ALTERED]
    begun = [len(log.read_bytes()) for log in logs]
    release, state = released(consortium, "moments")
    assert state == "FAILED"
    shown = json.loads(consortium.run("coordinator", "release", "show", release, "--json", home=consortium.office))
    assert "withdrew after approving" in shown["explanation"]
    assert row_for(ProofRefused("")).sentence in consortium.log("coordinator").read_text()
    assert not (consortium.hub / "storage" / "published" / release).exists()
    for name in NAMES:
        assert not [*(consortium.hospital(name) / "state" / "sealed").glob(f"{release}*")]

    def said() -> list[str]:
        text = "".join(log.read_text()[start:] for log, start in zip(logs, begun, strict=True))
        return [line for line in text.splitlines() if "is declined" in line]

    wait_for(lambda: bool(said()), 30, "a hospital to say why; the office hears of it before")
    end = (
        f"{reason} in {MOST_REFUSED} rounds. Nobody can tell whose software is at fault; docs/faults.md says what to do"
    )
    assert {line.partition(" is declined: ")[2] for line in said()} == {end}


@pytest.mark.parametrize("how", NUMBERS)
def test_a_deviation_that_nobody_sees_alters_numbers_only(honest: Honest, how: str) -> None:
    """Whatever columns and numbers it takes, they keep their bounds: what is released, and all that is left, is as ever."""
    consortium = honest.at
    altered(consortium, NUMBERS[how])
    before = files(consortium)
    release, state = released(consortium, "moments")
    assert state == "PUBLISHED"
    wait_for(lambda: not sessions(consortium), 30, "the session to be erased")
    assert files(consortium, release) - before == honest.files
