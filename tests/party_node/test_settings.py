"""party.toml: every mistake named, every default safe."""

from pathlib import Path

import pytest

from dprelease.data.columns import CategoricalColumn, NumericColumn
from dprelease.errors import InvalidInput
from dprelease.files.settings import read_settings
from party_node.hospital import HospitalState
from party_node.settings import PartySettings, PolicyLimits

WHOLE = """
name = "north"
roster = "cohort"
[source]
path = "rows.csv"
subject = "patient"
[columns.age]
kind = "numeric"
lower = 0
upper = 120
unit = "years"
from = "AGE"
[columns.sex]
kind = "categorical"
levels = ["female", "male"]
"""


def read(folder: Path, text: str = WHOLE) -> PartySettings:
    path = folder / "party.toml"
    path.write_text(text)
    return read_settings(path, PartySettings)


def test_a_whole_file_with_safe_defaults(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings.declarations() == (
        NumericColumn(name="age", lower=0.0, upper=120.0, unit="years", fill=60.0),
        CategoricalColumn(name="sex", levels=("female", "male")),
    )
    assert [each.source_names for each in settings.declared.values()] == [("AGE",), ("sex",)]
    assert (settings.source.path, settings.state) == (tmp_path / "rows.csv", tmp_path / "state")
    assert settings.rows_per_subject == 1
    assert settings.policy.auto_approve is None  # a person approves
    assert settings.policy.limits == PolicyLimits()
    assert settings.policy.allow_large_delta is False


def test_an_empty_section_approves_whatever_is_within_the_limits(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE + "[policy.auto_approve]\n").policy.auto_approve == PolicyLimits()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('roster = "cohort"', 'roster = "cohort"\nsame_patients = "no"', "same_patients"),
        ("lower = 0", "lower = -inf", "lower"),
        ("lower = 0", "lower = nan", "lower"),
        ("upper = 120", "upper = 120\nfill = 121", "must lie within the bounds"),
        ('levels = ["female", "male"]', 'levels = ["other"]', "no level is called 'other'"),
        ('levels = ["female", "male"]', 'levels = ["female", "male"]\nexhaustive = true', "declare fill, the level"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in WHOLE
    with pytest.raises(InvalidInput, match=words):
        read(tmp_path, WHOLE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("[policy.limits]\nmax_epsilon = inf", r"policy\.limits\.max_epsilon"),
        ("[policy.limits]\nmax_delta = 1", r"policy\.limits\.max_delta"),
        ("[policy.limits]\nmin_rows = 0", r"policy\.limits\.min_rows"),
        ('[policy.limits]\nmechanisms = ["magic"]', r"policy\.limits\.mechanisms"),
        ("[daemon]\npoll_seconds = 0", r"daemon\.poll_seconds"),
    ],
)
def test_a_mistake_in_a_section_is_named(tmp_path: Path, section: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read(tmp_path, WHOLE + section)


def test_without_columns_there_is_nothing_to_release(tmp_path: Path) -> None:
    head = WHOLE[: WHOLE.index("[columns.age]")]
    for text in (head, head + "[columns]\n"):
        with pytest.raises(InvalidInput, match="columns"):
            read(tmp_path, text)


def test_several_rows_of_a_patient_need_a_column_that_tells_them_apart(tmp_path: Path) -> None:
    twice = WHOLE.replace('roster = "cohort"', 'roster = "cohort"\nrows_per_subject = 2')
    with pytest.raises(InvalidInput, match=r"needs source\.record"):
        read(tmp_path, twice)
    recorded = twice.replace('subject = "patient"', 'subject = "patient"\nrecord = "visit"')
    assert read(tmp_path, recorded).source.record == "visit"


def test_the_state_folder_is_the_owners_alone(folder: Path) -> None:
    settings = read(folder, WHOLE.replace('roster = "cohort"', 'roster = "cohort"\nstate = "var/state"'))
    HospitalState(settings)
    assert (folder / "var" / "state").stat().st_mode & 0o777 == 0o700  # it holds the salts of commitments
