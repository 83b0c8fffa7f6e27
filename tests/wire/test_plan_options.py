"""The guesses of `plan`: the same options in every role, with the same defaults."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from coordinator.cli.plan import plan as office_plan
from dprelease.cli.plan_options import compared, with_guesses
from dprelease.data.column import EVEN_SPREAD
from dprelease.errors import InvalidInput
from dprelease.mechanisms import registry
from dprelease.planning.comparison import SIGNALS, compare
from dprelease.spec_base import Target
from learner.cli.plan import plan as learner_plan
from tests.support.plans import planned

SETTING = planned(2000, "1,1", Target(scope="joint", epsilon=1.0, delta=1e-6), "mixed")


def given(*arguments: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    @click.command()
    @with_guesses
    def command(**values: Any) -> None:
        seen.update(values)

    assert CliRunner().invoke(command, list(arguments)).exit_code == 0
    return seen


def test_what_a_command_receives() -> None:
    assert given() == {"mechanisms": (), "signals": (), "spread": EVEN_SPREAD, "plot": None}
    asked = given("--signal", "0.1", "--signal", "0.2", "--mechanism", "rows", "--spread", "0.05", "--plot", "a.png")
    assert asked == {"mechanisms": ("rows",), "signals": (0.1, 0.2), "spread": 0.05, "plot": Path("a.png")}


def test_both_roles_explain_them_alike() -> None:
    names = ("mechanisms", "signals", "spread", "plot")
    office, learner = (
        {
            option.name: option.get_help_record(click.Context(command))
            for option in command.params
            if option.name in names
        }
        for command in (office_plan, learner_plan)
    )
    assert office == learner
    assert tuple(office) == names


def test_everything_is_compared_unless_something_is_asked_for(tmp_path: Path) -> None:
    assert compared(SETTING, (), (), None) == compare(SETTING, registry.names(), SIGNALS)
    plot = tmp_path / "plan.png"
    found = compared(SETTING, ("moments",), (0.3,), plot)
    assert [(cell.mechanism, cell.forecast.signal) for cell in found.cells] == [
        ("moments", 0.3),
        ("moments in ranges", 0.3),
    ]
    assert plot.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidInput):
        compared(SETTING, (), (2.0,), None)
