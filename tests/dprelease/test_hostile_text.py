"""Settings files and canonical JSON that somebody made to break a parser: one error of ours each, and a short one."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.proposals.proposals import Request
from coordinator.settings import CoordinatorSettings
from dprelease.canonical import Value, read_data
from dprelease.data.columns import NumericColumn
from dprelease.errors import DpReleaseError, InvalidInput
from dprelease.files.settings import read_settings
from dprelease.release.accounting import check_spec
from dprelease.release.manifest import Manifest
from dprelease.release.spec import ReleaseSpec
from learner.hub.settings import HubSettings
from party_node.settings import PartySettings
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, new_consortium, publish

LONGEST_ERROR = 10_000
DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = {"party": PartySettings, "coordinator": CoordinatorSettings, "hub": HubSettings}
HUGE = "1" + "0" * 400
TOML = (
    "[" * 1_500, "{a=" * 1_500, HUGE, f"-{HUGE}", "1" + "0" * 5_000, "0x" + "f" * 5_000, "1e400", "nan", "-inf",
    '"\\ud800"', '"\\u2028"', f'"{HUGE}"', f'"1/{HUGE[:399]}"', '"1e999999999"', "9999-12-31T23:59:59-14:00", "[[]]", "{}",
)  # fmt: skip
JSON = (
    "[" * 5_000, '{"a":' * 5_000, HUGE, f"-{HUGE}", "1" + "0" * 5_000, "1e400", "1e308", "5e-324", "NaN", "Infinity",
    '"\\ud800"', '"\\u0000"', f'"{HUGE[:400]}"', f'"1/{HUGE[:400]}"', '"1e999999999"', '"9999-12-31T23:59:60Z"', "[]", "{}", "null",
)  # fmt: skip


def good(refused: list[str]) -> bool:
    return all(message.isprintable() and len(message) < LONGEST_ERROR for message in refused)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rows = " + "[" * 5_000, "brackets are nested too deeply"),
        ("rows = 1" + "0" * 5_000, "a number has too many digits"),
        ("rows = 0x" + "f" * 5_000, "a number has too many digits"),
    ],
)
def test_what_breaks_a_parser_is_no_toml(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "party.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=rf"party\.toml is not valid TOML: .*{words}"):
        read_settings(path, PartySettings)


BOUNDS = {"400 digits": int(HUGE), "minus": -int(HUGE), "5,000 digits": 10**5_000}


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
def test_a_bound_that_is_no_double_is_refused_by_name(bound: int) -> None:
    data = {"kind": "numeric", "name": "age", "lower": 0, "upper": bound}
    with pytest.raises(InvalidInput, match=r"^the column: (upper: |a number has too many digits)"):
        read_data(NumericColumn, data, "the column")


def test_data_of_any_depth_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="the column: brackets are nested too deeply"):
        read_data(NumericColumn, {"name": deep}, "the column")


@pytest.mark.parametrize("name", FILES)
def test_no_settings_file_ends_in_another_error(name: str, tmp_path: Path) -> None:
    """Every setting of the sample files with every hostile value, then bytes at random in their place."""
    lines = (DEPLOY / f"{name}.toml").read_text().splitlines()
    chance, path = random.Random(7), tmp_path / f"{name}.toml"
    refused: list[str] = []
    settings = [number for number, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    for number in settings:
        noise = bytes(chance.randrange(256) for _ in range(20))
        for hostile in (*(text.encode() for text in TOML), noise):
            before, after = ("\n".join(part).encode() for part in (lines[:number], lines[number + 1 :]))
            path.write_bytes(b"\n".join([before, lines[number].split(" = ")[0].encode() + b" = " + hostile, after]))
            try:
                read_settings(path, FILES[name])
            except InvalidInput as error:
                refused.append(error.message)
    assert len(refused) > 10 * len(settings)
    assert good(refused)


def places(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the texts and numbers of parsed JSON stand."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield above
    else:
        for name, part in parts:
            yield from places(part, (*above, name))


def with_mark(data: bytes, place: tuple[str | int, ...]) -> bytes:
    whole = json.loads(data)
    inner = whole
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = "@mark@"
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def test_no_message_ends_in_another_error() -> None:
    """Every text and number of a manifest, and of what it holds, with every hostile value; then single bytes at random."""
    consortium = new_consortium("north", "south")
    data = publish(consortium, build_spec(keys=consortium.keys), SeededNoise(3)).manifest
    whole = Manifest.from_bytes(data)
    values: tuple[Value, ...] = (whole.spec, whole.approvals[0], whole.blocks[0].sealed, whole)
    chance = random.Random(7)
    refused: list[str] = []
    for value in values:
        data = value.to_bytes()
        changed = [
            marked.replace(b'"@mark@"', hostile.encode())
            for marked in (with_mark(data, place) for place in places(json.loads(data)))
            for hostile in (JSON if value is not whole else JSON[:3])
        ]
        for _ in range(300):
            at = chance.randrange(len(data))
            changed.append(data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :])
        for each in changed:
            try:
                made = type(value).from_bytes(each)
                if isinstance(made, ReleaseSpec):
                    check_spec(made)
            except DpReleaseError as error:
                refused.append(error.message)
    assert len(refused) > 1_000
    assert good(refused)


def test_a_request_of_the_office_is_read_as_strictly(tmp_path: Path) -> None:
    path = tmp_path / "release.toml"
    for hostile in TOML:
        path.write_text(f"title = 'x'\n[target]\nepsilon = {hostile}\n")
        with pytest.raises(InvalidInput) as refused:
            read_settings(path, Request)
        assert good([refused.value.message])
