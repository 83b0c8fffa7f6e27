"""Releases of joint moments for tests of analyses: raw tables in, exact moments out, or noisy ones of a chosen scale."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dprelease.data.columns import CategoricalColumn, Column, Number, NumericColumn
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import Moments, NoisyMoments
from dprelease.release.reaches import Reach
from dprelease.release.release import Release
from tests.dprelease.estimators.moments import noisy_moments
from tests.support.kinds import is_binary
from tests.support.specs import build_spec

Table = Mapping[str, npt.ArrayLike]


def coded(columns: tuple[Column, ...], table: Table) -> np.ndarray:
    """(n, p) variables in scaled units; cells of a category are its levels' names."""
    parts = []
    for column in columns:
        cells = np.asarray(table[column.name])
        if isinstance(column, Number):
            parts.append((column.measure(cells.tolist()) - column.midpoint) / column.half_width)
        elif is_binary(column):
            parts.append(np.where(cells == column.levels[0], 1.0, -1.0))
        else:
            known = [cells == level for level in column.levels]
            rest = [] if column.exhaustive else [~np.any(known, axis=0)]
            parts += [each.astype(float) for each in (*known, *rest)]
    return np.column_stack(parts)


def released(columns: tuple[Column, ...], table: Table, sd: float = 0.0, seed: int | None = None) -> Release:
    """A release whose view is given, without blocks behind it.

    Args:
        columns: declarations, of two hospitals.
        table: name to (n,) raw cells.
        sd: of the noise of an entry per patient, in scaled units; 0 for exact moments.
        seed: of the noise; none is drawn without one, though it is declared.
    """
    rows = coded(columns, table)
    if sd:
        view = noisy_moments(columns, rows, sd, None if seed is None else np.random.default_rng(seed))
    else:
        x = np.column_stack([np.ones(len(rows)), rows])
        view = NoisyMoments(Layout(columns), x.T @ x, np.zeros((x.shape[1],) * 2), len(rows))
    return viewed(columns, view)


def viewed(columns: tuple[Column, ...], view: Moments, reaches: tuple[Reach, ...] = ()) -> Release:
    """A release whose moments are given, and how far numbers reach where they are in ranges."""
    spec = build_spec({"north": columns[:1], "south": columns[1:]}, mechanism="moments", rows=view.rows)
    release = Release(spec, {}, ("a guarantee",))
    release.__dict__.update(view=view, reaches=reaches)
    return release


def number(name: str, cells: npt.ArrayLike, unit: str = "") -> Number:
    """A declaration whose bounds no cell leaves."""
    values = np.asarray(cells, float)
    reach = 0.1 * (values.max() - values.min())
    return NumericColumn(
        name=name, lower=values.min() - reach, upper=values.max() + 2 * reach, unit=unit, fill=values.min()
    )


def category(name: str, *levels: str) -> CategoricalColumn:
    return CategoricalColumn(name=name, levels=levels)
