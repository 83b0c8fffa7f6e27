"""The page of a release: static HTML for people and search engines, and a function of the signed release alone.

It has no date of its own and no number that depends on a machine, so whoever holds the release can make it again, byte for byte.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from dprelease.about import About
from dprelease.canonical import sha256
from dprelease.data.columns import Column
from dprelease.document.cells import Said
from dprelease.document.charts import heat_map
from dprelease.document.document import Heading, Table
from dprelease.document.html import Commands, Download, Downloads, Figure, Folded, Section, environment
from dprelease.mechanisms.ranges.released import HIDDEN
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import counted, one_line
from dprelease.publication.figures import ColumnFigure, correlations, figures
from dprelease.publication.plain import cited, creators
from dprelease.release.accounting import promised
from dprelease.release.folder import block_file
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release
from dprelease.release.stream import checkpoint_of

LARGEST_EPSILON = 700.0
"""Epsilon up to which exp(epsilon) is a double."""
MOST_PICTURED = 20
"""Columns whose correlations a picture has."""
LARGEST = 300_000
"""Bytes below which a page stays."""
MOST_COLUMNS = (300, 150, 75, 30)
"""Columns in tables and metadata: the first number with which a page is small enough, or else the last."""
LONGEST_EXTENT = 160
"""Letters of a column's bounds or levels."""
MOST_DESCRIBED = 5000
"""Letters of a description that search engines read."""
MOST_DOWNLOADS = 200
"""Files that a page lists."""
CLIPPED = "Means, standard deviations and correlations describe clipped records."
AS_RELEASED = (
    "Means, standard deviations and correlations are the released numbers as they are, noise included. `learner describe` and fits "
    "use matrices that patients can have, so theirs differ within the error."
)


def release_page(release: Release, manifest: Manifest, signed: Mapping[str, bytes], plain: Mapping[str, bytes]) -> str:
    """The page as text, both HTML and well-formed XML. It leaves columns to columns.csv that would make it large.

    Args:
        release: verified.
        manifest: its manifest.
        signed: name to bytes of the manifest and its signature.
        plain: the same of other files beside it that the page offers.
    """
    files, found = _downloads(manifest, signed, plain), figures(release)
    for most in MOST_COLUMNS:
        made = _page(release, manifest, files, found, most)
        if len(made.encode()) < LARGEST:
            break
    return made


def _page(
    release: Release, manifest: Manifest, files: tuple[Download, ...], found: Mapping[str, ColumnFigure], most: int
) -> str:
    """The page with so many columns at most."""
    spec, label = release.spec, release.spec.guarantee
    sections = [_about(release, manifest), _privacy(release, manifest), _columns(release, found, most)]
    sections += [*_pictures(release), _download(release, files), Section("Cite", (cited(release, manifest),), "cite")]
    made: str = (
        environment("dprelease.publication")
        .get_template("release.html")
        .render(
            title=spec.title,
            kind="Differentially private release"
            if label == "DP"
            else f"Release under {label}: some columns are public",
            lead=description(release),
            promise=promised(spec),
            metadata=_embedded(metadata(release, manifest, files, most)),
            sections=sections,
        )
    )
    return f"{made}\n"


def description(release: Release) -> str:
    """The release in one sentence."""
    spec = release.spec
    return (
        f"{counted(len(spec.columns), 'column')} of {release.patients:,} patients from {counted(len(spec.parties), 'hospital')}, "
        f"published by {spec.consortium} with noise that hides each patient."
    )


def metadata(release: Release, manifest: Manifest, files: tuple[Download, ...], most: int) -> dict[str, Any]:
    """The release as a Dataset of schema.org, for search engines, with so many columns at most."""
    spec, about = release.spec, release.spec.about
    told = (*(() if about is None else (about.description,)), description(release), *release.guarantee)
    return {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": spec.title,
        "description": _cut(" ".join(told)),
        **({} if about is None else _of_about(about)),
        "creditText": cited(release, manifest),
        "version": "1.0.0",
        "identifier": f"sha256:{spec.digest()}",
        "creator": creators(release),
        "publisher": {"@type": "Organization", "name": spec.consortium},
        "datePublished": manifest.published,
        "isAccessibleForFree": True,
        "includedInDataCatalog": {
            "@type": "DataCatalog",
            "name": f"Releases of {spec.consortium}",
            "url": "../index.html",
        },
        "measurementTechnique": mechanism_of(spec).statements(spec).summary,
        "keywords": [
            *(() if about is None else about.keywords),
            "differential privacy",
            *(column.name for column in spec.columns[:most]),
        ],
        "variableMeasured": [_variable(release, column) for column in spec.columns[:most]],
        "distribution": [
            {
                "@type": "DataDownload",
                "name": file.name,
                "contentUrl": file.name,
                "contentSize": f"{file.size} B",
                "encodingFormat": file.kind,
                "sha256": file.sha256,
            }
            for file in files
        ],
    }


