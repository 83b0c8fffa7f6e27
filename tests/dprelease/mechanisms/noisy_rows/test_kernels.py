"""Signed sums: numpy, numba and the words of the contract give the same bytes, and one function chooses among them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.mechanisms.noisy_rows import mixing
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing, Kernel, kernel_for, signed_sums
from dprelease.privacy.public_stream import PublicStream
from tests.support.specs import SEED


def compiled() -> Kernel:
    found = mixing.in_numba()
    if found is None:
        pytest.skip("numba is not installed: pip install 'dprelease[fast]'")
    return found


@pytest.fixture(params=["numpy", "numba", "the loop itself"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return {"numpy": lambda: mixing.in_numpy, "numba": compiled, "the loop itself": lambda: mixing._loop}[
        request.param
    ]()


def by_the_contract(packed: np.ndarray, codes: np.ndarray) -> np.ndarray:
    signs = 1 - 2 * np.unpackbits(packed[:, None, :], axis=1, bitorder="little").astype(np.int64)
    return signs.reshape(-1, packed.shape[1]).T @ codes


@pytest.mark.parametrize("largest", [1, 1000, (1 << 21) - 1, 1 << 21, 1 << 40])
@pytest.mark.parametrize(("groups", "outputs", "columns"), [(8, 1, 1), (8, 3, 2), (16, 17, 5)])
def test_every_kernel_gives_the_sums(kernel: Kernel, groups: int, outputs: int, columns: int, largest: int) -> None:
    random = np.random.default_rng(largest)
    packed = random.integers(0, 256, (groups, outputs)).astype(np.uint8)
    codes = random.integers(-largest, largest + 1, (8 * groups, columns))
    found = signed_sums(packed, codes, largest, kernel)
    assert found.dtype == np.int64
    assert np.array_equal(found, by_the_contract(packed, codes))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_of_paired_columns_do_not_run_into_one_another(kernel: Kernel, sign: int) -> None:
    largest = (1 << 21) - 1
    codes = np.full((8 * mixing.MOST_GROUPS, 2), sign * largest)
    codes[:, 1] *= -1
    found = signed_sums(np.zeros((mixing.MOST_GROUPS, 1), np.uint8), codes, largest, kernel)
    assert found.tolist() == [codes.sum(axis=0).tolist()]


@given(st.integers(1, 20), st.integers(1, 300), st.integers(1, 3))
def test_numba_and_numpy_give_the_same_bytes(outputs: int, rows: int, columns: int) -> None:
    compiled()
    codes = np.random.default_rng(rows).integers(-(1 << 16), 1 << 16, (rows, columns)).astype(np.int32)
    found = []
    with pytest.MonkeyPatch.context() as patched:
        for worth in (0, mixing.WORTH_COMPILING):
            patched.setattr(mixing, "WORTH_COMPILING", worth)
            found.append(BernoulliMixing(PublicStream(SEED), outputs, rows).apply([codes]).tobytes())
    assert found[0] == found[1]


def test_numba_is_chosen_where_it_pays_and_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_for(mixing.WORTH_COMPILING - 1) is mixing.in_numpy
    assert kernel_for(mixing.WORTH_COMPILING) is compiled()
    monkeypatch.setattr(mixing, "in_numba", lambda: None)
    assert kernel_for(mixing.WORTH_COMPILING) is mixing.in_numpy


def test_without_numba_nothing_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert mixing.in_numba.__wrapped__() is None
    assert not caplog.records


@pytest.mark.parametrize("error", ["OSError", "ImportError", "SystemError"])
def test_a_numba_that_does_not_work_is_done_without(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "numba.py").write_text(f"raise {error}('cannot load libllvmlite.so')\n")
    for name in [name for name in sys.modules if name.split(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    assert mixing.in_numba.__wrapped__() is None
    assert [record.getMessage() for record in caplog.records] == [
        "numba does not work here, and numpy mixes in its place: cannot load libllvmlite.so"
    ]


def test_numba_is_not_loaded_for_little_work() -> None:
    small = (
        "import sys, numpy as np\n"
        "from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing\n"
        "from dprelease.privacy.public_stream import PublicStream\n"
        "BernoulliMixing(PublicStream(bytes(32)), 5, 1000).apply([np.ones((1000, 2), np.int32)])\n"
        "assert not {'numba', 'llvmlite'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", small], check=True)


def test_nothing_compiled_is_kept_in_a_folder() -> None:
    assert not compiled().stats.cache_path  # type: ignore[attr-defined]
