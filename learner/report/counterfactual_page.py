"""Releases of a synthetic control as one HTML page: target, counterfactual and band, effects, placebos."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.document.document import Table
from dprelease.document.html import Figure, Section
from dprelease.one_line import counted
from dprelease.version import __version__
from learner.client.describe_counterfactual import DescribedCounterfactual
from learner.client.library import Opened
from learner.report.charts import Mark, Panel, panels
from learner.report.page import Again, write

_CAVEATS = (
    "The target's series is public and outside the guarantee; donors' values are clipped to the declared bounds first.",
    "Weights of the donors are those of a ridge regression: they may be negative and need not sum to 1.",
)


def counterfactual_page(opened: Sequence[Opened], found: DescribedCounterfactual) -> str:
    """The page as text, both HTML and well-formed XML.

    Args:
        opened: the releases; text in them may come from strangers.
        found: what they say.
    """
    spec, path, document = opened[0].release.spec, found.found, found.document()
    lead = (
        f"The path of the target without the intervention, from {found.lines[0][0]} on: {sum(path.donors):,} donors, "
        f"{counted(len(opened), 'hospital')}, consortium {spec.consortium}."
    )
    results = [
        Section(
            "Path and effect",
            (_plot(found), document.table("path"), f"Mean effect: {document.facts['mean_effect'].text}."),
            "path",
        ),
        Section("Placebos", (document.table(""),), "placebo"),
    ]
    if len(opened) > 1:
        rows = [
            (each.release.spec.parties[0].party, each.release.digest, each.release.spec.rows, each.release.guarantee[0])
            for each in opened[1:]
        ]
        others = Table.of("others", ("hospital", "release", "donors", "guarantee"), rows, title="Combined with it")
        results.append(Section("The other releases", (others,), "others"))
    names = [column.name for column in path.columns]
    roles = dict.fromkeys(names, "after") | dict.fromkeys(names[: path.before], "before")
    digests = " ".join(each.release.digest for each in opened)
    again = Again(
        f"Read with dprelease {__version__}.",
        f"learner counterfactual {digests} --output report.html",
        "learner counterfactual with --json",
        "donors",
    )
    return write(opened, lead, results, roles, (*found.notes, *_CAVEATS), again)


def _plot(found: DescribedCounterfactual) -> Figure:
    path, unit, (low, high) = found.found, found.unit or "1", found.found.band(found.level)
    title = "Target and counterfactual"
    words = (
        "The line is the observed series. Dots are the series that donors predict, "
        f"with {found.level:.0%} intervals for privacy noise."
    )
    after = dict(enumerate(zip(path.path.tolist(), low.tolist(), high.tolist(), strict=True), path.before))
    nothing = (float("nan"),) * 3
    marks = [Mark(column.name, *after.get(place, nothing)) for place, column in enumerate(path.columns)]
    line = [(place + 0.5, value) for place, value in enumerate(path.target.tolist())]
    panel = Panel(marks, unit=f"target (line) and counterfactual (dots), {unit}", line=line)
    return Figure(panels("path-plot", title, words, [panel]), f"{title}. {words}")