def _of_about(about: About) -> dict[str, Any]:
    """Licence, period and region; a licence of the consortium's own has a name and no page."""
    licence = about.licence_url or {"@type": "CreativeWork", "name": about.licence}
    covered = {"temporalCoverage": about.period, "spatialCoverage": about.region}
    return {"license": licence} | {name: value for name, value in covered.items() if value}


def _cut(text: str) -> str:
    """A text in as many letters as search engines read."""
    return text if len(text) <= MOST_DESCRIBED else f"{text[: MOST_DESCRIBED - 4]} ..."


def _variable(release: Release, column: Column) -> dict[str, str]:
    meaning, unit = release.meaning(column.name), release.column(column.released[0]).released_unit
    found = {"@type": "PropertyValue", "name": column.name, "unitText": unit}
    if meaning is not None:
        found |= {"description": meaning.label, "propertyID": meaning.concept_url or meaning.concept}
    return {key: value for key, value in found.items() if value}


def _embedded(found: dict[str, Any]) -> Markup:
    """JSON within a page, where no text can end the element that holds it, and which is XML too."""
    text = json.dumps(found, ensure_ascii=True, indent=1)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704 - nothing of it is markup any more


_KINDS = {
    "json": "application/json",
    "csv": "text/csv",
    "txt": "text/plain",
    "yaml": "application/yaml",
    "cff": "application/yaml",
}


def _downloads(manifest: Manifest, signed: Mapping[str, bytes], plain: Mapping[str, bytes]) -> tuple[Download, ...]:
    files = {**plain, **signed}
    found = [
        Download(name, len(data), sha256(data), _KINDS.get(name.rpartition(".")[2], "application/octet-stream"))
        for name, data in sorted(files.items())
    ]
    blocks = [
        Download(block_file(each.party, each.sequence), each.size, each.sha256, "application/octet-stream")
        for each in (entry.sealed for entry in manifest.blocks)
    ]
    return tuple([*found, *blocks][:MOST_DOWNLOADS])


def _about(release: Release, manifest: Manifest) -> Section:
    spec, place = release.spec, checkpoint_of(release.spec)
    told = {} if spec.about is None else {name.replace("_", " "): value for name, value in spec.about.facts.items()}
    facts = (
        *told.items(),
        ("consortium", spec.consortium),
        ("hospitals", ", ".join(part.party for part in spec.parties)),
        (spec.counted, f"{spec.patients:,} ({counted(spec.rows_per_subject, 'row')} a patient at most)"),
        *([("stream", f"checkpoint {place}")] if place else []),
        ("content", mechanism_of(spec).statements(spec).content),
        ("agreed on", spec.created),
        ("published", manifest.published),
        ("digest", spec.digest()),
    )
    return Section("The release", (Table.of("facts", ("fact", "value"), facts, title="Facts"),), "release")


def _privacy(release: Release, manifest: Manifest) -> Section:
    target = release.spec.target
    # A dry run on little noise has an epsilon of thousands, and its exponential is no double.
    ratio = f" = {math.exp(target.epsilon):.3g}" if target.epsilon < LARGEST_EPSILON else ""
    meaning = (
        f"A result is at most exp(epsilon){ratio} times as probable with a patient's cells as with any "
        f"others in their place, plus delta = {target.delta:g}."
    )
    parts = (
        *((meaning,) if target.scope == "joint" else ()),
        Section("Guarantee", (tuple(release.guarantee),)),
        Section("Trust", (tuple(manifest.trust),)),
    )
    return Section("Privacy and trust", parts, "privacy")


