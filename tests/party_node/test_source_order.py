"""One table, however it is written down: any order, any file, any block; and equal digests at every hospital."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from party_node.source.scan import BoundedTable, scan
from tests.party_node.tables import GRID_BITS, KEY, LEVEL, UNIT, codes_by_subject, csv, parquet, read, settings

ROWS = 300
GENERATOR = np.random.default_rng(11)
SUBJECTS = [f"s-{i:05}" for i in range(ROWS)]
CELLS = [
    (f"{x:.6f}", str(c))
    for x, c in zip(GENERATOR.uniform(-1.2, 1.2, ROWS), GENERATOR.choice(["u", "v", "w", ""], ROWS), strict=True)
]
LINES = [f"{subject},{x},{c}" for subject, (x, c) in zip(SUBJECTS, CELLS, strict=True)]


def text(lines: list[str], head: str = "id,x,c", end: str = "\n") -> str:
    return head + end + "".join(line + end for line in lines)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> BoundedTable:
    return read(csv(tmp_path_factory.mktemp("reference"), text(LINES)))


def same(table: BoundedTable, reference: BoundedTable) -> None:
    assert np.array_equal(table.bounded.codes, reference.bounded.codes)
    assert table.bounded.digest() == reference.bounded.digest()
    assert table.alignment.digest == reference.alignment.digest
    assert table.alignment.rows == ROWS
    assert table.findings == reference.findings


def test_each_row_has_the_codes_of_its_own_cells(reference: BoundedTable) -> None:
    found = codes_by_subject(reference, SUBJECTS)
    for subject, (x, c) in zip(SUBJECTS, CELLS, strict=True):
        expected = round(max(-1.0, min(1.0, float(x))) * UNIT)
        assert found[subject] == [expected, *LEVEL.get(c or "v", LEVEL["other"])]


@given(order=st.permutations(range(ROWS)))
def test_any_order_of_the_file_gives_the_same_codes(
    tmp_path_factory: pytest.TempPathFactory, reference: BoundedTable, order: list[int]
) -> None:
    path = csv(tmp_path_factory.mktemp("shuffled"), text([LINES[i] for i in order]))
    same(read(path), reference)


@pytest.mark.parametrize(
    "written",
    [
        text(LINES).removesuffix("\n"),
        text(LINES, end="\r\n"),
        "\ufeff" + text(LINES),
        text(LINES).replace("\n", "\n\n"),
        text([f'"{line.replace(",", chr(34) + "," + chr(34))}"' for line in LINES]),
        text([f" {line}" for line in LINES]),
        text([",".join(line.split(",")[::-1]) for line in LINES], head="c,x,id"),
        text([f'{line},"free text, with a\nline break and 4711"' for line in LINES], head="id,x,c,remark"),
    ],
    ids=["no last line end", "CRLF", "BOM", "blank lines", "quoted", "blanks", "columns reversed", "more columns"],
)
def test_any_way_of_writing_the_file_gives_the_same_codes(
    tmp_path: Path, reference: BoundedTable, written: str
) -> None:
    same(read(csv(tmp_path, written)), reference)


def test_compressed_and_with_another_delimiter(tmp_path: Path, reference: BoundedTable) -> None:
    same(read(csv(tmp_path, gzip.compress(text(LINES).encode()), "rows.csv.gz")), reference)
    for delimiter in (";", "\t", "|", "~"):
        same(read(csv(tmp_path, text(LINES).replace(",", delimiter)), delimiter=delimiter), reference)
    same(read(csv(tmp_path, text(LINES), "rows.txt"), format="csv"), reference)


@pytest.mark.parametrize("rows_in_group", [1, 7, ROWS])
@pytest.mark.parametrize("name", ["rows.parquet", "rows.pq", "rows.dat"])
def test_the_same_table_in_parquet(tmp_path: Path, reference: BoundedTable, rows_in_group: int, name: str) -> None:
    columns = {"id": SUBJECTS, "x": [float(x) for x, _ in CELLS], "c": [c or None for _, c in CELLS]}
    path = parquet(tmp_path, columns, name, row_group_size=rows_in_group)
    same(read(path, format="parquet" if name == "rows.dat" else None), reference)


@pytest.mark.parametrize("quoted", [False, True])
def test_a_file_of_many_blocks_gives_the_codes_of_its_rows(
    tmp_path: Path, reference: BoundedTable, quoted: bool
) -> None:
    # A remark of 16 kB makes three hundred rows span several of Arrow's blocks of 1 MiB; a quoted one also has line ends.
    remark = '"' + "a,\nb" * 4096 + '"' if quoted else "r" * 16384
    path = csv(tmp_path, text([f"{line},{remark}" for line in LINES], head="id,x,c,remark"))
    assert path.stat().st_size > 4 << 20
    same(read(path), reference)


def test_identifiers_as_numbers_are_their_digits(tmp_path: Path) -> None:
    rows = {"x": [0.0, 0.5, 1.0], "c": ["u", "v", "u"]}
    digits = ["7", "12345678901234567", "30"]
    by_text = read(csv(tmp_path, text([f"{i},{x},{c}" for i, x, c in zip(digits, *rows.values(), strict=True)])))
    for kind in (pa.string(), pa.int64(), pa.uint64()):
        identifiers = pa.array(digits if kind == pa.string() else [int(i) for i in digits], kind)
        for column in (identifiers, identifiers.dictionary_encode()):
            table = read(parquet(tmp_path, {"id": column, **rows}))
            assert table.alignment.digest == by_text.alignment.digest
            assert np.array_equal(table.bounded.codes, by_text.bounded.codes)


def test_leading_zeros_and_case_count_white_space_and_unicode_forms_do_not(tmp_path: Path) -> None:
    def digest(identifier: str) -> str:
        return read(csv(tmp_path, f"id,x,c\n{identifier},0,u\n")).alignment.digest

    assert digest("7") != digest("07")
    assert digest("a7") != digest("A7")
    assert digest("7") == digest("  7\t")
    assert digest("Mu\u0308ller") == digest("M\u00fcller")


def test_two_hospitals_with_other_columns_and_orders_have_equal_digests(tmp_path: Path) -> None:
    north = read(csv(tmp_path, text(LINES), "north.csv"))
    glucose = {"glucose": {"kind": "numeric", "lower": 2, "upper": 30}}
    order = np.random.default_rng(5).permutation(ROWS)
    values = [4 + i % 11 for i in range(ROWS)]
    south = read(
        parquet(tmp_path, {"glucose": [values[i] for i in order], "id": [SUBJECTS[i] for i in order]}), glucose
    )
    assert north.alignment.digest == south.alignment.digest
    assert north.bounded.digest() != south.bounded.digest()
    expected = {subject: [round((value - 16) / 14 * UNIT)] for subject, value in zip(SUBJECTS, values, strict=True)}
    assert codes_by_subject(south, SUBJECTS) == expected


@pytest.mark.parametrize("change", ["another patient", "a patient less", "another key", "another roster"])
def test_other_patients_other_digest(tmp_path: Path, reference: BoundedTable, change: str) -> None:
    lines, key = LINES, KEY
    if change == "another patient":
        lines = [*LINES[:-1], LINES[-1].replace("s-", "t-")]
    elif change == "a patient less":
        lines = LINES[:-1]
    elif change == "another key":
        key = KEY[::-1]
    path = csv(tmp_path, text(lines))
    if change == "another roster":
        described = settings(path).model_copy(update={"roster": "cohort-2"})
        digest = scan(described, key, described.declarations(), GRID_BITS).table().alignment.digest
    else:
        digest = read(path, key=key).alignment.digest
    assert digest != reference.alignment.digest


def test_records_of_a_subject_stay_together_in_an_order_of_their_own(tmp_path: Path) -> None:
    lines = [f"{subject},{visit},{visit / 4},u" for subject in ("a", "b") for visit in (1, 2)]
    digests, codes = set(), set()
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        path = csv(tmp_path, text([lines[i] for i in order], head="id,visit,x,c"))
        table = read(path, rows_per_subject=2, record="visit")
        digests.add(table.alignment.digest)
        codes.add(table.bounded.digest())
    assert (len(digests), len(codes)) == (1, 1)
