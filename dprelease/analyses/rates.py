"""Rates of events over person-time by group, and Poisson regression of a count.

Rates: sums of events and of time over a group are entries of the Gram matrix with the group's indicator. The logarithm of a
rate has the sampling error events^(-1/2), by Poisson's law.

The count of a Poisson regression has the levels of a category for values. The log-linear law of it and its features
(`dprelease.estimators.log_linear`) gives the mean count of every combination of features, and maximum likelihood on these
means the log ratios. Intervals follow from influence functions. So they hold where counts spread more than Poisson's law has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.combinations import law_of
from dprelease.analyses.draws import CLEAR, LEAST, Draws, clear, compared, draws_of, features, levels, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import joint_test
from dprelease.analyses.logistic import on_law
from dprelease.analyses.result import Analysis, repeatable
from dprelease.analyses.weighted_logit import Poisson
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.result import per
from dprelease.one_line import listed
from dprelease.release.release import Release

UNTOLD = "Left out, for noise does not tell their events or time from none: {names}."


@repeatable
def rates(release: Release, events: str, time: str, by: str) -> Analysis:
    """Events over person-time in groups.

    Tables: ``events`` and ``time`` (noise only), ``rates`` and ``rate ratios`` to the first group (noise and sampling). Test:
    ``the rates are equal``. Groups of which noise does not tell events and time from none are left out.

    Args:
        release: a verified release of joint moments.
        events: a count, or an indicator of an event.
        time: person-time of a patient, a number.
        by: a category or binary.

    Raises:
        InvalidInput: an unknown name, no moments, or fewer than two groups with events and time that are told from none.
    """
    event, clock, groups = number(release, events), number(release, time), compared(release, levels(release, by))
    draws = draws_of(release, (event, clock, *groups[:-1]))
    count, person = _sums(draws)
    seen = clear(count) & (np.median(person, axis=0) > CLEAR * person.std(axis=0)) & (np.median(person, axis=0) > 0)
    names = tuple(name for name, told in zip(groups, seen, strict=True) if told)
    left_out = [name for name in groups if name not in names]
    if len(names) < 2:
        raise InvalidInput(
            f"fewer than two groups of {by} have events and time that are told from none: the noise of the events has the "
            f"standard deviations {', '.join(f'{sd:.3g}' for sd in count.std(axis=0))}"
        )
    units = release.column(event).released_unit or "events", release.column(clock).unit

    def work(draws: Draws) -> dict[str, Estimates]:
        count, person = (each[:, seen] for each in _sums(draws))
        return _tables(names, np.maximum(count, LEAST), np.maximum(person, least), *units)

    least = np.median(person[:, seen], axis=0) * 1e-6
    tables = tables_of(draws, work)
    variance = 1 / tables["events"].location
    covariance = np.repeat(variance[:, :1, None], len(names) - 1, axis=1) + np.einsum(
        "ti,ij->tij", variance[:, 1:], np.eye(len(names) - 1)
    )
    return Analysis(
        f"Rates of {event} over {clock} by {by}",
        release,
        draws.names,
        tables,
        {"the rates are equal": joint_test(tables["rate ratios"], covariance)},
        (
            *([UNTOLD.format(names=", ".join(left_out))] if left_out else []),
            "Events are taken to be independent, at a constant rate: repeated events of a patient make intervals too short.",
            "Events and time that were cut off at their public bounds count as the bounds.",
        ),
    )


def _sums(draws: Draws) -> tuple[Floats, Floats]:
    """(T, g) events and time in all groups, of which the last is what the others leave."""
    sums = draws.sums()
    within = sums[:, 1:3, 3:]
    within = np.concatenate([within, sums[:, 1:3, :1] - within.sum(axis=2, keepdims=True)], axis=2)
    return within[:, 0], within[:, 1]


def _tables(names: tuple[str, ...], count: Floats, person: Floats, of: str, unit: str) -> dict[str, Estimates]:
    log, variance = np.log(count / person), 1 / count
    ratio, spread = log[:, 1:] - log[:, :1], np.sqrt(variance[:, 1:] + variance[:, :1])
    shown = tuple(f"{name} to {names[0]}" for name in names[1:])
    return {
        "events": Estimates(names, count, units=(of,) * len(names)),
        "time": Estimates(names, person, units=(unit,) * len(names)),
        "rates": Estimates(names, log, np.sqrt(variance), link="log", units=(per(of, unit),) * len(names)),
        "rate ratios": Estimates(shown, ratio, spread, link="log", tested=True),
    }


_COUNT = re.compile(
    r"(?P<below>< 1)|(?:>= )?(?P<count>\d{1,6})|(?P<start>\d{1,6}) to (?P<end>\d{1,6})|(?P<part>\d{1,6}\.\d{1,6})"
)
"""A count, or a band of numbers that has one whole number."""


@repeatable
def poisson(release: Release, outcome: str, on: Sequence[str]) -> Analysis:
    """Poisson regression of a count on categories.

    Tables: ``coefficients``, ``rate ratios`` and ``intercept``; noise and sampling, and tested.

    Args:
        release: a verified release of joint moments.
        outcome: a category whose levels are counts, or bands of one count each.
        on: categories.

    Raises:
        InvalidInput: an unknown name, no moments, levels that are no counts, a feature that is a number, noise hides how a feature
            varies, or features nearly follow from one another.
    """
    names = levels(release, outcome)
    counts = dict(zip(release.column(names[0]).values, map(_count, release.column(names[0]).values), strict=True))
    others = [level for level, count in counts.items() if count is None]
    if others:
        raise InvalidInput(
            f"{outcome} has levels that are no counts, {listed(others)}; have its hospital declare bands of one count each before "
            'the release, as derived = { bands = "COLUMN", at = [1, 2, 3] }'
        )
    law = law_of(release, names[:1], features(release, on))
    values = np.array([count for count in counts.values() if count is not None])[law.cells[:, 0]]
    facts = {"mean": f"{law.shares @ values:.4g} of {outcome}"}
    found = on_law(release, law, values, on, Poisson, f"Poisson regression of {outcome}", facts)
    most = [level for level in counts if level.startswith(">= ")]
    told = [f"Patients of {listed(most)} count as that number, so ratios are nearer to 1."] if most else []
    return replace(found, caveats=(*found.caveats, *told))


def _count(level: str) -> float | None:
    """The count that a level says; None if it says none."""
    read = _COUNT.fullmatch(level)
    if read is None or (read["end"] and int(read["end"]) != int(read["start"]) + 1):
        return None
    return 0.0 if read["below"] else float(read["count"] or read["start"] or read["part"])
