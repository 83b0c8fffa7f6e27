"""One table, however it is written down: any order, any file, any block; and equal digests at every hospital."""

from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize("rows_in_group", [1, 7, ROWS])
@pytest.mark.parametrize("name", ["rows.parquet", "rows.pq", "rows.dat"])
def test_the_same_table_in_parquet(tmp_path: Path, reference: BoundedTable, rows_in_group: int, name: str) -> None:
    columns = {"id": SUBJECTS, "x": [float(x) for x, _ in CELLS], "c": [c or None for _, c in CELLS]}
    path = parquet(tmp_path, columns, name, row_group_size=rows_in_group)
    same(read(path, format="parquet" if name == "rows.dat" else None), reference)


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
