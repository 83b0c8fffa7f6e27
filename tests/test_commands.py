"""Every command starts at once: it loads what it needs and no more."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coordinator.cli import main as coordinator
from demo.__main__ import main as demo
from dprelease.cli.console import Command
from learner.cli import main as learner
from party_node.cli import main as party_node

ROLES = {"coordinator": coordinator, "learner": learner, "party_node": party_node}
COMMANDS = [(role, name) for role, module in ROLES.items() for name in module.COMMANDS]
SLOW = ("numpy", "scipy", "pyarrow", "sqlalchemy", "pydantic", "matplotlib")


def loaded(code: str) -> set[str]:
    """Which slow packages a piece of code has loaded at its end."""
    check = f"import sys\n{code}\nprint(*({SLOW!r} & sys.modules.keys()))".replace(repr(SLOW), repr(set(SLOW)))
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(("role", "name"), COMMANDS)
def test_a_command_has_the_name_by_which_it_is_loaded(role: str, name: str) -> None:
    command: Command = ROLES[role].COMMANDS[name]
    found = command.load()
    assert isinstance(found, click.Command)
    assert found.name == name
    assert command.summary.endswith(".")
    assert len(command.summary) <= 70


@pytest.mark.parametrize("role", ROLES)
def test_help_loads_nothing_slow(role: str) -> None:
    """So that no extra is needed for it."""
    code = f"from {role}.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    assert loaded(code) == set()


def test_the_core_loads_what_it_is_asked_for() -> None:
    assert loaded("import dprelease, learner") == set()
    assert "scipy" not in loaded("import party_node.hospital, coordinator.service.enrolment, dprelease.privatization")
    code = "import dprelease\nfor name in dprelease.__all__:\n    assert getattr(dprelease, name) is not None"
    assert "numpy" in loaded(code)


def test_to_list_fetch_and_verify_loads_no_estimator() -> None:
    code = "import sys, learner.cli.releases\nassert not {'dprelease.estimators', 'dprelease.analyses'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_that_are_not_there_are_said_to_be_missing() -> None:
    import dprelease
    import learner

    for module in (dprelease, learner):
        with pytest.raises(AttributeError, match="has no attribute 'other'"):
            module.other  # noqa: B018


BLOCKED = """
import json, sys
from importlib import import_module
for package, words in json.loads(sys.argv[2]):
    sys.modules[package] = None
    try:
        import_module(sys.argv[1]).main(words)
    except SystemExit as ended:
        print(ended.code, flush=True)
    del sys.modules[package]
"""

FIRST_WORDS = {  # of a line, to what it must not begin without
    ("coordinator", "init", "--home", "."): ("sqlalchemy", "coordinator"),
    ("coordinator", "serve"): ("sqlalchemy", "coordinator"),
    ("coordinator", "plan", "study.toml"): ("sqlalchemy", "coordinator"),
    ("party_node", "run"): ("pyarrow", "party"),
    ("party_node", "check"): ("pyarrow", "party"),
    ("party_node", "declare", "patients.csv"): ("pyarrow", "party"),
    ("party_node", "public", "norm", "age"): ("pyarrow", "party"),
    ("learner", "fetch", "https://mirror.example.org/0"): ("urllib3", "learner"),
    ("learner", "deposit", "x", "y"): ("jinja2", "learner"),
    ("learner", "export", "x", "--format", "parquet", "--output", "x"): ("pyarrow", "learner"),
    ("learner", "plan", "--plot", "plan.png"): ("matplotlib", "plot"),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_command_without_its_extra_names_it_before_it_begins(tmp_path: Path, role: str) -> None:
    lines = [(words, needed) for (of, *words), needed in FIRST_WORDS.items() if of == role]
    tried = json.dumps([(package, words) for words, (package, _) in lines])
    code = [sys.executable, "-c", BLOCKED, f"{role}.cli.main", tried]
    done = subprocess.run(code, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.split() == ["2"] * len(lines)
    assert done.stderr.splitlines() == [
        f"error: this needs {package}, which is not installed; it comes with the extra {extra}: "
        f"pip install 'dprelease[{extra}]'"
        for _, (package, extra) in lines
    ]
    assert list(tmp_path.iterdir()) == []


def test_an_import_that_no_extra_mends_is_not_explained_away() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        Command("learner.nowhere:main", "Nothing.").load()


def test_the_demo_empties_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    refused = CliRunner().invoke(demo, [str(tmp_path)])
    assert refused.exit_code == 1
    assert "has files of others" in refused.output
    assert (tmp_path / "thesis.tex").exists()
