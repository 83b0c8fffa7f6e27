"""Plain files beside a release, for people without our software: tables as CSV, and metadata in the formats of archives.

Each is a function of the signed bytes, the same on every machine: released integers times powers of two, divisions of single
numbers, and texts. Numbers are written so that they read back to the same double.

Source: RFC 4180 (CSV); Croissant 1.1 (MLCommons); DataCite 4.6; Data Package 1.0 (Frictionless); Citation File Format 1.2.0; for
registry.yaml, `dprelease.publication.registry`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dprelease.about import About
from dprelease.canonical import sha256
from dprelease.data.column import number_text
from dprelease.data.columns import numbers
from dprelease.data.ranges import REACH
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import no_formula, one_line
from dprelease.publication.figures import figures
from dprelease.publication.registry import registry_record, yaml_text
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release

LAYOUT = 3
"""Number of what files beside a release have and how; it goes up by one with every change, so that nobody takes one for fraud."""
README = "README.txt"
"""Name of the file that says the layout."""
CONSTANT = "1"
"""Name of the constant in moments.csv."""
MOST_NUMBERS = 2_000_000
"""Numbers of a release that are written as text; longer ones are in the blocks alone."""
SCALED = "(value - midpoint) / half_width, with the midpoint and half_width of columns.csv"

ALWAYS = ("columns.csv", README)
"""Names of files beside every release."""
DESCRIBED = ("croissant.json", "datacite.json", "datapackage.json", "CITATION.cff", "registry.yaml")
"""Names of files beside a release that says what it is."""

Made = Mapping[str, str]
"""Names to texts of files."""
Attempt = Callable[[str, Callable[[], Made]], Made]
"""Makes what has a name, or makes nothing and tells somebody that it failed."""


def plain_files(
    release: Release, manifest: Manifest, attempt: Attempt = lambda name, make: make()
) -> Mapping[str, bytes]:
    """Name to bytes of every plain file.

    Args:
        release: verified.
        manifest: its manifest.
        attempt: how each is made; a failure goes to the caller unless told.
    """
    found: dict[str, bytes] = {}

    def add(name: str, make: Callable[[], Made]) -> None:
        found.update({each: text.encode() for each, text in attempt(name, make).items()})

    add("columns.csv", lambda: {"columns.csv": _columns(release)})
    add("the table of released numbers", lambda: _numbers(release))
    add("ranges.csv", lambda: _ranges(release))
    tables, about = dict(found), release.spec.about
    if about is not None:
        add("croissant.json", lambda: {"croissant.json": _json(_croissant(release, about, manifest, tables))})
        add("datacite.json", lambda: {"datacite.json": _json(_datacite(release, about, manifest))})
        add("datapackage.json", lambda: {"datapackage.json": _json(_datapackage(release, about, tables))})
        add("CITATION.cff", lambda: {"CITATION.cff": _citation(release, about, manifest)})
        add("registry.yaml", lambda: {"registry.yaml": registry_record(release, about, manifest)})
    add(README, lambda: {README: _readme(release, manifest, tuple(tables))})  # last, as it says which layout all have
    return MappingProxyType(found)


def layout_beside(folder: ReleaseFolder) -> int | None:
    """The layout that README.txt says files beside a release have; None for one from before layouts had numbers.

    A folder without that file counts as of this layout, because nothing says that it is of another.
    """
    readme = file_beside(folder, README)
    if readme is None:
        return LAYOUT
    said = re.findall(rb"^Files \(layout ([0-9]{1,6})\):$", readme, re.MULTILINE)
    return int(said[-1]) if said else None


def file_beside(folder: ReleaseFolder, name: str) -> bytes | None:
    """The bytes of a file beside a release; None where there is none, or something else in its place."""
    path = folder.path / name
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


def _json(made: Mapping[str, Any]) -> str:
    return f"{json.dumps(made, indent=1, ensure_ascii=True)}\n"


def _csv(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([no_formula(one_line(cell)) for cell in row] for row in rows)
    return text.getvalue()


COLUMNS = (
    "name",
    "column",
    "hospital",
    "kind",
    "unit",
    "lower",
    "upper",
    "midpoint",
    "half_width",
    "fill",
    "public",
    "derivation",
    "mean",
    "mean_noise_sd",
    "label",
    "concept",
)


def _columns(release: Release) -> str:
    found = figures(release)
    owner = {name: part.party for part in release.spec.parties for name in part.released}
    rows = []
    # Where nothing is coded there are no bounds but those that were declared.
    coded = {column.name: column for column in release.view.coded}
    for name in release.columns:
        declared = release.column(name)
        seen = declared if declared.bounded else coded.get(declared.name, declared)
        scale = [*seen.ends, seen.midpoint, seen.half_width] if seen.bounded else []
        figure = found.get(name)
        mean = [] if figure is None or figure.mean is None else [figure.mean.value, figure.mean.error]
        meaning = release.meaning(declared.name)
        rows.append(
            (
                name,
                declared.name,
                owner[name],
                declared.kind,
                declared.released_unit,
                *_texts(scale, 4),
                declared.fill_text,
                "yes" if declared.public else "no",
                declared.derivation,
                *_texts(mean, 2),
                *(("", "") if meaning is None else (meaning.label, meaning.concept)),
            )
        )
    return _csv(COLUMNS, rows)


def _texts(found: Sequence[float], count: int) -> list[str]:
    return [number_text(number) for number in found] or [""] * count


def _numbers(release: Release) -> dict[str, str]:
    """moments.csv or rows.csv; none of other kinds, and of too many numbers."""
    if not 0 < release.view.size <= MOST_NUMBERS:
        return {}
    found = release.regressable.released()
    values, noise, names = found.values.tolist(), found.noise_sd.tolist(), (CONSTANT, *found.names[1:])
    if not found.row_names:
        return {"rows.csv": _csv(names[1:], ([number_text(value) for value in row[1:]] for row in values))}
    shown = set(found.row_names)
    apart = [name not in shown for name in found.names]
    features = [place for place, outcome in enumerate(apart) if not outcome]
    lines = [
        (at, row, column)
        for at, row in enumerate(features)
        for column in range(len(names))
        if column >= row or apart[column]
    ]
    lines += [(len(features), place, place) for place, outcome in enumerate(apart) if outcome]
    rows = (
        (names[row], names[column], number_text(values[at][column]), number_text(noise[at][column]))
        for at, row, column in lines
    )
    return {"moments.csv": _csv(("row", "column", "sum", "noise_sd"), rows)}


RANGES = (
    "name",
    "hospital",
    "unit",
    "lower",
    "upper",
    "mean",
    "standard_deviation",
    "reach",
    "bounds_lower",
    "bounds_upper",
    "centre_steps",
    "half_width_steps",
    "reach_power",
)


def _ranges(release: Release) -> dict[str, str]:
    """ranges.csv: of a release of ranges, or of one whose numbers are coded in ranges."""
    declared = {column.name: column for column in numbers(release.spec.columns)}
    owner = {column.name: part.party for part in release.spec.parties for column in part.columns}
    rows = []
    first = release.first_ranges
    for each in first.ranges if first else release.view.ranges:
        column, seen = declared[each.name], each.seen(declared[each.name])
        # Powers of integers, for those of floats may differ between machines.
        reach = 5**each.reach / 4**each.reach
        told = (*seen.ends, seen.midpoint, seen.half_width / (REACH * reach), reach, *column.boxed(each.box).ends)
        steps = map(str, (each.centre, each.half_width, each.reach))
        rows.append((each.name, owner[each.name], release.column(each.name).unit, *map(number_text, told), *steps))
    return {"ranges.csv": _csv(RANGES, rows)} if rows else {}


def _readme(release: Release, manifest: Manifest, names: Sequence[str]) -> str:
    spec, about = release.spec, release.spec.about
    told = {} if about is None else about.facts
    kind = {
        "columns.csv": f"a line for each released column; scaled values are {SCALED}",
        "moments.csv": "sums over patients of products of two scaled columns, and the standard deviation of their noise; the "
        f"column called {CONSTANT} is 1 for everybody",
        "ranges.csv": "the range of each number: lower and upper lie 3 reach standard_deviation from the mean; centre_steps and "
        "half_width_steps are signed, in steps of 2^-24 of half the bounds from their middle, and reach is 1.25^reach_power",
        "rows.csv": "noisy rows of scaled columns",
    }
    lines = [
        spec.title,
        "",
        *(f"{name.replace('_', ' ')}: {value}" for name, value in told.items()),
        f"published by: {spec.consortium}, {manifest.published}",
        f"hospitals: {', '.join(part.party for part in spec.parties)}",
        f"{spec.counted}: {spec.patients}",
        f"content: {mechanism_of(spec).statements(spec).content}",
        f"identity: sha256:{spec.digest()}",
        *(["", "Columns:", *(f"  {words}" for words in about.meanings)] if about and about.columns else []),
        "",
        *release.guarantee,
        "",
        f"Files (layout {LAYOUT}):",
        *(f"  {name}: {kind[name]}" for name in sorted(names)),
        "  manifest.json, manifest.sig, blocks: the signed release, of which all other files are made",
        "",
        "Check it: learner verify FOLDER",
    ]
    return "\n".join(map(one_line, lines)) + "\n"


def creators(release: Release) -> list[dict[str, str]]:
    """Creators as of schema.org: those of `about`, or the consortium and its hospitals."""
    spec, about, found = release.spec, release.spec.about, []
    if about is None:
        return [{"@type": "Organization", "name": name} for name in (spec.consortium, *(p.party for p in spec.parties))]
    for each in about.creators:
        kind = "Organization" if each.ror or not each.orcid else "Person"
        link = f"https://orcid.org/{each.orcid}" if each.orcid else each.ror
        found.append({"@type": kind, "name": each.name} | ({"url": link} if link else {}))
    return found


_OWN_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset jsonPath key md5 "
    "parentField path recordSet references regex repeated replace samplingRate separator source subField transform"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    **{term: f"cr:{term}" for term in _OWN_TERMS.split()},
}


def _croissant(release: Release, about: About, manifest: Manifest, files: Mapping[str, bytes]) -> dict[str, Any]:
    spec = release.spec
    tables = [name for name in files if name.endswith(".csv")]
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": spec.title,
        "description": about.description,
        "license": about.licence_url or about.licence,
        "url": f"urn:sha256:{spec.digest()}",
        "creator": [{**each, "@type": f"sc:{each['@type']}"} for each in creators(release)],
        "publisher": {"@type": "sc:Organization", "name": spec.consortium},
        "datePublished": manifest.published[:10],
        "version": "1.0.0",
        "citeAs": cited(release, manifest),
        "isLiveDataset": False,
        **({"keywords": list(about.keywords)} if about.keywords else {}),
        "rai:personalSensitiveInformation": " ".join(release.guarantee),
        "rai:dataLimitations": mechanism_of(spec).statements(spec).summary,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "contentSize": f"{len(files[name])} B",
                "encodingFormat": "text/csv",
                "sha256": sha256(files[name]),
            }
            for name in tables
        ],
        "recordSet": [_record_set(release, name, files[name]) for name in tables],
    }


def _record_set(release: Release, name: str, data: bytes) -> dict[str, Any]:
    headings = next(csv.reader(io.StringIO(data.decode())))
    decimal = {"sum", "noise_sd", "lower", "upper", "midpoint", "half_width", "mean", "mean_noise_sd", *RANGES[3:]}
    return {
        "@type": "cr:RecordSet",
        "@id": name.removesuffix(".csv"),
        "name": name.removesuffix(".csv"),
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name.removesuffix('.csv')}/{_identifier(heading, place)}",
                "name": heading,
                **_meant(release, name, heading),
                "dataType": "sc:Float" if heading in decimal or name == "rows.csv" else "sc:Text",
                "source": {"fileObject": {"@id": name}, "extract": {"column": heading}},
            }
            for place, heading in enumerate(headings, 1)
        ],
    }


def _identifier(heading: str, place: int) -> str:
    """A heading, or, as identifiers have no spaces, what is left of it and its place."""
    kept = re.sub(r"[^\w.=-]", "_", heading, flags=re.ASCII)
    return kept if kept == heading else f"{kept}~{place}"


def _meant(release: Release, table: str, heading: str) -> dict[str, str]:
    """Description and concept of a field that is a released column: those of rows.csv are."""
    meaning = release.meaning(release.column(heading).name) if table == "rows.csv" else None
    if meaning is None:
        return {}
    found = {"description": meaning.words, "equivalentProperty": meaning.concept_url}
    return {key: value for key, value in found.items() if value}


def _datacite(release: Release, about: About, manifest: Manifest) -> dict[str, Any]:
    spec = release.spec
    creators = []
    for each in about.creators:
        named = [("ORCID", f"https://orcid.org/{each.orcid}")] * bool(each.orcid) + [("ROR", each.ror)] * bool(each.ror)
        creators.append(
            {
                "name": each.name,
                "nameIdentifiers": [{"nameIdentifierScheme": scheme, "nameIdentifier": one} for scheme, one in named],
            }
        )
    return {
        "schemaVersion": "http://datacite.org/schema/kernel-4",
        "identifiers": [{"identifier": f"sha256:{spec.digest()}", "identifierType": "Other"}],
        "creators": creators,
        "titles": [{"title": spec.title}],
        "publisher": {"name": spec.consortium},
        "publicationYear": manifest.published[:4],
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": "Differentially private release"},
        "subjects": [{"subject": word} for word in about.keywords],
        "dates": [{"date": manifest.published[:10], "dateType": "Issued"}],
        "rightsList": [{"rightsIdentifier": about.licence, "rightsUri": about.licence_url}],
        "descriptions": [{"description": about.description, "descriptionType": "Abstract"}],
    }


def _datapackage(release: Release, about: About, files: Mapping[str, bytes]) -> dict[str, Any]:
    spec = release.spec
    return {
        "profile": "data-package",
        "name": f"release-{spec.digest()[:16]}",
        "id": f"sha256:{spec.digest()}",
        "title": spec.title,
        "description": about.description,
        "licenses": [{"name": about.licence} | ({"path": about.licence_url} if about.licence_url else {})],
        "keywords": list(about.keywords),
        "resources": [
            {
                "profile": "tabular-data-resource",
                "name": name.removesuffix(".csv"),
                "path": name,
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "bytes": len(files[name]),
                "hash": f"sha256:{sha256(files[name])}",
                "schema": {
                    "fields": [
                        {
                            "name": field["name"],
                            "type": "number" if field["dataType"] == "sc:Float" else "string",
                            **({"title": field["description"]} if "description" in field else {}),
                            **({"rdfType": field["equivalentProperty"]} if "equivalentProperty" in field else {}),
                        }
                        for field in _record_set(release, name, files[name])["field"]
                    ]
                },
            }
            for name in files
            if name.endswith(".csv")
        ],
    }


def cited(release: Release, manifest: Manifest) -> str:
    """The release as a list of references has it."""
    about = release.spec.about
    by = release.spec.consortium if about is None else about.cited
    return f"{by} ({manifest.published[:4]}). {release.spec.title} [Data set]. Release sha256:{release.digest}."


def _citation(release: Release, about: About, manifest: Manifest) -> str:
    authors = [
        f"  - name: {yaml_text(each.name)}"
        + (f"\n    orcid: {yaml_text(f'https://orcid.org/{each.orcid}')}" if each.orcid else "")
        for each in about.creators
    ]
    lines = [
        "cff-version: 1.2.0",
        'message: "Please cite these data as below."',
        "type: dataset",
        f"title: {yaml_text(release.spec.title)}",
        "authors:",
        *authors,
        f"date-released: {manifest.published[:10]}",
        *([f"license: {about.licence}"] if about.licence_url else []),
        "identifiers:",
        "  - type: other",
        f"    value: {yaml_text(f'sha256:{release.digest}')}",
    ]
    return "\n".join(lines) + "\n"
