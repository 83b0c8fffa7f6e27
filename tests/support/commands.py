"""The commands of a role, for tests that hold of each."""

import click


def every_command(group: click.Group, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    """Every group and command, with the words that lead to it."""
    found: dict[tuple[str, ...], click.Command] = {path: group}
    for name in group.list_commands(context := click.Context(group)):
        command = group.get_command(context, name)
        assert command is not None
        deeper = isinstance(command, click.Group)
        found |= every_command(command, (*path, name)) if deeper else {(*path, name): command}
    return found
