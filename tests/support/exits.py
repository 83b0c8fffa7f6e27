"""Made-up exits of patients, and releases of joint moments over them without a table in between: fast enough for simulations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dprelease.data.columns import CategoricalColumn
from dprelease.data.exits import Exits
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.release.release import Release
from tests.support.specs import build_spec

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

BINARY = ("no", "yes")


def drawn_exits(
    random: np.random.Generator,
    n: int,
    *,
    ratio: tuple[float, ...],
    rate: tuple[float, ...],
    lost: tuple[float, float],
    share: float,
    until: float,
    turn: float = np.inf,
) -> tuple[Places, Numbers, Places]:
    """(group, time, cause) of n patients, each (n,); the cause is -1 for a loss. Times are exponential.

    Args:
        random: draws them.
        n: patients.
        ratio: hazard ratio of each cause in the second group.
        rate: of each cause in the first group.
        lost: rates of losses in both groups.
        share: of the second group.
        until: end of follow-up.
        turn: time from which the ratios are the other way round, so that hazards cross.
    """
    group = (random.random(n) < share).astype(int)
    ends, turn = [], min(turn, until)
    for own, more in zip(rate, ratio, strict=True):
        alike = random.exponential(1 / own, n)
        early, late = alike / more, turn + (alike - more * turn) * more
        ends.append(np.where(group, np.where(early <= turn, early, late), alike))
    left = np.minimum(random.exponential(1 / np.array(lost)[group]), until)
    time = np.minimum(np.min(ends, axis=0), left)
    return group, time, np.where(time < left, np.argmin(ends, axis=0), -1)


def places_of(exits: Exits, time: Numbers, cause: Places) -> Places:
    """(n,) level of each patient: as docs/format.md says of exits.

    Args:
        exits: cuts and causes.
        time: (n,) until the event or the loss.
        cause: (n,) place of the cause; -1 for a loss.
    """
    cuts, ended = np.array(exits.cuts), cause >= 0
    interval = np.where(ended, np.searchsorted(cuts, time, "left"), np.searchsorted(cuts, time, "right"))
    kind = np.where(ended, cause, len(exits.causes))
    return np.where(interval < len(cuts), kind * len(cuts) + interval, exits.followed)


def exit_columns(exits: Exits, categories: Mapping[str, tuple[str, ...]]) -> tuple[CategoricalColumn, ...]:
    """The exits and other categories, all exhaustive."""
    every = {"exit": exits.levels, **categories}
    return tuple(
        CategoricalColumn(name=name, levels=levels, exhaustive=True, fill=levels[-1]) for name, levels in every.items()
    )


def exit_release(
    columns: tuple[CategoricalColumn, ...],
    places: Mapping[str, Places],
    sd: float = 0.0,
    random: np.random.Generator | None = None,
) -> Release:
    """A release whose view is given.

    Args:
        columns: exhaustive categories.
        places: column to the place of each patient's level.
        sd: of the noise of an entry, patients.
        random: of the noise.
    """
    parts = []
    for column in columns:
        own = np.eye(len(column.levels))[places[column.name]]
        parts.append(own[:, :1] - own[:, 1:] if len(column.levels) == 2 else own)
    n = len(parts[0])
    x = np.column_stack([np.ones(n), *parts])
    layout = Layout(columns)
    values = (x.T @ x)[layout.rows, layout.cols]
    if random is not None:
        values = values + sd * random.normal(size=layout.entries)
    view = NoisyMoments(layout, layout.matrix(values, float(n)), layout.matrix(np.full(layout.entries, sd), 0.0), n)
    spec = build_spec({"registry": columns[:1], "clinic": columns[1:]}, mechanism="moments", rows=n)
    release = Release(spec, {}, ("a guarantee",))
    release.__dict__.update(view=view, reaches=())
    return release
