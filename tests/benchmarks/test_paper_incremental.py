"""What the benchmark of private incremental regression says: its figures of noise, and claims that hold where numbers say so."""

from __future__ import annotations

import math

from benchmarks.common.report import Results
from benchmarks.paper_incremental import __main__ as paper_incremental
from benchmarks.paper_incremental import claims
from benchmarks.paper_incremental.curves import Point, bound_of_regression, rows_of_projection
from benchmarks.paper_primo.claims import NOISES, Claim, table


def made(length: int, width: int, scale: float, *, reg: float = 1.0, erm: float = 2.0) -> Point:
    """Two releases of every method; weights 0 err by 10 times the scale."""
    means = {"trivial": 10.0, "reg1": reg, "reg1 p": 20.0, "erm": erm, "erm p": 15.0, "every": 5.0, "every p": 30.0}
    means |= {"reg2": 3.0, "reg2 p": 25.0, "fw": 9.0, "fw p": 12.0}
    spread = {name: [scale * value * 0.99, scale * value * 1.01] for name, value in means.items()}
    return Point("data", length, width, spread)


def held(found: list[Claim], words: str) -> dict[str, list[bool]]:
    """Verdicts of claims that start with these words, by noise."""
    return {
        noise: [claim.holds for claim in found if claim.noise == noise and claim.words.startswith(words)]
        for noise in NOISES
    }


def test_figures_of_noise_reach_what_they_are_to_reach() -> None:
    results = Results()
    paper_incremental._known(results)
    assert [figure.holds for figure in results.figures if figure.reach is not None] == [True, True, True]
    rows = {row["T"]: row for row in map(paper_incremental._errors, (12, 1000))}
    assert round(rows[1000]["normalised, worst"], 3) == 3.073
    assert round(rows[12]["tree, root mean square"], 3) == 2.708


def test_claims_of_privacy_are_computed() -> None:
    found = claims.of_privacy(((10, 100), 4.0))
    assert held(found, "TreeMech")["paper's"] == [False, False, True]
    assert held(found, "TreeMech")["corrected"] == [True, True, True]
    assert held(found, "Reg1 keeps")["paper's"] == [False, True, True]
    assert held(found, "PrivIncERM keeps") == {"paper's": [True], "corrected": [True]}
    assert held(found, "Reg2 need not") == {"paper's": [False], "corrected": [False]}


def test_claims_of_excess_risk_follow_the_numbers() -> None:
    points = [made(1 << k, 10, 1.1 ** (k - 8)) for k in (8, 10, 12)]
    found = claims.of_lengths(points)
    assert held(found, "Reg1 errs less than PrivIncERM") == {"paper's": [False] * 3, "corrected": [True] * 3}
    assert held(found, "Reg1 errs less than weights 0") == {"paper's": [False], "corrected": [True]}
    assert held(found, "PrivIncERM errs less than a fit") == {"paper's": [True] * 3, "corrected": [True] * 3}
    assert held(found, "Reg1's excess risk grows like a power of log") == {"paper's": [True], "corrected": [True]}
    steep = claims.of_lengths([made(1 << k, 10, 2.0 ** (k - 8)) for k in (8, 10, 12)])
    assert held(steep, "Reg1's excess risk grows like a power of log") == {"paper's": [False], "corrected": [False]}
    idle = [claim.idle for claim in found if claim.words.startswith("PrivIncERM errs less than a fit")]
    assert idle == [True] * 3 + [False] * 3
    grown = claims.of_widths([made(4096, width, width**0.5) for width in (2, 8, 32)])
    assert held(grown, "Reg1") == {"paper's": [True], "corrected": [True]}
    assert held(grown, "PrivIncERM") == {"paper's": [False], "corrected": [False]}
    projected = claims.of_projections([made(4096, 25, 1.0), made(4096, 200, 1.0)], made(4096, 40, 1.0), 5)
    assert held(projected, "Reg2 errs less than Reg1")["corrected"] == [False, False]
    assert held(projected, "Reg2 errs more than Reg1")["corrected"] == [True]
    assert held(projected, "the m of algorithm 3") == {"paper's": [False], "corrected": [False]}
    lines = table([*found, *projected])
    assert len(lines) == 2 + len({(claim.words, claim.data) for claim in (*found, *projected)})


def test_bounds_of_the_theorems() -> None:
    logarithm = math.log(1000) ** 1.5 * math.sqrt(math.log(1e5))
    assert math.isclose(bound_of_regression(1000, 4, 2.0), 4 * logarithm * (2 + math.sqrt(math.log(20_000))))
    assert rows_of_projection(4096, 200, 5) > 5000 > 200
