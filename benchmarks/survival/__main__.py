"""Survival by group out of a column of exits, at (epsilon, delta) = (1, 1e-5) over three hospitals of which one is curious.

Simulated populations are those of `simulated`, real tables those of `real`. The noise is continuous with the scale that a release
would declare; everything after it is the learner's own code. `benchmarks.hazards` has several covariates.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from benchmarks.common.files import at_hand
from benchmarks.common.report import Results, main
from benchmarks.survival import real, simulated
from benchmarks.survival.simulated import Setting

AIMED = Setting(5000)
SIZES = tuple(Setting(n, columns, (1.0,)) for n in (1000, 5000, 20_000) for columns in (6, 12))
SHAPES = (
    Setting(1000),
    Setting(5000, event=False),
    Setting(5000, until=4.0),
    Setting(8000, share=0.05),
    Setting(5000, lost=(0.2, 1.2)),
    Setting(20_000, rate=(0.02,)),
    Setting(5000, ratio=(0.7, 1.5), rate=(1.0, 0.3)),
    Setting(1000, 12, (1.0,), lost=(0.2, 1.2), until=4.0),
    Setting(1000, ratio=(2.0,), turn=0.5),
    Setting(5000, ratio=(2.0,), turn=0.5),
)
REACH = 0.92, 0.985
"""Of a coverage of 95 % intervals."""


def run(quick: bool) -> Results:
    """Bias, spread and coverage of log hazard ratios, size of their test, coverage of bands and of restricted means."""
    results = Results()
    settings = (AIMED, *SIZES, *SHAPES)
    many = [
        4 if quick else 300 if each is AIMED else 400 if each in SIZES or each.n == 1000 else 200 for each in settings
    ]
    tables = [each for each in real.TABLES if at_hand(each.name, each.path)]
    with ProcessPoolExecutor() as pool:
        found = pool.map(simulated.measure, settings, many)
        in_tables = pool.map(real.measure, tables, [3 if quick else 200] * len(tables))
        for setting, of_setting in zip(settings, found, strict=True):
            _note(results, setting, of_setting, quick)
        for table, of_table in zip(tables, in_tables, strict=True):
            _note_table(results, table, of_table, quick)
    return results


def _note(results: Results, setting: Setting, found: simulated.Found, quick: bool) -> None:
    title = str(setting)
    results.details[title] = asdict(found)
    aimed = setting == AIMED and not quick
    results.add(f"{title}: share of releases that are answered", found.answered)
    for place in () if setting.crossing else range(len(setting.rate)):
        cause = f", cause {place + 1}" if len(setting.rate) > 1 else ""
        results.add(f"{title}{cause}: bias of the log ratio", abs(found.bias[place]), 0.01 if aimed else None)
        results.add(f"{title}{cause}: its standard deviation", found.spread[place], 0.05 if aimed else None)
        results.add(f"{title}{cause}: mean standard error", found.error[place])
        if setting in SIZES:
            reach = None if quick else (0.02, 0.075)
            results.add_between(f"{title}: size of the test at 5 %", found.refused[place], reach)
        else:
            reach = None if quick else (0.92, 0.98) if aimed else REACH
            results.add_between(f"{title}{cause}: coverage of the log ratio", found.held[place], reach)
    reach = None if quick else REACH
    results.add_between(f"{title}: coverage of curves", found.bands, reach)
    results.add_between(f"{title}: coverage of the restricted means' difference", found.restricted, reach)


def _note_table(results: Results, table: real.Table, found: real.FoundIn, quick: bool) -> None:
    title = f"{table.name} by {table.group}"
    results.details[title] = asdict(found)
    results.add(f"{title}: bias of the log ratio {found.truth:.3f}", found.bias)
    results.add(f"{title}: its standard deviation", found.spread)
    results.add(f"{title}: mean standard error", found.error)
    results.add_between(f"{title}: coverage of the log ratio", found.held, None if quick else (0.91, 0.99))
    results.add(f"{title}: coverage of curves", found.bands, None if quick else 0.90, ">=")


if __name__ == "__main__":
    main("survival", run)
