"""A report as one HTML page that needs nothing but itself: no script, no network, no file beside it."""

from __future__ import annotations

from importlib.resources import files

from dprelease.data.columns import CategoricalColumn, Column
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.verification import checks
from dprelease.version import __version__
from learner.report.content import Report
from learner.report.markup import Cell, Markup, element, joined, listing, section, table
from learner.report.models import coefficients, fits
from learner.report.sections import caveats, columns, findings, noise

_SECTIONS = (
    ("promises", "Guarantee and trust"),
    ("findings", "In short"),
    ("fit", "Fit"),
    ("coefficients", "Coefficients"),
    ("noise", "Noise"),
    ("columns", "Means and correlations"),
    ("release", "The release"),
    ("caveats", "Caveats"),
    ("again", "Cite and reproduce"),
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
    """The page as text, both HTML and well-formed XML.

    Args:
        report: what to say; text in it may come from strangers.
    """
    title = f"{report.opened.release.spec.title}: {', '.join(report.fit.targets[:3])}"
    style = Markup(files("learner").joinpath("report.css").read_text(encoding="utf-8"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", title),
        element("style", style),
    )
    main = element(
        "main",
        _promises(report),
        findings(report),
        fits(report),
        coefficients(report),
        noise(report),
        columns(report),
        _release(report),
        caveats(report),
        _again(report),
    )
    body = element("body", _header(report), _contents(), main, _footer(report))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _header(report: Report) -> Markup:
    spec, fit = report.opened.release.spec, report.fit
    more = len(fit.targets) - 3
    targets = ", ".join(fit.targets[:3]) + (f" and {more} more" if more > 0 else "")
    features = f"{len(fit.features)} features" if len(fit.features) > 1 else fit.features[0]
    return element(
        "header",
        element("p", f"Report on a {_kind(report)}", class_="kind"),
        element("h1", spec.title),
        element(
            "p",
            f"Linear models of {targets} on {features} by method {fit.method}: {spec.rows:,} patients, "
            f"{_count(len(spec.parties), 'hospital')}, consortium {spec.consortium}.",
            class_="lead",
        ),
        element("p", f"Algorithm {fit.algorithm}: {fit.reason}.", class_="soft"),
        element(
            "p",
            "✓ Verified when this page was written, against the pinned root ",
            element("span", report.opened.consortium.fingerprint, class_="digest"),
            class_="verified",
        ),
    )


def _kind(report: Report) -> str:
    label = report.opened.release.spec.guarantee
    return "differentially private release" if label == "DP" else f"release under {label}: some columns are public"


def _contents() -> Markup:
    links = (element("li", element("a", title, href=f"#{name}")) for name, title in _SECTIONS)
    return element("nav", element("ul", *links), aria_label="Contents")


def _promises(report: Report) -> Markup:
    panels = (
        element("div", element("h3", title), listing(sentences), class_="panel")
        for title, sentences in (("Guarantee", report.fit.guarantee), ("Trust", report.fit.trust))
    )
    return section(
        "promises",
        "Guarantee and trust",
        element("div", *panels, class_="panels"),
        element("p", "This report is computed from the release alone and costs no further privacy.", class_="soft"),
    )


def _release(report: Report) -> Markup:
    spec, manifest = report.opened.release.spec, report.opened.manifest
    facts: list[list[Cell]] = [
        ["digest", element("span", spec.digest(), class_="digest")],
        ["consortium", spec.consortium],
        ["patients", f"{spec.rows:,} ({_count(spec.rows_per_subject, 'row')} each at most)"],
        ["hospitals", ", ".join(part.party for part in spec.parties)],
        ["mechanism", mechanism_of(spec).words(spec).summary],
        ["guarantee", spec.guarantee],
        ["agreed on", spec.created],
        ["published", manifest.published],
        ["software", f"released by dprelease {manifest.software}, report by dprelease {__version__}"],
    ]
    checked = [f"ok: {sentence}" for sentence in checks(spec)]
    return section(
        "release",
        "The release",
        table("Facts", ("fact", "value"), facts),
        element("h3", "Verification"),
        element(
            "p",
            "By whoever wrote this page, against the pinned root ",
            element("span", report.opened.consortium.fingerprint, class_="digest"),
            ". You need not believe it: ",
            element("code", f"learner verify {spec.digest()}"),
            " checks again.",
        ),
        listing(checked),
        _declared(report),
    )


def _declared(report: Report) -> Markup:
    roles = dict.fromkeys(report.fit.features, "feature") | dict.fromkeys(report.fit.targets, "target")
    lines: list[list[Cell]] = []
    for part in report.opened.release.spec.parties:
        for column in part.columns:
            how = "exactly: public" if column.public else "with noise"
            role = ", ".join(dict.fromkeys(roles[name] for name in column.released if name in roles))
            lines.append([column.name, part.party, *_bounds(column), how, role])
    heads = ("column", "hospital", "public bounds or levels", "unit", "missing cells are", "released", "here")
    return table("Declared columns", heads, lines)


def _bounds(column: Column) -> tuple[str, str, str]:
    """Bounds, unit and what stands in for a missing cell."""
    derived = f"; derived: {column.derivation}" if column.derivation else ""
    if isinstance(column, CategoricalColumn):
        return ", ".join(column.levels) + derived, "", column.fill
    return f"{column.lower:g} to {column.upper:g}{derived}", column.unit or "1", f"{column.fill:g}"


def _again(report: Report) -> Markup:
    spec, manifest = report.opened.release.spec, report.opened.manifest
    cited = (
        f"{spec.consortium}. {spec.title}. Release {spec.digest()} under {spec.guarantee}, mechanism {spec.mechanism}, "
        f"{spec.rows:,} patients, published {manifest.published}. Fitted with dprelease {__version__}, "
        f"method {report.fit.method}."
    )
    return section(
        "again",
        "Cite and reproduce",
        element("p", cited),
        element("p", "The same page, from the same release and the same software:"),
        element(
            "pre",
            element(
                "code",
                joined([f"learner fetch {spec.digest()} --from {spec.consortium}", Markup("\n"), report.command]),
            ),
        ),
        element("p", "The same numbers as data: put card in the place of report and leave out --out.", class_="soft"),
    )


def _footer(report: Report) -> Markup:
    return element(
        "footer", element("p", f"Written by dprelease {__version__}. This page loads nothing and runs no script.")
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
