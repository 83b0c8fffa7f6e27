"""A report as one HTML page that needs nothing but itself: no script, no network, no file beside it."""

from __future__ import annotations

from markupsafe import Markup

from dprelease.one_line import counted
from dprelease.version import __version__
from learner.report import frame
from learner.report.content import Report
from learner.report.markup import element, joined
from learner.report.models import coefficients, fits
from learner.report.over_time import over_time
from learner.report.sections import before_clipping, caveats, columns, findings, noise

_SECTIONS = (
    ("findings", "In short"),
    ("coefficients", "Coefficients"),
    ("fit", "Fit"),
    ("time", "Over time"),
    ("columns", "Means and correlations"),
    ("ranges", "Before clipping"),
    ("noise", "Noise"),
    ("caveats", "Caveats"),
    ("release", "The release"),
    ("again", "Cite and reproduce"),
    ("promises", "Guarantee and trust"),
)


def page(report: Report) -> str:
    """The page as text, both HTML and well-formed XML.

    Args:
        report: what to say; text in it may come from strangers.
    """
    roles = dict.fromkeys(report.fit.features, "feature") | dict.fromkeys(report.fit.targets, "target")
    main = element(
        "main",
        findings(report),
        coefficients(report),
        fits(report),
        *over_time(report),
        columns(report),
        *before_clipping(report),
        noise(report),
        caveats(report),
        frame.release(report.opened, roles),
        _again(report),
        frame.promises(report.opened),
    )
    title = f"{report.opened.release.spec.title}: {', '.join(report.fit.targets[:3])}"
    shown = {"time": bool(report.checkpoints), "ranges": bool(report.described.ranges)}
    sections = [each for each in _SECTIONS if shown.get(each[0], True)]
    return frame.document(title, _header(report), frame.contents(sections), main, frame.footer())


def _header(report: Report) -> Markup:
    spec, fit = report.opened.release.spec, report.fit
    more = len(fit.targets) - 3
    targets = ", ".join(fit.targets[:3]) + (f" and {more} more" if more > 0 else "")
    features = f"{len(fit.features)} features" if len(fit.features) > 1 else fit.features[0]
    lead = (
        f"Linear models of {targets} on {features} by method {fit.method}: {spec.patients:,} patients, "
        f"{counted(len(spec.parties), 'hospital')}, consortium {spec.consortium}."
    )
    algorithm = element("p", f"Algorithm {fit.algorithm}: {fit.reason}.", class_="soft")
    return frame.header(report.opened, lead, algorithm)


def _again(report: Report) -> Markup:
    spec = report.opened.release.spec
    fetch = f"learner fetch {spec.digest()} --from {spec.consortium}"
    commands = element("pre", element("code", joined([fetch, Markup("\n"), report.command("report", "report.html")])))
    made = f"Fitted with dprelease {__version__}, method {report.fit.method}."
    hint = "put card in the place of report and leave out --output"
    return frame.again(report.opened, f"{spec.patients:,} patients", made, commands, hint)
