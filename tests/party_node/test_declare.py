"""`party-node declare`: a party.toml that says what the header and types say, and waits for people to say the rest."""

import time
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dprelease.errors import DataRefused, InvalidInput
from dprelease.files.settings import read_settings
from dprelease.wire.boundary import exit_code
from party_node.cli.main import main
from party_node.settings import PartySettings
from party_node.source.first_lines import first_lines
from party_node.source.first_look import look_at
from tests.party_node.tables import csv, parquet

HEADER = 'Patient ID;Größe (cm);weight;"Diagnose; kurz";born;age group;sex;sex ;1st;note'
LINES = [
    "p-7001;181,5;83.000,5;Zebrafieber;31.12.1956;[60-70);w;x;4711;",
    "p-7002;179,25;;;01.02.1949;[70-80);m;y;4712;",
    "p-7003;NA;61,75;Quokkapest;03.04.1950;80+;w;z;4713;",
]


def run(folder: Path, file: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["declare", str(file), "--output", str(folder / "party.toml"), *more])


def declared(folder: Path, file: Path, *more: str) -> dict[str, Any]:
    result = run(folder, file, *more)
    assert result.exit_code == 0, result.output
    return tomllib.loads((folder / "party.toml").read_text())


def export(folder: Path, encoding: str = "cp1252") -> Path:
    return csv(folder, "\n".join([HEADER, *LINES, ""]).encode(encoding), "export.csv")


def test_an_export_is_described_without_any_value_of_it(tmp_path: Path) -> None:
    found = declared(tmp_path, export(tmp_path))
    source = found["source"]
    assert source == {
        "path": str(tmp_path / "export.csv"),
        "subject": "Patient ID",
        "delimiter": ";",
        "encoding": "cp1252",
        "decimal": ",",
        "thousands": ".",
        "missing": source["missing"],
    }
    blank = {"kind": "numeric", "lower": "", "upper": "", "unit": ""}
    assert found["columns"] == {
        "Groesse_cm": {"from": "Größe (cm)", **blank},
        "weight": blank,
        "Diagnose_kurz": {"from": "Diagnose; kurz", "kind": "categorical", "levels": []},
        "born": {"kind": "date", "format": "%d.%m.%Y"},
        "age_group": {"from": "age group", **blank, "bands": True},
        "c_1st": {"from": "1st", **blank},
        "note": {"kind": "categorical", "levels": []},
    }
    text = (tmp_path / "party.toml").read_text()
    cells = {cell for line in LINES for cell in line.split(";")} - {
        "",
        "NA",
        "[70-80)",
    }  # which is how bands are explained
    assert [cell for cell in cells if len(cell) > 1 and cell in text] == []
    assert "more than one column sex" in text


def test_a_column_of_codes_is_pointed_to_what_is_derived_from_codes(tmp_path: Path) -> None:
    rows = ["p1,I21.4,A10BA02,north,R1", "p2,E11,C09AA05,south,E11", "p3,e119,,north,x", "p4,S72.00,N02,west,"]
    found = declared(tmp_path, csv(tmp_path, "\n".join(["id,dx,drug,ward,note", *rows, ""])))
    assert {keys["kind"] for keys in found["columns"].values()} == {"categorical"}
    told = (tmp_path / "party.toml").read_text().split("[columns.")[1:]
    coded = [each for each in told if 'kind = "code"' in each]
    assert [each.split("]")[0] for each in coded] == ["dx", "drug"]
    assert all(key in each for each in coded for key in ("prefix", "codes", "map"))
    assert "I21" not in (tmp_path / "party.toml").read_text()


def test_columns_of_batches_and_records_are_no_data(tmp_path: Path) -> None:
    header = "id,month,wave,visit,visit_date,stage,age,left"
    rows = [f"p{row},{row // 3 + 1},1,v{row % 2},2020-01-0{row + 1},{2 - row % 2},{row},{row + 1}" for row in range(6)]
    found = declared(tmp_path, csv(tmp_path, "\n".join([header, *rows, ""])))
    assert list(found["columns"]) == ["visit_date", "stage", "age", "left"]
    text = (tmp_path / "party.toml").read_text()
    for key, name in (("batch", "month"), ("batch", "wave"), ("record", "visit")):
        assert f'say so under [source]: {key} = "{name}"' in text
    (tmp_path / "party.toml").unlink()
    cells: list[list[Any]] = [[*"abcdef"], [1, 1, 1, 2, 2, 2], [2.0] * 6, [1] * 6, [1] * 6]
    pa.parquet.write_table(pa.table(cells, names=["id", "t", "x", "y", "y"]), tmp_path / "twice.parquet")
    found = declared(tmp_path, tmp_path / "twice.parquet")
    assert list(found["columns"]) == ["x"]
    assert 'batch = "t"' in (tmp_path / "party.toml").read_text()


