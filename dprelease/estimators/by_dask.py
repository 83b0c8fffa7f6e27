"""Sums of products over released rows by dask.array, for tables that one machine takes too long for.

dask decides which worker takes which part, and repeats what a lost worker had. Workers read parts of the release's blocks, each
from the file that was verified here, at the same path. Sums are the same to the bit on any number of workers that compute alike.
They differ from those of one process by rounding, for parts are added up in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from dprelease.arrays import Floats, RowTable
from dprelease.errors import DpReleaseError, PeerUnavailable
from dprelease.files.extras import imported, require
from dprelease.mechanisms.noisy_rows import released
from dprelease.mechanisms.noisy_rows.released import BlockRows
from dprelease.version import __version__, check_worker

MOST_COLUMNS = 1 << 10
"""A part has no more: a worker holds a few parts and squares of as many columns, however wide the table is."""

LONGEST_WITHOUT_WORKERS = 60.0
"""Seconds: workers that are started anew are back by then."""

_LOOK_SECONDS = 5.0


def products_by_dask(
    ones: Floats, x: RowTable, y: RowTable, *, intercept: bool
) -> tuple[Floats, Floats, Floats, Floats, tuple[Floats, Floats]]:
    """The numbers of `RowProducts`, in its order.

    Args:
        ones: (r,) v.
        x: (r, d).
        y: (r, l).
        intercept: whether v is regressed out; it is not zero then.

    Raises:
        InvalidInput: dask is not installed.
        IntegrityError: an integer is one that no honest block has.
        PeerUnavailable: dask did not take the sums.
    """
    require("distributed")
    array = imported("dask.array")
    step = max(1, released.READ_BYTES // (8 * min(MOST_COLUMNS, max(1, x.shape[1]))))
    v, tables = array.from_array(ones, chunks=step), [_lazy(array, table, step) for table in (x, y)]
    product, means = partial(_product, array), (np.zeros(x.shape[1]), np.zeros(y.shape[1]))
    if intercept:
        first, second = _computed([product(v[:, None], table) for table in tables])
        means = first[0] / float(ones @ ones), second[0] / float(ones @ ones)
    whole = (tables[0] * tables[0]).sum(axis=0)
    rest_x, rest_y = (table - v[:, None] * mean for table, mean in zip(tables, means, strict=True))
    xx, xy, yy, whole = _computed(
        [product(rest_x, rest_x), product(rest_x, rest_y), (rest_y * rest_y).sum(axis=0), whole]
    )
    return xx, xy, yy, whole, means


def _product(array: Any, left: Any, right: Any) -> Any:
    """left^T right, as dask sees it: a sum over the products of their parts, in an order that is the same for all workers."""
    return array.blockwise(
        _of_parts,
        "kij",
        left,
        "ki",
        right,
        "kj",
        adjust_chunks={"k": 1},
        dtype=np.float64,
        meta=np.zeros((0, 0, 0)),
        version=__version__,
    ).sum(axis=0)


def _of_parts(left: Floats, right: Floats, version: str) -> Floats:
    """(1, d, e). A copy, for numpy takes another way to multiply an array with itself, and that is not so on every worker."""
    check_worker(version)
    return (np.ascontiguousarray(left.T) @ right)[None]


def _lazy(array: Any, table: RowTable, step: int) -> Any:
    """A table as dask sees it: parts of so many rows, which are read when they are needed."""
    delayed, (count, width) = imported("dask").delayed(_read, pure=False), table.shape

    def part(rows: slice, columns: slice) -> Any:
        shape = rows.stop - rows.start, columns.stop - columns.start
        return array.from_delayed(delayed(_part(table, rows, columns), __version__), shape, np.float64)

    columns = _slices(width, MOST_COLUMNS)
    if not columns:
        return array.zeros((count, 0), chunks=(step, 1))
    return array.block([[part(rows, each) for each in columns] for rows in _slices(count, step)])


def _slices(count: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _part(table: RowTable, rows: slice, columns: slice) -> BlockRows | Floats:
    """Some rows and columns, for another process: of files their places, and numbers that are in memory."""
    if not isinstance(table, BlockRows):
        return table[rows][:, columns]
    return table.part(rows).some(columns)


def _read(part: BlockRows | Floats, version: str) -> Floats:
    check_worker(version)
    return part[:]


def _computed(sums: Sequence[Any]) -> tuple[Floats, ...]:
    distributed = imported("distributed")
    try:
        try:
            client = distributed.Client.current()
        except ValueError:  # none is open: threads of this process
            return tuple(imported("dask").compute(*sums))
        futures = client.compute(list(sums))
        while not all(future.done() for future in futures):
            _wait_for_a_worker(client)
            with suppress(TimeoutError):
                distributed.wait(futures, timeout=_LOOK_SECONDS)
        return tuple(client.gather(futures))
    except DpReleaseError:
        raise
    except Exception as error:
        raise PeerUnavailable(
            f"dask did not take the sums over released rows ({type(error).__name__}): see that its workers run, and that they "
            "have this version of dprelease",
            peer="the cluster",
        ) from error


def _wait_for_a_worker(client: Any) -> None:
    """Return as soon as there is one. A scheduler without any keeps sums for ever, and says nothing."""
    try:
        client.wait_for_workers(1, timeout=LONGEST_WITHOUT_WORKERS)
    except TimeoutError:
        raise PeerUnavailable(
            f"the cluster has had no worker for {LONGEST_WITHOUT_WORKERS:.0f} seconds: start workers, then fit again",
            peer="the cluster",
        ) from None
