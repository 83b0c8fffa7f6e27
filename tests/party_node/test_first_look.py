"""`party-node check --source`: everything that is wrong with a table at once, without keys, enrolment or a network."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from dprelease.errors import DataRefused
from dprelease.wire.boundary import exit_code
from party_node.cli.check import _MOST_LEVELS, STAYS, data_of, plot
from party_node.cli.main import main
from party_node.source.first_look import BARS, ColumnLook, Histogram, Levels, SourceLook, look_at
from tests.party_node.tables import csv, parquet, settings

COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"kind": "numeric", "lower": 18, "upper": 100, "from": "AGE"},
    "weight": {"kind": "numeric", "bounds": "unknown"},
    "sex": {"kind": "categorical", "levels": ["f", "m"]},
    "came": {"kind": "date"},
    "old": {"derived": {"indicator": "age", "from": 65}, "fill": "yes"},
}
ROWS = [
    "a,30,70.5,f,2011-01-02,x",
    "b,17,1e12,F,2011-13-02,x",
    'c,"61,5",,m,,x',
    "d,101,n/a?,m,2010-05-01,x",
    "e,102,n/a?,m,2010-05-01,x",
    "f,18,0.25,,2010-05-01,x",
    "g,100,80,x,2010-05-01,x",
    "h,100,80,m,2010-05-01,x",
]
HEAD = "id,AGE,weight,sex,came,note"


def looked(folder: Path, lines: list[str], columns: dict[str, dict[str, Any]] | None = None, **more: Any) -> SourceLook:
    return look_at(settings(csv(folder, "\n".join([HEAD, *lines]) + "\n"), columns or COLUMNS, **more))


def shown(look: SourceLook, name: str, kind: str) -> list[tuple[str, str]]:
    return [(each.text, look.where(each.row)) for each in look.columns[name].examples if each.kind == kind]


def counts(look: ColumnLook) -> tuple[int, int, int]:
    return look.findings.missing, look.findings.unreadable, look.findings.outside


def test_every_column_is_counted_and_every_bad_text_has_an_example_with_its_line(tmp_path: Path) -> None:
    found = looked(tmp_path, ROWS)
    assert (found.rows, found.problems, found.undeclared, found.in_order) == (8, [], ("note",), True)
    age, weight, sex, came, old = found.columns.values()
    assert [counts(each) for each in found.columns.values()] == [(0, 1, 3), (1, 2, 1), (1, 0, 2), (1, 1, 0), (0, 1, 3)]
    assert shown(found, "age", "unreadable") == [("61,5", "line 4")]
    assert shown(found, "age", "outside") == [("17", "line 3"), ("101", "line 5"), ("102", "line 6")]
    assert shown(found, "weight", "unreadable") == [("n/a?", "line 5")]  # each text once
    assert shown(found, "weight", "outside") == [("1e12", "line 3")]
    assert shown(found, "sex", "outside") == [("F", "line 3"), ("x", "line 8")]
    assert shown(found, "came", "unreadable") == [("2011-13-02", "line 3")]
    assert shown(found, "old", "outside") == []  # of two values one is the other level
    assert (old.told.outside, age.told.outside) == (0, 3)
    assert data_of(age.distribution) == {
        "edges": pytest.approx([18 + i * 82 / BARS for i in range(BARS + 1)]),
        "counts": [1, 0, 0, 1, *[0] * (BARS - 5), 2],
        "below": 1,
        "above": 2,
    }
    assert data_of(weight.distribution)["edges"][:2] == pytest.approx([0.18, 0.32])  # type: ignore[index]
    assert data_of(sex.distribution) == {"levels": {"f": 1, "m": 4}, "undeclared": 2}
    assert data_of(came.distribution) == {"first": "2010-05-01", "last": "2011-01-02"}
    assert data_of(old.distribution) == {"levels": {"yes": 4}, "undeclared": 3}


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    rows = [*ROWS, ",40,70,f,2011-01-02,x", "c,40,70,f,2011-01-02,x", " ,40,70,f,2011-01-02,x"]
    columns = COLUMNS | {
        "height": {"kind": "numeric", "lower": 0, "upper": 250, "from": "Weight"},
        "gone": {"kind": "numeric", "lower": 0, "upper": 1, "from": "zzz"},
        "ratio": {"derived": {"product": ["age", "gone"]}},
        "unit": {"kind": "numeric", "lower": 0, "upper": 9, "from": "AGE"},
    }
    found = looked(tmp_path, rows, columns)
    nameless, repeated = found.problems
    assert nameless == "2 rows have no identifier in id, line 10 is the first; every row needs one"
    assert repeated.startswith("1 rows repeat an identifier; ")
    assert repeated.endswith("; line 11 has the identifier of line 4")
    assert {name: each.problem for name, each in found.columns.items() if each.problem} == {
        "height": "the source has no column 'Weight'; did you mean 'weight'?",
        "gone": "the source has no column 'zzz'",
        "ratio": "the source has no column 'zzz'",
        "unit": "look at its declaration",
    }


@pytest.mark.parametrize(
    ("text", "more", "problem"),
    [
        (None, {}, "cannot read .*rows.csv: No such file"),
        ("", {}, "rows.csv is not a well-formed csv file"),
        (HEAD + "\n", {}, "rows.csv has no rows"),
        (HEAD + '\na,1,2,f,2010-01-01,"x\n', {}, "quotation mark that is never closed"),
        (HEAD + "\na,1\n", {}, "rows.csv is not a well-formed csv file"),
        (
            HEAD + ",id\n" + ROWS[0] + ",a\n",
            {},
            r"\[source\]: the source has more than one column 'id'; rename all but one",
        ),
        (
            HEAD.replace("id", "ID") + "\n" + ROWS[0] + "\n",
            {},
            r"\[source\]: the source has no column 'id'; did you mean 'ID'\?",
        ),
        (HEAD + "\n" + ROWS[0] + "\n", {"batch": "note"}, "1 cells of note are no whole number from 1"),
    ],
)
def test_a_table_that_cannot_be_used(tmp_path: Path, text: str | None, more: dict[str, Any], problem: str) -> None:
    path = tmp_path / "rows.csv" if text is None else csv(tmp_path, text)
    found = look_at(settings(path, COLUMNS, **more))
    assert len(found.problems) == 1
    assert re.search(problem, found.problems[0]), found.problems
    assert not found.in_order


def test_types_of_a_parquet_file(tmp_path: Path) -> None:
    table = {"id": ["a", "b"], "AGE": [30.0, float("nan")], "weight": pa.array([[1], [2]]), "sex": [1.5, 2.0]}
    found = look_at(settings(parquet(tmp_path, table), {name: COLUMNS[name] for name in ("age", "weight", "sex")}))
    assert found.rows == 2
    assert shown(found, "age", "unreadable") == [("nan", "row 2")]
    assert "is not a number; convert it first" in found.columns["weight"].problem
    assert "must be text or whole numbers" in found.columns["sex"].problem


def test_of_several_rows_a_patient_the_one_that_counts_is_counted(tmp_path: Path) -> None:
    found = looked(tmp_path, [*ROWS, "a,x,70,f,2011-01-02,x", "a,40,70,f,2011-01-02,x"], rows="last")
    assert (found.rows, found.problems) == (8, [])
    assert counts(found.columns["age"]) == (0, 1, 3)
    assert shown(found, "age", "unreadable") == [("61,5", "line 4"), ("x", "line 10")]


def test_identifiers_that_break_their_rules_are_counted_over_the_whole_table(tmp_path: Path) -> None:
    found = looked(tmp_path, ROWS, identifiers={"pattern": "[0-9]+"})
    assert [words[:27] for words in found.problems] == ["8 identifiers in id do not "]


def run(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["check", "--source", *more, "--config", str(folder / "party.toml")])


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """A folder with party.toml and its table, and nothing else."""
    csv(tmp_path, "\n".join([HEAD, *ROWS]) + "\n")
    (tmp_path / "party.toml").write_text(
        'name = "north"\nroster = "c"\n[source]\npath = "rows.csv"\nsubject = "id"\n[columns.age]\nkind = "numeric"\n'
        'lower = 18\nupper = 100\nfrom = "AGE"\n[columns.sex]\nkind = "categorical"\nlevels = ["f", "m"]\n'
    )
    return tmp_path


def test_neither_keys_nor_a_folder_are_needed_or_made(described: Path) -> None:
    result = run(described)
    assert result.exit_code == 0, result.output
    assert "rows.csv: 8 rows" in result.stdout
    assert "1 below < 18 |▄  ▄" in result.stdout
    assert "outside: 'F' in line 3 (declared: 'f'), 'x' in line 8" in result.stdout
    assert "█| 100 > 2 above" in result.stdout
    assert "unreadable: '61,5' in line 4" in result.stdout
    assert STAYS in result.stdout
    assert "source: 8 rows, no identifier twice, 2 columns" in result.stdout
    assert sorted(path.name for path in described.iterdir()) == ["party.toml", "rows.csv"]


def test_what_is_not_in_order_ends_with_the_code_of_the_table(described: Path) -> None:
    csv(described, "\n".join([HEAD, *ROWS, ROWS[0]]) + "\n")
    result = run(described)
    assert result.exit_code == exit_code(DataRefused(""))
    assert "PROBLEM source: 1 rows repeat an identifier" in result.stdout
    found = json.loads(run(described, "--json").stdout)
    assert (found["rows"], found["in_order"], found["stays_here"]) == (9, False, STAYS)
    assert [column["name"] for column in found["columns"]] == ["age", "sex"]
    assert found["columns"][0]["examples"][0] == {"kind": "unreadable", "text": "61,5", "where": "line 4"}


@pytest.mark.parametrize("more", [1, 2])
def test_one_form_of_words_counts_one_level_and_many(more: int) -> None:
    counts = Levels({f"level {number}": 1 for number in range(_MOST_LEVELS + more)})
    assert plot(counts, 0)[_MOST_LEVELS:] == [f"levels not shown: {more}"]


def test_missing_cells_count_at_a_level_of_their_own(tmp_path: Path) -> None:
    bands = {"derived": {"bands": "age", "at": [65], "missing": True}}
    sex = {"kind": "categorical", "levels": ["f", "m", "missing"], "fill": "m"}
    found = looked(tmp_path, ROWS, {"age": COLUMNS["age"], "old": bands, "sex": sex})
    assert data_of(found.columns["old"].distribution)["levels"] == {"< 65": 3, ">= 65": 4, "missing": 1}
    assert data_of(found.columns["sex"].distribution)["levels"]["missing"] == 0


def test_a_screen_without_block_elements_gets_letters() -> None:
    counts = Histogram(np.linspace(0, 8, 9))
    counts.counts[:] = [0, 1, 2, 3, 4, 5, 6, 800]
    assert plot(counts, 0) == ["0 | ▁▁▁▁▁▁█| 8"]
    assert plot(counts, 0, ascii_only=True) == ["0 | ......@| 8"]