def test_levels_are_comments_and_only_where_they_are_asked_for(tmp_path: Path) -> None:
    found = declared(tmp_path, export(tmp_path), "--levels")
    assert found["columns"]["Diagnose_kurz"]["levels"] == []
    text = (tmp_path / "party.toml").read_text()
    assert '# "Quokkapest",\n# "Zebrafieber",' in text
    assert "who has a rare one may be known by it" in text
    assert (tmp_path / "party.toml").stat().st_mode & 0o777 == 0o600


def test_a_stray_text_does_not_change_the_type_and_too_many_texts_are_no_levels(tmp_path: Path) -> None:
    lines = ["id,x,came,many,few", *(f"p{i},{i}.5,2020-01-{i + 1:02},t{i % 60},u{i % 50}" for i in range(30))]
    lines += [f"p{i},n/a,soon,t{i},u{i % 50}" for i in range(30, 33)]
    found = declared(
        tmp_path,
        csv(tmp_path, "\n".join([*lines, *(f"p{i},,,t{i},u{i % 50}" for i in range(33, 60))]) + "\n"),
        "--levels",
    )
    assert [keys["kind"] for keys in found["columns"].values()] == ["numeric", "date", "categorical", "categorical"]
    text = (tmp_path / "party.toml").read_text()
    assert "n/a" not in text
    assert '"t0"' not in text
    assert "more than 50 different texts" in text
    assert '# "u0",' in text


def test_it_does_not_load_before_people_have_filled_it_in(tmp_path: Path) -> None:
    declared(tmp_path, export(tmp_path))
    path = tmp_path / "party.toml"
    with pytest.raises(InvalidInput) as caught:
        read_settings(path, PartySettings)
    bound = 'is left blank; give the bound of a codebook, never of the data; or bounds = "unknown" in place of lower and upper'
    assert [words.partition("; it must")[0] for words in caught.value.each] == [
        "name: is left blank",
        "roster: is left blank",
        *(f"column {name}: {key}: {bound}" for name in ("Groesse_cm", "weight") for key in ("lower", "upper")),
        "column Diagnose_kurz: levels: is left blank; list the levels of a codebook",
        *(f"column {name}: {key}: {bound}" for name in ("age_group", "c_1st") for key in ("lower", "upper")),
        "column note: levels: is left blank; list the levels of a codebook",
    ]


def test_filled_in_it_reads_the_table(tmp_path: Path) -> None:
    declared(tmp_path, export(tmp_path), "--unknown-bounds")
    path = tmp_path / "party.toml"
    text = path.read_text().replace('name = ""', 'name = "north"').replace('roster = ""', 'roster = "cohort"')
    text = text.replace('lower = ""\nupper = ""', "lower = 0\nupper = 100").replace(
        "levels = []", 'levels = ["Zebrafieber"]', 1
    )
    path.write_text(text[: text.index("[columns.note]")])
    settings = read_settings(path, PartySettings)
    found = look_at(settings)
    assert (found.rows, found.problems) == (3, [])
    assert {name: each.findings.words()[:24] for name, each in found.columns.items()} == {
        "Groesse_cm": "1 missing, 0 unreadable,",
        "weight": "1 missing, 0 unreadable,",
        "Diagnose_kurz": "1 missing, 0 unreadable,",
        "born": "0 missing, 0 unreadable,",
        "age_group": "0 missing, 0 unreadable,",
        "c_1st": "0 missing, 0 unreadable,",
    }


