"""Releases of a synthetic control as one HTML page: target, counterfactual and band, effects, placebos."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from dprelease.one_line import counted
from dprelease.version import __version__
from learner.client.describe_counterfactual import DescribedCounterfactual
from learner.client.library import Opened
from learner.report import frame
from learner.report.markup import Cell, element, figure, listing, section, table
from learner.report.path_plot import path_plot

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
    first, *others = opened
    spec = first.release.spec
    lead = (
        f"The target as it would have been from {found.lines[0][0]} on: {sum(found.found.donors):,} donors, "
        f"{counted(len(opened), 'hospital')}, consortium {spec.consortium}."
    )
    sections = [
        ("path", "Path and effect"),
        ("placebo", "Placebos"),
        ("release", "The release"),
        *([("others", "The other releases")] if others else []),
        ("caveats", "Caveats"),
        ("again", "Cite and reproduce"),
        ("promises", "Guarantee and trust"),
    ]
    roles = {column.name: "after" for column in found.found.columns} | {
        column.name: "before" for column in found.found.columns[: found.found.before]
    }
    main = element(
        "main",
        _path(found),
        _placebo(found),
        frame.release(first, roles),
        *([_others(others)] if others else []),
        section("caveats", "Caveats", listing((*found.notes, *_CAVEATS))),
        _again(opened),
        frame.promises(first),
    )
    return frame.document(spec.title, frame.header(first, lead), frame.contents(sections), main, frame.footer())


def _path(found: DescribedCounterfactual) -> Markup:
    unit, share = found.unit or "1", f"{found.level:.0%}"
    title = "Target and counterfactual"
    words = f"The observed series, what donors say it would have been, and {share} intervals for privacy noise."
    plot = path_plot("path-plot", title, words, found.found, found.level, unit)
    heads = ("time", "target", "counterfactual", "error", "effect", f"{share} from", "to")
    mean, error = found.found.mean_effect
    lines: list[list[Cell]] = [list(line) for line in found.lines]
    means: list[list[Cell]] = [["mean over these times", mean, error]]
    return section(
        "path",
        "Path and effect",
        figure(plot, f"{title}. {words}", 1, 1, "series"),
        table(f"Effect at each time, {unit}", heads, lines),
        table(f"Mean effect, {unit}", ("", "effect", "error"), means),
    )


def _placebo(found: DescribedCounterfactual) -> Markup:
    placebo = found.found.placebo
    lines: list[list[Cell]] = [
        ["share of units with as large a gap", placebo.p_value],
        ["the target's gap, root mean square in half-widths", placebo.gap],
        ["a donor's gap, noise taken off", placebo.donors_gap],
    ]
    return section("placebo", "Placebos", table("The target among donors", ("", "value"), lines))


def _others(opened: Sequence[Opened]) -> Markup:
    lines: list[list[Cell]] = [
        [
            each.release.spec.parties[0].party,
            each.release.digest,
            f"{each.release.spec.rows:,}",
            each.release.guarantee[0],
        ]
        for each in opened
    ]
    return section(
        "others", "The other releases", table("Combined with it", ("hospital", "release", "donors", "guarantee"), lines)
    )


def _again(opened: Sequence[Opened]) -> Markup:
    spec, digests = opened[0].release.spec, [each.release.digest for each in opened]
    commands = [f"learner fetch {digest} --from {spec.consortium}" for digest in digests]
    commands.append(f"learner counterfactual {' '.join(digests)} --output report.html")
    made, hint = f"Read with dprelease {__version__}.", "learner counterfactual with --json"
    return frame.again(opened[0], f"{spec.rows:,} donors", made, listing(commands), hint, "releases")
