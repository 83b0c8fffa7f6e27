"""Every command of every role explains itself, with an example."""

import click
import pytest
from click.testing import CliRunner

from coordinator.cli.main import main as coordinator
from learner.cli.main import main as learner
from party_node.cli.main import main as party_node
from tests.support.commands import every_command

ROLES = {"coordinator": coordinator, "learner": learner, "party-node": party_node}
ALL = {(role, *path): command for role, group in ROLES.items() for path, command in every_command(group).items()}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_that_ends_with_an_example(path: tuple[str, ...]) -> None:
    command = ALL[path]
    shown = CliRunner().invoke(ROLES[path[0]], [*path[1:], "--help"])
    assert shown.exit_code == 0
    assert "Example:" in shown.stdout
    text = command.help or ""
    assert text[0].isupper()
    assert text.count("Example:") == 1
    assert text.rpartition("Example:")[2].split()[: len(path)] == list(path)
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or getattr(parameter, "help", None), parameter.name