def test_types_of_a_parquet_file(tmp_path: Path) -> None:
    table = {
        "key": ["a", "b"],
        "age": [61.5, 62.5],
        "came": pa.array([0, 1], pa.date32()),
        "sex": pa.array(["w", "m"]).dictionary_encode(),
    }
    found = declared(tmp_path, parquet(tmp_path, table))
    assert found["source"]["subject"] == ""
    assert {name: keys["kind"] for name, keys in found["columns"].items()} == {
        "key": "categorical",
        "age": "numeric",
        "came": "date",
        "sex": "categorical",
    }
    text = (tmp_path / "party.toml").read_text()
    assert "61.5" not in text
    with pytest.raises(InvalidInput, match=r"source\.subject: is left blank"):
        read_settings(tmp_path / "party.toml", PartySettings)


@pytest.mark.parametrize(
    "hostile", ['a"b', "a\\b", "a]b", "a#b", "a\x7fb", "=", "💉", "columns.x", "x" * 100, "a\tb", "a\u202eb"]
)
def test_any_header_makes_a_file_that_is_toml(tmp_path: Path, hostile: str) -> None:
    path = parquet(tmp_path, {"id": ["a"], hostile: [1.5], "x" * 100 + "y": [2.5]})
    found = declared(tmp_path, path)
    assert {keys["from"] for keys in found["columns"].values()} == {hostile, "x" * 100 + "y"}
    assert all(line.isprintable() for line in (tmp_path / "party.toml").read_text().splitlines())
    assert len(found["columns"]) == 2


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("Größe", "Groesse"),
        ("Gro\u0308\u00dfe", "Groesse"),
        ("ÄRZTE", "AeRZTE"),
        ("Crea (\u00b5mol/l)", "Crea_umol_l"),
        ("Crea (\u03bcmol/l)", "Crea_umol_l"),
        ("âge à l'entrée", "age_a_l_entree"),
        ("Łódź", "Lodz"),
        ("blodtrykk før", "blodtrykk_foer"),
        ("возраст", "column"),
    ],
)
def test_names_keep_their_letters_and_say_what_the_file_calls_them(tmp_path: Path, called: str, name: str) -> None:
    file = csv(tmp_path, f"id,{called}\na,1\n")
    result = run(tmp_path, file)
    assert f"{called} is called {name} here" in result.stdout
    found = tomllib.loads((tmp_path / "party.toml").read_text())["columns"]
    assert {key: column["from"] for key, column in found.items()} == {name: called}


def test_what_cannot_be_described(tmp_path: Path) -> None:
    for text in (b"", b"\n\n", b'"a'):
        refused = run(tmp_path, csv(tmp_path, text))
        assert refused.exit_code in {0, exit_code(DataRefused(""))}
        assert refused.exit_code or text == b'"a'
        (tmp_path / "party.toml").unlink(missing_ok=True)
    assert run(tmp_path, tmp_path / "nowhere.csv").exit_code == exit_code(DataRefused(""))
    assert run(tmp_path, csv(tmp_path, b"PAR1", "x.parquet")).exit_code == exit_code(DataRefused(""))
    declared(tmp_path, export(tmp_path))
    before = (tmp_path / "party.toml").read_bytes()
    refused = run(tmp_path, export(tmp_path))
    assert (refused.exit_code, "is there already" in refused.stderr) == (exit_code(InvalidInput("")), True)
    assert (tmp_path / "party.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"SQLite format 3\0\x10\0", "is a database of SQLite; .* name it by url"),
        (b"PK\x03\x04\x14\0\x06\0", "is not text; export a workbook as CSV"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "rows.xlsx"
    path.write_bytes(data)
    with pytest.raises(DataRefused, match=words):
        first_lines(path)
    assert run(tmp_path, path).exit_code == exit_code(DataRefused(""))
    assert not (tmp_path / "party.toml").exists()


def test_a_header_is_longer_than_python_takes_a_field_to_be(tmp_path: Path) -> None:
    names = ["id", *(f"expression of gene {number} {'in tissue ' * 25}".strip() for number in range(500))]
    assert len(",".join(names)) > 131_072
    file = csv(tmp_path, "\n".join(",".join(line) for line in [names, ["1"] * len(names)]) + "\n", "wide.csv")
    assert [each.name for each in first_lines(file).columns] == names


def test_thousands_of_columns(tmp_path: Path) -> None:
    names = [f"x{number}" for number in range(10_000)]
    file = parquet(tmp_path, {"id": ["1"]} | {name: [0.5] for name in names}, "wide.parquet")
    started = time.process_time()
    assert list(declared(tmp_path, file)["columns"]) == names
    assert time.process_time() - started < 3  # 0.4; it was 6, with steps over every column for each of them
