"""Tables larger than memory: frozen rows, mixtures, ranges and products hold pieces of them, and are those of the whole table."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from dprelease.mechanisms.moments.privatize import coded
from dprelease.mechanisms.ranges.terms import CELLS
from dprelease.privatization import privatize
from tests.support.noise import SeededNoise
from tests.support.rounds import first_blocks, in_published_ranges, ranges_first
from tests.support.specs import TWO_PARTIES, build_spec, private_blocks, random_rows

ALONE = {"north": TWO_PARTIES["north"]}


@pytest.mark.parametrize("piece", [1, 100, 333])
@pytest.mark.parametrize("mechanism", ["mixed", "rows", "ranges", "moments"])
def test_blocks_are_the_same_to_the_bit_whatever_the_pieces(mechanism: str, piece: int) -> None:
    spec = build_spec(ALONE if mechanism == "moments" else TWO_PARTIES, mechanism=mechanism, rows=61)
    whole = private_blocks(spec, SeededNoise(3))
    with patch("dprelease.arrays.PIECE_BYTES", piece):
        assert private_blocks(spec, SeededNoise(3)) == whole


@pytest.mark.parametrize("clipped", [False, True])
def test_each_row_is_coded_by_itself(clipped: bool) -> None:
    spec = build_spec(mechanism="moments", rows=61)
    tables = {part.party: random_rows(spec, part.party) for part in spec.parties}
    if clipped:
        first = ranges_first(spec)
        spec = in_published_ranges(first, first_blocks(first, tables, SeededNoise(3)))
    rows = tables["north"]
    with patch("dprelease.arrays.PIECE_BYTES", 100):
        in_pieces = [coded(piece, spec) for piece in rows.pieces()]
    assert len(in_pieces) > 2
    assert np.array_equal(np.vstack(in_pieces), coded(rows, spec))


def test_pieces_of_checked_rows_are_not_checked_again() -> None:
    rows = random_rows(build_spec(rows=61), "north")
    with (
        patch("dprelease.arrays.PIECE_BYTES", 100),
        patch("dprelease.data.bounding.within", side_effect=AssertionError),
    ):
        assert np.array_equal(np.vstack([piece.codes for piece in rows.pieces()]), rows.codes)


def test_counts_of_ranges_are_added_up_piece_by_piece() -> None:
    """Four thousand pieces of one row hold a few arrays of counts, not one each."""
    spec = build_spec(ALONE, mechanism="ranges", rows=4000)
    rows = random_rows(spec, "north")
    with patch("dprelease.arrays.PIECE_BYTES", 1):
        tracemalloc.start()
        privatize(rows, spec, "north", SeededNoise(3))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < spec.rows * CELLS * 8


HOLDS = """
import json, os, sys
from pathlib import Path
import numpy as np
from dprelease.data.bounding import BoundedRows
from dprelease.mechanisms.base import Inputs
from dprelease.mechanisms.moments.privatize import OwnMoments, coded
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.schedule import CorrelatedRandomness
from dprelease.mpc.exchange import masked
from dprelease.mpc.schedule import Schedule
from dprelease.mpc.exchange import share
from party_node.state.frozen import FrozenRows
from party_node.state.session import SessionFolder
from tests.support.measured import forget_peak, measured
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric

ROWS, WIDTH, BITS = 1 << 21, 8, 10
columns = tuple(numeric(f"x{place}") for place in range(WIDTH))
mixed, ranges, moments = (
    build_spec({"north": columns}, mechanism=name, rows=ROWS, outputs=4, grid_bits=BITS)
    for name in ("mixed", "ranges", "moments")
)
folder, some = Path(sys.argv[1]), np.random.default_rng(1).integers(-1 << BITS, 1 << BITS, (1 << 16, WIDTH), np.int32)
schedule = Schedule("5e" * 32, {"north": WIDTH, "south": WIDTH}, ROWS, BITS, 0, False)
frozen, held = FrozenRows(folder / "frozen" / "release"), {}

def stage(name, of):
    before = measured(os.getpid(), "VmRSS")
    forget_peak(os.getpid())
    made = of()
    held[name] = (measured(os.getpid(), "VmHWM") - before) >> 10
    return made

session = SessionFolder(folder / "joint")
codes = session.map_rows((some for _ in range(ROWS >> 16)), WIDTH)
bounded = stage("bound", lambda: BoundedRows(codes, columns, BITS))
stage("freeze", lambda: frozen.keep(bounded, None))
digest = stage("digest", bounded.digest)
rows = stage("read", lambda: frozen.read(columns, BITS, None, digest))
inputs = Inputs(rows, SeededNoise(3))
for spec in (mixed, ranges):
    stage(spec.mechanism, lambda: mechanism_of(spec).privatize(spec, "north", inputs))
matrix = stage("code", lambda: session.map_rows((coded(piece, moments) for piece in rows.pieces()), WIDTH))
assert np.array_equal(matrix[-(1 << 16):], some)
stage("own products", lambda: OwnMoments.of(matrix, np.zeros(WIDTH, bool), schedule))
stage("mask", lambda: [None for _ in masked(matrix, bytes(32), schedule)])
(pair,) = schedule.pairs
dealt = CorrelatedRandomness("", bytes(32), b"", {pair: np.zeros((WIDTH, WIDTH), np.uint64)}, ())
stage("multiply", lambda: share(pair, "south", matrix, dealt, masked(matrix, bytes(32), schedule), schedule))
print(json.dumps(held))
"""


def test_no_stage_holds_a_table(tmp_path: Path) -> None:
    """64 MiB of codes; no stage rises by more than 32."""
    done = subprocess.run([sys.executable, "-c", HOLDS, str(tmp_path)], check=True, capture_output=True, text=True)
    assert {name: most for name, most in json.loads(done.stdout).items() if most > 48} == {}
