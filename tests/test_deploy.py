"""What deploy/ names exists: settings load, units and compose files parse, and the commands in them are real."""

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from coordinator.settings import CoordinatorSettings
from dprelease.files.settings import read_settings
from learner.hub.settings import HubSettings
from party_node.settings import PartySettings

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SAMPLES = {"party.toml": PartySettings, "coordinator.toml": CoordinatorSettings, "hub.toml": HubSettings}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_loads(name: str) -> None:
    read_settings(DEPLOY / name, SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_names_every_plain_setting(name: str) -> None:
    text = (DEPLOY / name).read_text()
    for field in SAMPLES[name].model_fields:
        assert re.search(rf"^\[?{field}\b", text, re.MULTILINE), f"{name} does not mention {field}"


def _unit(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path)
    return parser["Service"]


def _commands() -> set[tuple[str, ...]]:
    """What units and services start, without the folders of programs and settings."""
    units = [shlex.split(_unit(path)["ExecStart"]) for path in UNITS]
    services = [service["command"] for service in COMPOSE["services"].values()]
    return {tuple(Path(word).name for word in command) for command in units + services}


def test_there_is_a_unit_and_a_service_for_every_role() -> None:
    assert {command[0] for command in _commands()} == {"party-node", "coordinator", "learner"}
    assert len(UNITS) == 3


@pytest.mark.parametrize("command", sorted(_commands()), ids=" ".join)
def test_a_named_command_is_real(command: tuple[str, ...]) -> None:
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run([program, *command[1:], "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Example" in done.stdout
    assert command[command.index("--config") + 1] in SAMPLES


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_hardened_and_unprivileged(path: Path) -> None:
    service = _unit(path)
    assert service["User"] != "root"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["UMask"] == "0077"


def test_every_role_keeps_little_of_the_memory_that_it_once_needed() -> None:
    for path in UNITS:
        assert _unit(path)["Environment"] == "MALLOC_ARENA_MAX=2", path.name
    assert re.search(r"^ENV .*\bMALLOC_ARENA_MAX=2$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)


def test_containers_are_unprivileged() -> None:
    container = (DEPLOY / "Containerfile").read_text()
    assert re.search(r"^USER 65532", container, re.MULTILINE)
    for service in COMPOSE["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True


def test_the_container_copies_what_the_package_needs() -> None:
    container = (DEPLOY / "Containerfile").read_text()
    for name in re.findall(r"^COPY (?!--from)(.+) \S+$", container, re.MULTILINE):
        for part in name.split():
            assert (ROOT / part).exists(), part
