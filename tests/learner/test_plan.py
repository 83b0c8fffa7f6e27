"""`learner plan`, as anybody types it: no hub, no trust, no release."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dprelease.document.text import text
from dprelease.mechanisms.assumptions import chosen, evenly
from dprelease.planning.comparison import compare
from dprelease.spec_base import Target
from learner.cli.main import main
from tests.support.plans import planned

USUAL = ("--rows", "20000", "--parties", "3,4,2", "--epsilon", "1", "--delta", "1e-6")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def test_the_plan_is_that_of_the_core() -> None:
    outcome, features = chosen(evenly("3,4,2"), None, "5")
    target = Target(scope="joint", epsilon=1.0, delta=1e-6)
    expected = compare(planned(20_000, "3,4,2", target, "mixed", outcome, features), ("mixed", "moments"), (0.3,))
    asked = (*USUAL, "--features", 5, "--signal", 0.3, "--mechanism", "moments", "--mechanism", "mixed")
    shown = run(*asked)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == f"{text(expected.document())}\n"
    assert json.loads(run(*asked, "--json").stdout) == json.loads(json.dumps(expected.document().to_json()))


def test_every_option_counts() -> None:
    quick = (*USUAL, "--signal", 0.9, "--mechanism", "mixed", "--mechanism", "moments", "--json")
    plain = json.loads(run(*quick).stdout)
    for option in (
        ("--scope", "per-party"),
        ("--rows-per-subject", 2),
        ("--k", 500),
        ("--collusion-threshold", 2),
        ("--spread", 0.1),
        ("--signal", 0.2),
        ("--features", 3),
        ("--weight", "x1=2"),
        ("--outcomes", 3),
    ):
        other = run(*quick, *option)
        assert other.exit_code == 0, other.output
        assert json.loads(other.stdout) != plain, option


def test_the_guide_for_the_office_shows_what_it_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide_office.md").read_text(encoding="utf-8")
    ((command, shown),) = re.findall(r"^\$ learner plan (.*)\n\.\.\.\n((?:.+\n)+?)\.\.\.$", page, re.M)
    assert shown in run(*command.split()).stdout


def test_a_plot(tmp_path: Path) -> None:
    path = tmp_path / "plan.png"
    assert run(*USUAL, "--signal", 0.5, "--mechanism", "moments", "--plot", path).exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_weight_for_the_outcome_is_advised() -> None:
    arguments = ("--rows", "200000", "--parties", "3,3,3", "--epsilon", "1", "--delta", "1e-6", "--signal", "0.3")
    shown, found = run(*arguments), json.loads(run(*arguments, "--json").stdout)
    assert found["recommended_weight"] == json.loads(run(*arguments, "--weight", "x9=5", "--json").stdout).get(
        "recommended_weight"
    )
    assert found["recommended_weight"]["weight"] > 1
    assert f"weights = {{ x9 = {found['recommended_weight']['weight']} }} the error of this fit" in shown.stdout
    assert json.loads(run(*arguments, "--mechanism", "moments", "--json").stdout)["recommended_weight"] is None
    given = run(*arguments, "--weight", "x1=2", "--weight", "x9=3")
    assert "scope joint, weight of x1 2, weight of x9 3" in given.stdout


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
        (("--k", "20001"), "k must lie between 1 and n = 20,000"),
        (("--collusion-threshold", "3"), "collusion_threshold must lie between 1 and 2"),
        (("--weight", "x1"), "'x1' is not a column and its weight, such as glucose=2"),
        (("--weight", "x1=two"), "'x1=two' is not a column and its weight"),
        (("--weight", "x1=0"), "weights.x1: must be at least 1, not 0"),
        (("--weight", "x10=2"), "no such column to weigh: x10"),
        (("--outcomes", "9"), "a fit needs an outcome"),
    ],
)
def test_a_plan_that_makes_no_sense(changed: tuple[str, str], message: str) -> None:
    result = run(*USUAL, *changed)
    assert result.exit_code == 2
    assert message in result.stderr
