"""Tables of docs/benchmarks.md, each a pure function of the files in benchmarks/results.

cog writes them into the page: `make docs`. `make lint` fails where the page and the files differ. Each function prints Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.common.report import RESULTS

BUDGET = "(1, 1e-6)"
"""Of the table of accuracy."""
_TABLES = {"nhefs": "NHEFS", "redbook": "Redbook"}
_OUTCOMES = {
    "cnt": "rentals",
    "hum": "humidity",
    "mdu": "visits",
    "ndisease": "diseases",
    "yrs_married": "years married",
    "wt82": "weight in 1982",
    "sbp": "blood pressure",
    "critical_temp": "temperature",
    "Birthweight": "birthweight",
}
_RIVALS = ("moments", "adassp", "adassp oracle", "descent")


def reaches() -> None:
    """Every benchmark with a reach: how many figures hold, and when and on which processor they were measured."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        found = read(path.stem)
        asked = [figure["holds"] for figure in found["figures"] if figure["reach"] is not None]
        if asked:
            rows.append((path.stem, f"{sum(asked)} of {len(asked)}", found["measured"], found["machine"]["processor"]))
    table(("benchmark", "figures that reach what they mean to", "measured", "processor"), rows)


def shortfalls() -> None:
    """Every figure that falls short of its reach."""
    rows = [
        (path.stem, figure["figure"], _number(figure["value"]), f"{figure['sense']} {figure['reach']:g}")
        for path in sorted(RESULTS.glob("*.json"))
        for figure in read(path.stem)["figures"]
        if figure["holds"] is False
    ]
    table(("benchmark", "figure", "value", "reach"), rows)


def figures(name: str, *beginnings: str) -> None:
    """The figures of one benchmark.

    Args:
        name: of the benchmark.
        beginnings: only figures whose names begin with one of these; all without any.
    """
    rows = [
        (each["figure"], _number(each["value"]), "" if each["reach"] is None else f"{each['sense']} {each['reach']:g}")
        for each in read(name)["figures"]
        if each["figure"].startswith(beginnings or ("",))
    ]
    table(("figure", "value", "reach"), rows)


def synthetic_rows() -> None:
    """Errors of tables and AUC, by method, and what is to be reached."""
    methods, rows = ("mixture", "mst", "aim loop", "real"), dict[str, dict[str, str]]()
    for each in read("tables")["figures"]:
        quantity, _, method = each["figure"].rpartition(", ")
        if method in methods:
            own = rows.setdefault(quantity, {})
            own[method] = _number(each["value"])
            if each["reach"] is not None:
                own["reach"] = f"{each['sense']} {each['reach']:g}"
    columns = ("mixture", "reach", *methods[1:])
    table(
        ("mean of five draws", *columns),
        [(name, *(own.get(each, "") for each in columns)) for name, own in rows.items()],
    )


def accuracy() -> None:
    """R^2 of every declared outcome at one budget, by method."""
    rows = []
    for cell in read("accuracy")["details"]["cells"]:
        if cell["declared"] and cell["budget"] == BUDGET:
            methods = cell["methods"]
            wide = methods.get("ranges, bounds 50 times as wide")
            rows.append(
                (
                    f"{_TABLES.get(cell['table'], cell['table'])} ({cell['n']:,}), {_OUTCOMES.get(cell['target'], cell['target'])}",
                    share(cell["not private"]),
                    *(_median(methods[each]) for each in ("ranges", "ranges, known outcome")),
                    share(wide["median"]) if wide else "",
                    *(share(methods[each]["median"]) for each in _RIVALS),
                )
            )
    head = (
        "in ranges",
        "in ranges, known outcome",
        "in ranges, wide bounds",
        "public bounds",
        "AdaSSP",
        "AdaSSP, oracle",
    )
    table(("table (n), outcome", "not private", *head, "DP gradient descent"), rows)


def without_bounds() -> None:
    """R^2 without any bounds, by table and method."""
    found = {each["figure"]: each["value"] for each in read("plug_and_play")["figures"]}
    names = dict.fromkeys(name.split(": ")[0] for name in found if ": median" in name)
    columns = ("median R^2, not private", "median R^2, ours", "least R^2 over splits, ours")
    rivals = ("median R^2, tukey", "median R^2, boosted adassp")
    rows = [(name, *(share(found[f"{name}: {column}"]) for column in columns + rivals)) for name in names]
    table(("table", "not private", "ours", "worst split of ours", "TukeyEM", "Boosted AdaSSP"), rows)


def clipped() -> None:
    """Coverage of intervals of clipped rows."""
    settings: dict[str, dict[str, float]] = {}
    for each in read("coverage")["figures"]:
        setting, _, what = each["figure"].partition(": ")
        if setting.startswith("clipped rows, "):
            settings.setdefault(setting.removeprefix("clipped rows, "), {})[what] = each["value"]
    slopes = "coverage of slopes of the population "
    asked = (
        "share of draws claimed known",
        f"{slopes}as clipped",
        f"{slopes}as it is",
        "distance of the two slopes, median, in standard errors",
    )
    # Without a claim there is nothing to hold.
    rows = [
        (name, *(share(found[what]) if what in found else "" for what in asked)) for name, found in settings.items()
    ]
    table(("population", "claimed", "as clipped", "as it is", "moved"), rows)


def null_releases() -> None:
    """Parts of printed findings that are false, by kind of claim and way of release."""
    found: dict[str, dict[str, str]] = {}
    ways: dict[str, None] = {}
    for each in read("null_releases")["figures"]:
        way, kind, count = each["figure"].replace("false, of ", "").split(": ")
        ways[way] = None
        fault = "" if each["holds"] else ", falls short"
        found.setdefault(kind, {})[way] = f"{share(each['value'])} of {count} (<= {share(each['reach'])}{fault})"
    table(("claim", *ways), [(kind, *(row.get(way, "") for way in ways)) for kind, row in found.items()])


def read(name: str) -> Any:
    """The results of one benchmark, as of `benchmarks.common.report`."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def _median(method: dict[str, float]) -> str:
    error = f"{method['se']:.3f}"[1:] if method["se"] >= 0.0005 else "<.001"
    return f"{share(method['median'])} ({error}), {share(method['q05'])}"


def share(value: float) -> str:
    """Three digits, without a leading zero."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def _number(value: float) -> str:
    """Three digits that say something."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table."""
    for row in (head, ["---"] * len(head), *rows):
        print("|", " | ".join(cell.replace("|", "\\|") for cell in row), "|")
