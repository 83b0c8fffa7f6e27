"""Rows that are larger than memory: fits read some at a time, out of files, and find what they find on all at once."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from dprelease.arrays import FileRows
from dprelease.errors import IntegrityError
from dprelease.estimators import FitResult, fit
from dprelease.mechanisms.noisy_rows import released
from dprelease.release import folder
from dprelease.release.block import Block, expected_header
from dprelease.release.release import Release
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, new_consortium, numeric, one_block_each, publish

ROWS, COLUMNS = 20_000, 64


def drawn() -> Release:
    """Rows of two hospitals whose columns share a part, with noise of the size that the spec declares."""
    parties = {party: tuple(numeric(f"{party}{at}") for at in range(COLUMNS // 2)) for party in ("north", "south")}
    spec = build_spec(parties, mechanism="rows", rows=ROWS, epsilon=3000.0)
    random, blocks = np.random.default_rng(0), {}
    shared = random.normal(0, 300, (ROWS, 1))
    for party in parties:
        noise = random.normal(0, spec.terms.noise_of(party).scale, (ROWS, COLUMNS // 2))  # type: ignore[attr-defined]
        own = shared + random.normal(0, 100, noise.shape) + noise
        blocks[party] = Block(expected_header(spec, party), np.rint(own).astype(np.int64))
    return one_block_each(spec, blocks)


def told(found: FitResult) -> np.ndarray:
    """All numbers of a fit."""
    learned = found.inference
    return np.concatenate(
        [found.coef[0], found.intercept, vars(found.quality)["mse"], learned.estimate[0], learned.standard_error[0]]
    )


@pytest.mark.parametrize("method", [None, "ols"])
def test_a_fit_takes_memory_for_some_rows_and_not_for_all(monkeypatch: pytest.MonkeyPatch, method: str | None) -> None:
    release = drawn()
    whole = told(fit(release, ["north0"], method=method))
    monkeypatch.setattr(released, "READ_BYTES", 1 << 18)
    release = one_block_each(release.spec, {party: block for party, (block,) in release.blocks.items()})
    tracemalloc.start()
    try:
        found = told(fit(release, ["north0"], method=method))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(found, whole, rtol=1e-9)
    assert most < 8 * ROWS * COLUMNS / 3


def test_large_blocks_stay_in_their_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consortium = new_consortium("north", "south")
    made = publish(consortium, build_spec(mechanism="rows", rows=200, keys=consortium.keys), SeededNoise(3))
    kept = made.write(tmp_path)
    in_memory = kept.verify(made.root)
    monkeypatch.setattr(folder, "IN_FILE_BYTES", 1)
    monkeypatch.setattr(released, "READ_BYTES", 1 << 9)
    in_files = kept.verify(made.root)
    assert all(isinstance(block.values, FileRows) for (block,) in in_files.blocks.values())
    scaled = in_files.scaled()
    assert len(list(released.turns(*scaled.table.shape))) > 1
    np.testing.assert_array_equal(
        np.vstack([scaled.table[rows] for rows in released.turns(*scaled.table.shape)]), in_memory.scaled().values
    )
    os.truncate(kept.block("north"), len(made.blocks["north"]) // 2)
    with pytest.raises(IntegrityError, match="is not as it was verified"):  # a mapped file would end the process
        fit(in_files, ["glucose"])
    kept.block("north").write_bytes(made.blocks["north"][:-1] + b"\1")
    with pytest.raises(IntegrityError, match="differs from the digest"):
        kept.verify(made.root)
