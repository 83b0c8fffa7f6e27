"""`learner plan`, as anybody types it: no hub, no trust, no release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dprelease.planning.assumptions import Setting, chosen, evenly
from dprelease.planning.comparison import compare
from dprelease.spec_base import Target
from learner.cli.main import main

USUAL = ("--rows", "20000", "--parties", "3,4,2", "--epsilon", "1", "--delta", "1e-6")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def test_the_plan_is_that_of_the_core() -> None:
    parties = evenly("3,4,2")
    outcome, features = chosen(parties, None, "5")
    target = Target(scope="joint", epsilon=1.0, delta=1e-6)
    expected = compare(Setting(20_000, parties, target, "mixed", outcome, features), ("mixed", "moments"), (0.3,))
    asked = (*USUAL, "--features", 5, "--signal", 0.3, "--mechanism", "moments", "--mechanism", "mixed")
    shown = run(*asked)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == expected.lines()
    assert json.loads(run(*asked, "--json").stdout) == expected.to_json()


def test_every_option_counts() -> None:
    quick = (*USUAL, "--signal", 0.9, "--mechanism", "mixed", "--mechanism", "moments", "--json")
    plain = json.loads(run(*quick).stdout)
    for option in (
        ("--scope", "per-party"),
        ("--rows-per-subject", 2),
        ("--k", 500),
        ("--curious", 2),
        ("--spread", 0.1),
        ("--signal", 0.2),
        ("--features", 3),
        ("--weight", "x1=2"),
        ("--outcomes", 3),
    ):
        other = run(*quick, *option)
        assert other.exit_code == 0, other.output
        assert json.loads(other.stdout) != plain, option


def test_a_plot(tmp_path: Path) -> None:
    path = tmp_path / "plan.png"
    assert run(*USUAL, "--signal", 0.5, "--mechanism", "moments", "--plot", path).exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--parties", "three"), "3,4,2 stands for three parties"),
        (("--parties", "1"), "at least one other column"),
        (("--features", "9"), "8 columns besides x9"),
        (("--epsilon", "-1"), "epsilon"),
        (("--delta", "2"), "delta"),
        (("--signal", "0"), "share of variance"),
        (("--spread", "2"), "spread"),
        (("--k", "20001"), "k must lie between 1 and n = 20000"),
        (("--curious", "3"), "curious must lie between 1 and 2"),
    ],
)
def test_a_plan_that_makes_no_sense(changed: tuple[str, str], message: str) -> None:
    result = run(*USUAL, *changed)
    assert result.exit_code == 2
    assert message in result.stderr
