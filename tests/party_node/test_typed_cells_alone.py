"""One patient's cells never change how another's are read, nor refuse the table, where a file has types: their ends too."""

import decimal
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from party_node.settings import PartySettings
from party_node.source.scan import scan
from tests.party_node.tables import GRID_BITS, KEY, codes_by_subject, parquet, settings

PATIENTS = [f"p{number}" for number in range(8)]
DAY = 86_400
WHOLE = [0, 1, 7, 18_000, 18_000 * DAY, -7_000 * DAY, -(2**40)]
ENDS = [-(2**63), 2**63 - 1, -(2**62), *WHOLE]

NUMBERS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), [0.1, 7.0, np.nan, np.inf, -np.inf, 1e308, 5e-324]),
    "single": (pa.float32(), [0.1, 7.0, np.nan, np.inf, 3.4e38, 1e-45]),
    "half": (pa.float16(), [np.float16(each) for each in (0.1, 7, np.nan, np.inf)]),
    "whole": (pa.int64(), ENDS),
    "byte": (pa.uint8(), [0, 7, 255]),
    "unsigned": (pa.uint64(), [0, 7, 2**64 - 1]),
    "decimal": (pa.decimal128(38, 10), [decimal.Decimal(each) for each in ("0.1", "7", "9" * 28)]),
    "bool": (pa.bool_(), [True, False]),
}
DATES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "date32": (pa.date32(), [0, 18_000, -7_000, -(2**31), 2**31 - 1]),
    "date64": (pa.date64(), [0, 18_000_000 * DAY, -7_000_000 * DAY, 2**31 * 1000 * DAY]),
    "seconds": (pa.timestamp("s"), WHOLE),  # Parquet keeps milliseconds of it
    **{unit: (pa.timestamp(unit), ENDS) for unit in ("ms", "us", "ns")},
}
CATEGORIES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "codes": (pa.int64(), ENDS),
    "flags": (pa.bool_(), [True, False]),
}
READ = NUMBERS | DATES | CATEGORIES


def described(path: Path) -> PartySettings:
    columns: dict[str, dict[str, Any]] = {name: {"kind": "numeric", "lower": -100, "upper": 1000} for name in NUMBERS}
    columns |= {name: {"kind": "categorical", "levels": ["1", "true"]} for name in CATEGORIES}
    for name in DATES:
        columns[name] = {"kind": "date"}
        columns[f"days_{name}"] = {"derived": {"days": ["2020-01-01", name]}, "lower": -30_000, "upper": 30_000}
        columns[f"age_{name}"] = {"derived": {"age": [name, "2020-01-01"]}, "lower": 0, "upper": 120}
    return settings(path, columns)


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    whole = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array(values, whole if pa.types.is_temporal(kind) else kind).cast(kind)


def test_a_cell_of_any_value_changes_no_other_code(tmp_path: Path) -> None:
    choose = random.Random(3)
    at = described(tmp_path / "rows.parquet")

    def codes(rows: dict[str, list[Any]]) -> dict[str, list[int]]:
        columns = {name: array(READ[name][0], values) for name, values in rows.items()}
        parquet(tmp_path, {"id": PATIENTS} | columns, row_group_size=choose.choice([4, 8]))
        return codes_by_subject(scan(at, KEY, at.declarations(), GRID_BITS).table(), PATIENTS)

    for _ in range(12):
        rows = {name: [choose.choice([*values[:3], None]) for _ in PATIENTS] for name, (_, values) in READ.items()}
        before, changed = codes(rows), choose.choice(PATIENTS)
        for name, (_, values) in READ.items():
            rows[name][PATIENTS.index(changed)] = choose.choice([*values, None])
        assert codes(rows) | {changed: before[changed]} == before
