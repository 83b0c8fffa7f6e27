"""The frame of every page of a report: the document, contents, guarantee and trust, the release, the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from dprelease.data.columns import Column
from dprelease.document import html
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import counted
from dprelease.release.stream import checkpoint_of
from dprelease.release.trust import trust
from dprelease.release.verification import checks
from dprelease.version import __version__
from learner.client.library import Opened
from learner.report.markup import Cell, element, joined, listing, section, table


def document(title: str, *body: Markup) -> str:
    """A page that needs nothing but itself, both HTML and well-formed XML."""
    return html.page(title, joined(body))


def header(opened: Opened, lead: str, *more: Markup) -> Markup:
    """The subject of the page, and that it was verified.

    Args:
        opened: the release.
        lead: one sentence.
        more: what comes after it.
    """
    label = opened.release.spec.guarantee
    kind = "differentially private release" if label == "DP" else f"release under {label}: some columns are public"
    return element(
        "header",
        element("p", f"Report on a {kind}", class_="kind"),
        element("h1", opened.release.spec.title),
        element("p", lead, class_="lead"),
        *more,
        element("p", opened.release.promise.line, " ", element("a", "In words", href="#promises"), class_="promise"),
        element(
            "p",
            "✓ Verified when this page was written, against the pinned root ",
            element("span", opened.consortium.fingerprint, class_="digest"),
            class_="verified",
        ),
    )


def contents(sections: Sequence[tuple[str, str]]) -> Markup:
    """Links to the sections, each a name and a title."""
    links = (element("li", element("a", title, href=f"#{name}")) for name, title in sections)
    return element("nav", element("ul", *links), aria_label="Contents")


def promises(opened: Opened) -> Markup:
    """Guarantee and trust in words."""
    said = (("Guarantee", opened.release.guarantee), ("Trust", trust(opened.release.spec)))
    panels = (element("div", element("h3", title), listing(sentences), class_="panel") for title, sentences in said)
    return section(
        "promises",
        "Guarantee and trust",
        element("div", *panels, class_="panels"),
        element("p", "This report is computed from the release alone and costs no further privacy.", class_="soft"),
    )


def release(opened: Opened, roles: Mapping[str, str]) -> Markup:
    """The release itself, how it was verified, and every declared column with its role on this page.

    Args:
        opened: the release.
        roles: released name to role.
    """
    spec, manifest = opened.release.spec, opened.manifest
    place = checkpoint_of(spec)
    of_stream: list[list[Cell]] = [["stream", f"checkpoint {place}"]] if place else []
    facts: list[list[Cell]] = [
        ["digest", element("span", spec.digest(), class_="digest")],
        ["consortium", spec.consortium],
        [spec.counted, f"{spec.patients:,} ({counted(spec.rows_per_subject, 'row')} a patient at most)"],
        *of_stream,
        ["hospitals", ", ".join(part.party for part in spec.parties)],
        ["mechanism", mechanism_of(spec).words(spec).summary],
        ["guarantee", _guarantee(opened)],
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
            element("span", opened.consortium.fingerprint, class_="digest"),
            ". You need not believe it: ",
            element("code", f"learner verify {spec.digest()}"),
            " checks again.",
        ),
        listing(checked),
        _declared(opened, roles),
    )


def _declared(opened: Opened, roles: Mapping[str, str]) -> Markup:
    lines: list[list[Cell]] = []
    for part in opened.release.spec.parties:
        for column in part.columns:
            how = "exactly: public" if column.public else "with noise"
            role = ", ".join(dict.fromkeys(roles[name] for name in column.released if name in roles))
            lines.append([column.name, part.party, *_bounds(column), how, role])
    heads = ("column", "hospital", "public bounds or levels", "unit", "missing cells are", "released", "here")
    return table("Declared columns", heads, lines)


def _bounds(column: Column) -> tuple[str, str, str]:
    """Bounds, unit and what stands in for a missing cell."""
    derived = f"; derived: {column.derivation}" if column.derivation else ""
    unit = "" if column.indicators else column.unit or "1"
    return f"{column.extent}{derived}", unit, column.fill_text


def again(opened: Opened, people: str, made: str, commands: Markup, hint: str, what: str = "release") -> Markup:
    """How to cite the release, and which commands make the page again.

    Args:
        opened: the release.
        people: how many, and what they are.
        made: sentence on what was made of it, with which software.
        commands: of a shell.
        hint: how to have the numbers as data.
        what: from which the commands make the page.
    """
    spec = opened.release.spec
    cited = (
        f"{spec.consortium}. {spec.title}. Release {spec.digest()} under {_guarantee(opened)}, mechanism {spec.mechanism}, "
        f"{people}, published {opened.manifest.published}. {made}"
    )
    return section(
        "again",
        "Cite and reproduce",
        element("p", cited),
        element("p", f"The same page, from the same {what} and the same software:"),
        commands,
        element("p", f"The same numbers as data: {hint}.", class_="soft"),
    )


def _guarantee(opened: Opened) -> str:
    """The kind of the guarantee and its target."""
    spec = opened.release.spec
    return f"{spec.guarantee} (epsilon = {spec.target.epsilon:g} at delta = {spec.target.delta:g})"


def footer() -> Markup:
    """The author of the page."""
    return element(
        "footer", element("p", f"Written by dprelease {__version__}. This page loads nothing and runs no script.")
    )