def _columns(release: Release, found: Mapping[str, ColumnFigure], most: int) -> Section:
    spec = release.spec
    owner = {name: part.party for part in spec.parties for name in part.released}
    names = release.columns[:most]
    rows = [
        (name, owner[name], _extent(column), *_told(found, name), column.released_unit)
        for name in names
        for column in [release.column(name)]
    ]
    headings = (
        Heading("name", "column"),
        "hospital",
        Heading("bounds", "public bounds or levels"),
        "mean",
        Heading("standard_deviation", "standard deviation"),
        "unit",
    )
    shown = headings if found else (*headings[:3], headings[-1])
    cells = rows if found else [(*row[:3], row[-1]) for row in rows]
    said = [AS_RELEASED.replace("`", "")] if found else []
    said += [CLIPPED] if found and release.view.clipping else []
    if len(release.columns) > len(names):
        said.append(f"These are {len(names)} of {len(release.columns):,} columns; columns.csv has all.")
    title = "Columns; errors of the privacy noise in brackets" if found else "Columns"
    said_of = spec.about.columns if spec.about else ()
    meanings = [(each.name, each.label, each.concept) for each in said_of[:most]]
    more = (f"These are {most} of {len(said_of):,} columns; columns.csv has all.",) if len(said_of) > most else ()
    named = (Heading("name", "column"), "label", "concept")
    meant = Table.of("meanings", named, meanings, title="Labels and codes", below=more)
    tables = (Table.of("columns", shown, cells, title=title, below=tuple(said)), *((meant,) if meanings else ()))
    return Section("Columns", tables, "columns")


def _told(found: Mapping[str, ColumnFigure], name: str) -> tuple[Any, Any]:
    figure = found.get(name)
    if figure is None:
        return "-", "-"
    return tuple(Said(None, HIDDEN) if each is None else each for each in (figure.mean, figure.deviation))  # type: ignore[return-value]


def _extent(column: Column) -> str:
    derived = f"; derived: {column.derivation}" if column.derivation else ""
    return one_line(f"{column.extent}{derived}", LONGEST_EXTENT)


def _pictures(release: Release) -> tuple[Section, ...]:
    found = correlations(release, MOST_PICTURED)
    if found is None:
        return ()
    columns = [release.column(name).name for name in found.names]
    pairs = [
        (one, other, found.values[at][before], found.noise_sd[at][before])
        for at, one in enumerate(found.names)
        for before, other in enumerate(found.names[:at])
        if columns[at] != columns[before]
    ]
    shown = [pair for pair in pairs if not math.isnan(pair[2])]
    words = _strongest(shown)
    if len(shown) < len(pairs):
        words += f" Noise hides {len(pairs) - len(shown)} of {len(pairs)} correlations; their cells are empty."
    if len(found.names) < len(release.columns):
        words += f" The first {len(found.names)} columns are shown."
    picture = heat_map(
        "correlations", "Correlations of the released columns", words, found.names, np.array(found.values)
    )
    rows = [(f"{one} and {other}", f"{value:.2f}", f"{noise:.2f}") for one, other, value, noise in shown]
    headings = ("columns", "correlation", Heading("error", "error of the noise"))
    table = Table.of("correlations", headings, rows, title="Correlations between columns")
    parts = (Figure(picture, words), Folded("The same as a table", table))
    return (Section("Correlations", parts, "correlations"),)


def _strongest(shown: Sequence[tuple[str, str, float, float]]) -> str:
    if not shown:
        return "Noise hides all correlations."
    one, other, value, noise = max(shown, key=lambda pair: abs(pair[2]))
    return f"The strongest one shown is that of {one_line(one)} and {one_line(other)}: {value:.2f}, with an error of {noise:.2f}."


def _download(release: Release, files: tuple[Download, ...]) -> Section:
    digest = release.digest
    parts = (
        Downloads(files),
        "The signed manifest and the blocks are the release, and all other files are made from them. Fetch and check it:",
        Commands((f"learner fetch {digest}", f"learner verify {digest}")),
        "In Python, with the consortium's root certificate:",
        Commands(
            (
                "import dprelease",
                f'release = dprelease.load("{digest[:16]}", root="root.pem", mirror="URL of this folder\'s parent")',
            )
        ),
    )
    return Section("Download", parts, "download")
