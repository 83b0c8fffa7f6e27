"""README and the guides are short, and every command that the pages show is one that the roles have."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from coordinator.cli.main import main as coordinator
from learner.cli.main import main as learner
from party_node.cli.main import main as party_node

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "format.md"))
"""Without the one whose blocks hold sentences and bytes."""

LONGEST = {"README.md": 130} | {page.name: 250 for page in PAGES if page.name.startswith("guide_")}
ROLES: dict[str, click.Group] = {"coordinator": coordinator, "learner": learner, "party-node": party_node}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(rf"^(?:\w*\$ )?((?:{'|'.join(ROLES)}) \S.*)$", re.MULTILINE)


def typed(text: str) -> Iterator[list[str]]:
    """Every command line of the roles in the blocks of a page, word by word, without remarks."""
    blocks = (block for language, block in _FENCE.findall(text) if not language)
    for block in blocks:
        for line in _LINE.findall(re.sub(r" *\\\n *", " ", block)):
            yield shlex.split(line, comments=True)


def mistake(words: list[str]) -> str:
    """What of a command line is none of ours; empty if nothing is."""
    command: click.Command = ROLES[words[0]]
    rest = words[1:]
    context = click.Context(command)
    while isinstance(command, click.Group):
        while rest and rest[0].startswith("-"):  # of the group itself, each with a value
            rest = rest[2:]
        if not rest:
            return "" if "--help" in words or "--version" in words else f"{words[0]}: no command"
        found = command.get_command(context, rest[0])
        if found is None:
            return rest[0]
        command, rest = found, rest[1:]
    known = {name for parameter in command.get_params(context) for name in parameter.opts + parameter.secondary_opts}
    options = (word.partition("=")[0] for word in rest if re.match(r"-+[a-z]", word))
    return " ".join(option for option in options if option not in known)


@pytest.mark.parametrize("name", LONGEST)
def test_readme_and_guides_are_short(name: str) -> None:
    page = next(page for page in PAGES if page.name == name)
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    wrong = {" ".join(words): found for words in typed(page.read_text(encoding="utf-8")) if (found := mistake(words))}
    assert wrong == {}


def test_pages_show_commands() -> None:
    assert sum(1 for page in PAGES for _ in typed(page.read_text(encoding="utf-8"))) > 80


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("learner fit 3f9a12c4 --target glucose --output fit.json", ""),
        ("learner --home here list", ""),
        ("learner fit 3f9a12c4 --goal glucose", "--goal"),
        ("coordinator release make request.toml", "make"),
        ("party-node", "party-node: no command"),
    ],
)
def test_what_is_no_command_is_seen(line: str, found: str) -> None:
    assert mistake(line.split()) == found
