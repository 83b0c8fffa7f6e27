"""Sums of products by dask: those of this process but for rounding, and the same to the bit on workers, one of which is killed."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask
import numpy as np
import pytest
from distributed import Client

from dprelease.errors import IntegrityError, InvalidInput, PeerUnavailable
from dprelease.estimators import by_dask
from dprelease.estimators.normal_equations import RegressionRows, RowProducts
from dprelease.mechanisms.noisy_rows import released
from dprelease.mechanisms.noisy_rows.released import BlockRows
from dprelease.release import folder
from dprelease.release.release import Release
from dprelease.version import __version__
from tests.support.clusters import kill_one, security, two_workers
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, new_consortium, numeric, publish

ROWS = 2000
PARTIES = {party: tuple(numeric(f"{party}{at}") for at in range(5)) for party in ("north", "south")}
NAMES = ("rows", "mixed")


def by_rows(view: Any, engine: Any, targets: int = 2) -> RegressionRows:
    d = view.table.shape[1]
    return RegressionRows.of(view, [*range(targets, d)], [*range(targets)], mixed=view.mixed, engine=engine)


def told(products: RowProducts) -> list[np.ndarray]:
    return [products.xx, products.xy, products.yy, products.whole, *products.means]


@pytest.fixture(scope="module", params=NAMES)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """A release whose blocks stay in their files, read in small parts."""
    consortium, how = new_consortium(*PARTIES), {"outputs": 900} if request.param == "mixed" else {}
    made = publish(
        consortium, build_spec(PARTIES, mechanism=request.param, rows=ROWS, keys=consortium.keys, **how), SeededNoise(3)
    )
    kept = made.write(tmp_path_factory.mktemp("release"))
    with (
        patch.object(folder, "IN_FILE_BYTES", 1),
        patch.object(released, "READ_BYTES", 1 << 13),
        patch.object(by_dask, "MOST_COLUMNS", 3),
    ):
        yield kept.verify(made.root)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with (
        two_workers(tmp_path_factory.mktemp("cluster")) as (address, files),
        Client(address, security=security(files), set_as_default=False) as made,
    ):
        yield made


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("targets", [0, 2])
def test_sums_are_those_of_this_process(release: Release, targets: int, *, intercept: bool) -> None:
    local, found = (
        told(by_rows(release.scaled(), engine, targets).products(intercept=intercept)) for engine in ("local", "dask")
    )
    for one, other in zip(found, local, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_parts_carry_places_in_files_and_no_numbers_of_blocks(release: Release) -> None:
    table = release.scaled().table
    assert isinstance(table, BlockRows)
    part, read = by_dask._part(table, slice(100, 400), slice(2, 7)), partial(by_dask._read, version=__version__)
    assert len(pickle.dumps(part)) < 8 * 300 * 2 + 4000  # the weights of these rows, and little else
    np.testing.assert_array_equal(read(pickle.loads(pickle.dumps(part))), table[100:400][:, 2:7])  # noqa: S301


def test_an_integer_that_no_honest_block_has_is_refused_there_too(release: Release) -> None:
    view = release.scaled()
    assert isinstance(view.table, BlockRows)
    blocks = tuple(np.full_like(block, 1 << 53) for block in view.table.blocks)
    with pytest.raises(IntegrityError, match="2\\^53"):
        by_rows(replace(view, table=replace(view.table, blocks=blocks)), "dask").products(intercept=True)


def test_files_that_workers_do_not_see_are_named(release: Release, tmp_path: Path) -> None:
    rows = by_rows(release.scaled(), "dask")
    with (
        patch("numpy.fromfile", side_effect=FileNotFoundError),
        pytest.raises(IntegrityError, match=r"0\.block is not as .*not seen by workers \(FileNotFoundError\)"),
    ):
        rows.products(intercept=True)


def test_workers_of_another_version_take_no_sums(release: Release, client: Client) -> None:
    rows = by_rows(release.scaled(), "dask")
    with (
        client.as_current(),
        patch.object(by_dask, "__version__", "0.0.1"),
        pytest.raises(PeerUnavailable, match=r"\(RuntimeError\).* that they have this version of dprelease"),
    ):
        rows.products(intercept=False)


def test_without_the_extra_nothing_is_summed(release: Release) -> None:
    with (
        patch("dprelease.files.extras.find_spec", return_value=None),
        pytest.raises(InvalidInput, match=r"dprelease\[dask\]"),
    ):
        by_rows(release.scaled(), "dask").products(intercept=True)


def test_workers_give_the_same_to_the_bit_also_where_one_is_killed(release: Release, client: Client) -> None:
    rows = by_rows(release.scaled(), "dask")
    here = told(rows.products(intercept=True))
    with client.as_current():
        there = told(rows.products(intercept=True))
        passes: list[int] = []
        computed = by_dask._computed

        def dying(sums: Any) -> Any:
            passes.append(1)
            if len(passes) == 2:  # between the two passes, with the second under way
                under_way = [client.compute(each) for each in sums]
                kill_one(client)
                return tuple(each.result(timeout=200) for each in under_way)
            return computed(sums)

        with patch.object(by_dask, "_computed", dying):
            after = told(rows.products(intercept=True)) if "rows" in release.spec.mechanism else there
    assert dask.base.get_scheduler() is not client.get
    for one, two, three in zip(here, there, after, strict=True):
        assert np.array_equal(one, two)
        assert np.array_equal(one, three)
