"""Settings files and requests of all roles: every mistake at once, with table and key, in words."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator.proposals.proposals import Request
from coordinator.settings import CoordinatorSettings
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings, read_settings
from dprelease.wire.boundary import exit_code
from learner.hub.settings import HubSettings
from party_node.cli.main import main
from party_node.settings import PartySettings

PARTY = """
name = "north"
roster = "cohort"
[source]
path = "rows.csv"
subject = "patient"
[policy.limits]
max_epsilon = 1
[daemon]
poll_seconds = 5
[columns.age]
kind = "numeric"
lower = 0
upper = 120
[columns.sex]
kind = "categorical"
levels = ["f", "m"]
[columns.came]
kind = "date"
[columns.old]
derived = { indicator = "age", from = 65 }
fill = "other"
"""
OFFICE = """
consortium = "trio"
public_address = "office.example.org:7441"
enrolment_address = "office.example.org:7442"
hub_address = "hub.example.org:7443"
root = "root.pem"
certificate = "office.pem"
key = "office.key"
authority_key = "root.key"
"""
HUB = 'consortium = "trio"\ncoordinator = "office.example.org:7441"\n'
REQUEST = """
title = "study"
epsilon = 1
delta = 1e-6
mechanism = "synthetic-control"
intervention = "after"
series = [1.0, 2.0]
[parties]
north = ["before", "after"]
"""
NAME = "must be a name of at most 64 letters, digits, _ . and -, with a letter or _ in front"
BOUND = 'give the bound of a codebook, never of the data; or bounds = "unknown" in place of lower and upper'

PYDANTIC = re.compile(
    "Input should|Field required|Extra inputs|valid (string|dictionary|tuple)|match pattern|discriminator|tag"
)


def said(folder: Path, text: str, model: type[Settings]) -> list[str]:
    """What is said of a file, mistake by mistake."""
    path = folder / "x.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        read_settings(path, model)
    error = caught.value
    assert not PYDANTIC.search(error.message), error.message
    assert error.message.startswith(str(path))
    return list(error.each) or [error.message.replace(str(path), "FILE")]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "north"', 'name = "north ward"', f"name: {NAME}, not 'north ward'"),
        ('name = "north"', 'name = ""', f"name: is left blank; it {NAME}"),
        ('name = "north"\n', "", "name: is missing"),
        ('[source]\npath = "rows.csv"\nsubject = "patient"', "", "source: the table [source] is missing"),
        ('path = "rows.csv"', "path = 3", "source.path: must be a path in quotation marks, not 3"),
        ('path = "rows.csv"', 'paht = "rows.csv"\npath = ""', "source.paht: there is no such key; did you mean path?"),
        (
            '"patient"',
            '"p"\ndelimiter = "tab"',
            'source.delimiter: must be one character, such as ";" or "\\t", not \'tab\'',
        ),
        (
            '"patient"',
            '"p"\nroster = "c"',
            "source.roster: there is no such key here; it stands at the top of the file",
        ),
        ('"patient"', '"p"\nmissing = "NA"', "source.missing: must be a list in square brackets, not 'NA'"),
        ('"patient"', '"p"\nmissing = ["NA", 9]', "source.missing entry 2: must be text in quotation marks, not 9"),
        ('"patient"', '"p"\nformat = "excel"', "source.format: must be 'csv' or 'parquet', not 'excel'"),
        ("max_epsilon = 1", "max_epsilon = 0", "policy.limits.max_epsilon: must be above 0.0, not 0"),
        (
            "[policy.limits]",
            "[policy]",
            "policy.max_epsilon: there is no such key here; it stands under [policy.limits] or under [policy.auto_approve]",
        ),
        ("poll_seconds = 5", 'poll_seconds = "often"', "daemon.poll_seconds: must be a number, not 'often'"),
        (
            'kind = "numeric"',
            'kind = "number"',
            "column age: kind: must be numeric, categorical, ordered, date or code, not 'number'",
        ),
        ('kind = "numeric"', "", "column age: kind: is missing; it is numeric, categorical, ordered, date or code"),
        ("lower = 0", "", f"column age: lower: is missing; {BOUND}"),
        ("lower = 0", 'lower = ""', f"column age: lower: is left blank; {BOUND}"),
        ("lower = 0", 'lower = "0"', "column age: lower: must be a number, not '0'"),
        ("lower = 0", "lower = 120", "column age: lower (120.0) must be less than upper (120.0)"),
        ("upper = 120", "upper = 120\nuper = 9", "column age: uper: there is no such key; did you mean upper?"),
        ("upper = 120", 'upper = 120\nform = "AGE"', "column age: form: there is no such key; did you mean from?"),
        ('["f", "m"]', "[]", "column sex: levels: is left blank; list the levels of a codebook"),
        ('["f", "m"]', '"f, m"', "column sex: levels: must be a list in square brackets, not 'f, m'"),
        ('["f", "m"]', '["f", 0]', "column sex: levels entry 2: must be text in quotation marks, not 0"),
        ("[columns.sex]", '[columns."sex at birth"]', f"column sex at birth: name: {NAME}, not 'sex at birth'"),
        ('"date"', '"date"\nformt = "%Y"', "column came: formt: there is no such key; did you mean format?"),
        ("from = 65", 'from = "x"', "column old: derived: from: must be a number, not 'x'"),
        ("from = 65", "form = 65", "column old: derived: form: there is no such key; did you mean from?"),
    ],
    ids=lambda value: value[:40],
)
def test_one_mistake_of_a_hospital(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in PARTY
    assert said(tmp_path, PARTY.replace(old, new, 1), PartySettings) == [words]


@pytest.mark.parametrize(
    ("model", "text", "words"),
    [
        (
            CoordinatorSettings,
            OFFICE.replace("root =", "rot ="),
            ["root: is missing", "rot: there is no such key; did you mean root?"],
        ),
        (
            CoordinatorSettings,
            OFFICE + 'listen = "7441"',
            ["listen: '7441' is not host:port, e.g. hub.example.org:7443"],
        ),
        (CoordinatorSettings, OFFICE + "run_hours = 0.5\n", ["run_hours: must be a whole number, not 0.5"]),
        (CoordinatorSettings, OFFICE + "run_hours = 0", ["run_hours: must be at least 1, not 0"]),
        (CoordinatorSettings, OFFICE + "tick_seconds = 0", ["tick_seconds: must be above 0.0, not 0"]),
        (CoordinatorSettings, OFFICE + "certificate_days = 0", ["certificate_days: must be at least 1, not 0"]),
        (
            CoordinatorSettings,
            OFFICE + 'database = ""',
            ["database: sqlite:/// wants a file, e.g. sqlite:///coordinator.sqlite"],
        ),
        (HubSettings, HUB + "[limits]\nstall_seconds = 0", ["limits.stall_seconds: must be above 0.0, not 0"]),
        (HubSettings, HUB + "reflection = 'perhaps'", ["reflection: must be true or false, not 'perhaps'"]),
        (HubSettings, HUB + "[limits]\nparty_workers = 1", ["limits.party_workers: must be at least 2, not 1"]),
        (
            HubSettings,
            HUB + "[limits]\nreflection = true",
            ["limits.reflection: there is no such key here; it stands at the top of the file"],
        ),
        (Request, REQUEST.replace('"after"', '"not ok"', 1), [f"intervention: {NAME}, not 'not ok'"]),
        (Request, REQUEST.replace("[1.0, 2.0]", '[1.0, "two"]'), ["series entry 2: must be a number, not 'two'"]),
        (Request, REQUEST.replace("[1.0, 2.0]", "[]"), ["series: is left blank; it must be a list of 1 or more"]),
        (
            Request,
            REQUEST.replace("intervention", "intervenes"),
            ["intervention: is missing", "intervenes: there is no such key; did you mean intervention?"],
        ),
        (
            Request,
            REQUEST.replace("[parties]", "[parties]\nsouth = 3"),
            ["parties.south: must be '*' or a list in square brackets, not 3"],
        ),
        (
            Request,
            REQUEST.replace('"before"', '"be fore"'),
            [f"parties.north entry 1: must be '*' or {NAME[8:]}, not 'be fore'"],
        ),
        (
            Request,
            REQUEST.replace("delta =", "k = 3\ndelt =").replace("[1.0, 2.0]", "2"),
            [
                "delta: is missing",
                "k belongs to mechanism 'mixed'; mechanism 'synthetic-control' has none",
                "series: must be a list in square brackets, not 2",
                "delt: there is no such key; did you mean delta?",
            ],
        ),
    ],
)
def test_mistakes_of_the_servers_and_of_requests(
    tmp_path: Path, model: type[Settings], text: str, words: list[str]
) -> None:
    assert said(tmp_path, text, model) == words


def test_all_mistakes_of_a_file_at_once(tmp_path: Path) -> None:
    text = PARTY.replace("lower = 0\nupper = 120", 'lower = ""\nupper = ""').replace('["f", "m"]', '["f", "f"]')
    text = text.replace('name = "north"', "nmae = 5") + '[columns.risk]\nderived = { square = "weight", pls = 3 }\n'
    assert said(tmp_path, text, PartySettings) == [
        "name: is missing",
        f"column age: lower: is left blank; {BOUND}",
        f"column age: upper: is left blank; {BOUND}",
        "column sex: levels: levels must be distinct; leave out the second 'f'",
        "column risk: derived: pls: there is no such key; did you mean plus?",
        "nmae: there is no such key; did you mean name?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "lower = 0\nupper = 120",
            "lower = \nupper =  # years",
            "line 13: lower of [columns.age] is left blank; fill it in; line 14: upper",
        ),
        ('name = "north"', 'name = "north"\nname = "n"', "line 3: name stands in line 2 already"),
        ('name = "north"', "name = north", "Invalid value (at line 2, column 8): name = north"),
    ],
)
def test_what_is_no_toml_is_said_with_its_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    (found,) = said(tmp_path, PARTY.replace(old, new, 1), PartySettings)
    assert found.startswith(f"FILE is not valid TOML: {words}")


def test_a_command_shows_several_mistakes_in_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "party.toml"
    path.write_text(PARTY.replace('name = "north"', 'name = ""').replace("upper = 120", 'upper = ""'))
    shown = CliRunner().invoke(main, ["check", "--source", "--config", str(path)])
    assert shown.exit_code == exit_code(InvalidInput(""))
    assert shown.stderr.splitlines() == [
        f"error: {path}: 2 mistakes",
        f"  name: is left blank; it {NAME}",
        f"  column age: upper: is left blank; {BOUND}",
    ]
