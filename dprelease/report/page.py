"""A page of a report, whatever it reports: contents, the release, caveats, how to make it again, guarantee and trust."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dprelease.data.columns import Column
from dprelease.document.document import Heading, Table
from dprelease.document.html import Commands, Section, environment
from dprelease.errors import InvalidInput
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import counted
from dprelease.release.accounting import trust
from dprelease.release.release import Release, Verified
from dprelease.release.stream import checkpoint_of
from dprelease.release.verification import checks
from dprelease.version import __version__

DATA = "put card in the place of report and leave out --output"
"""Hint at the data of a page that has a model card."""
_TEMPLATE = environment("dprelease.report").get_template("report.html")


def write(
    releases: Sequence[Release],
    lead: str,
    results: Sequence[Section],
    roles: Mapping[str, Collection[str]],
    caveats: Sequence[str],
    again: Sequence[str],
) -> str:
    """The page as text, both HTML and well-formed XML: results first, the guarantee in full last.

    Args:
        releases: those that it is about, of which the first is described; text in them may come from strangers.
        lead: one sentence on what the page is about.
        results: its sections.
        roles: role on the page to names of columns and released columns that have it.
        caveats: sentences.
        again: sentence on how the page was made, shell commands that make it from what was fetched, a hint at the data.

    Raises:
        InvalidInput: the release was not verified, or is an earlier checkpoint.
    """
    first, spec = releases[0], releases[0].spec
    label = spec.guarantee
    sections = (
        *results,
        Section("Caveats", (tuple(caveats),), "caveats"),
        _release(first, roles),
        _again(releases, again),
        _promises(first),
    )
    said: str = _TEMPLATE.render(
        title=spec.title,
        heading=spec.title,
        kind="differentially private release" if label == "DP" else f"release under {label}: some columns are public",
        lead=lead,
        promise=first.promise.line,
        root=how_verified(first).root,
        sections=sections,
        software=__version__,
    )
    return f"{said}\n"


def how_verified(release: Release) -> Verified:
    """How a release was verified, which every report says.

    Raises:
        InvalidInput: it was not, or is an earlier checkpoint.
    """
    if release.verified is None:
        raise InvalidInput("a report is about a release that was verified; load one: dprelease.load")
    if release.upto is not None:
        raise InvalidInput("a report is about the last checkpoint, and has those before it in a section of its own")
    return release.verified


def _release(release: Release, roles: Mapping[str, Collection[str]]) -> Section:
    """The release itself, how it was verified, and every declared column with its role on this page."""
    spec, how = release.spec, how_verified(release)
    place = checkpoint_of(spec)
    facts = (
        ("digest", spec.digest()),
        ("consortium", spec.consortium),
        (spec.counted, f"{spec.patients:,} ({counted(spec.rows_per_subject, 'row')} a patient at most)"),
        *([("stream", f"checkpoint {place}")] if place else []),
        ("hospitals", ", ".join(part.party for part in spec.parties)),
        ("mechanism", mechanism_of(spec).statements(spec).summary),
        ("guarantee", _guarantee(release)),
        ("agreed on", spec.created),
        ("published", how.published),
        ("software", f"released by dprelease {how.software}, report by dprelease {__version__}"),
    )
    verified = (
        f"Verified by whoever wrote this page, against the pinned root {how.root}. Check again with:",
        Commands((f"learner verify {spec.digest()}",)),
        tuple(f"ok: {sentence}" for sentence in checks(spec)),
    )
    columns = [
        (
            column.name,
            part.party,
            *_bounds(column),
            "exactly: public" if column.public else "with noise",
            ", ".join(roles_of(column, roles)),
        )
        for part in spec.parties
        for column in part.columns
    ]
    headings = (
        "column",
        "hospital",
        Heading("bounds", "public bounds or levels"),
        "unit",
        Heading("fill", "missing cells are"),
        "released",
        Heading("role", "here"),
    )
    parts = (
        Table.of("facts", ("fact", "value"), facts, title="Facts"),
        Section("Verification", verified),
        Table.of("columns", headings, columns, title="Declared columns"),
    )
    return Section("The release", parts, "release")


def roles_of(column: Column, roles: Mapping[str, Collection[str]]) -> list[str]:
    """The roles of a column; `roles` as of `write`."""
    return [role for role, names in roles.items() if {column.name, *column.released} & set(names)]


def _bounds(column: Column) -> tuple[str, str, str]:
    """Bounds, unit and the value that stands for a missing cell."""
    derived = f"; derived: {column.derivation}" if column.derivation else ""
    unit = "" if column.indicators else column.unit or "1"
    return f"{column.extent}{derived}", unit, column.fill_text


def _again(releases: Sequence[Release], again: Sequence[str]) -> Section:
    first, (made, *commands, hint) = releases[0], again
    spec = first.spec
    fetched = (f"learner fetch {each.digest} --from {spec.consortium}" for each in releases)
    return Section(
        "Cite and reproduce",
        (
            f"{spec.consortium}. {spec.title}. Release {spec.digest()} under {_guarantee(first)}, mechanism {spec.mechanism}, "
            f"published {how_verified(first).published}. {made}",
            f"These commands make the page again from the same {'release' if len(releases) == 1 else 'releases'} and software:",
            Commands((*fetched, *commands)),
            f"The same numbers as data: {hint}.",
        ),
        "again",
    )


def _promises(release: Release) -> Section:
    parts = (
        Section("Guarantee", (tuple(release.guarantee),)),
        Section("Trust", (tuple(trust(release.spec)),)),
        "This report is computed from the release alone and costs no further privacy.",
    )
    return Section("Guarantee and trust", parts, "promises")


def _guarantee(release: Release) -> str:
    """The kind of the guarantee and its target."""
    spec = release.spec
    return f"{spec.guarantee} (epsilon = {spec.target.epsilon:g} at delta = {spec.target.delta:g})"
