"""A record of a release for the public registry of deployments of differential privacy.

It fills what the signed release says. It passes the registry's schema if `about` says the kind of the curator. Its status is a
draft, for the registry's board reads every record.

Source: opendp/deployments-registry-data, `schemas/deployments-schema.yaml` and its template, as of September 2026 (tier 3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dprelease.about import About
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import listed, one_line
from dprelease.privacy.price import epsilon_figure, rounded_up
from dprelease.release.accounting import guarantee
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.release.stream import checkpoint_of

NOT_STATED = "Not stated"
"""Instead of a text that the registry requires and `about` leaves out."""
_TYPES = {"mixtures": "Dataset", "rows": "Dataset"}
HEADER = (
    "# A draft for the registry of deployments of differential privacy: github.com/opendp/deployments-registry-data"
)
TO_DO = "# Add data_curator_type to each curator (such as Government, Industry or Nonprofit), and your names to registry_authors."
LESS_TO_DO = "# Add your names to registry_authors."


def registry_record(release: Release, about: About, manifest: Manifest) -> str:
    """The record as YAML."""
    to_do = LESS_TO_DO if about.curator else TO_DO
    return "\n".join((HEADER, to_do, *_lines(_record(release, about, manifest), ""))) + "\n"


def yaml_text(text: str) -> str:
    """A text as YAML has it in quotation marks; what cannot be printed is spelled out."""
    return json.dumps(one_line(text), ensure_ascii=False)  # an escaped pair of surrogates would be two letters of YAML


def _lines(found: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Lines of a mapping: its values are texts, numbers, mappings, and lists of texts or of mappings."""
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            for each in value:
                inner = list(_lines(each, f"{indent}    ")) if isinstance(each, Mapping) else [yaml_text(each)]
                yield f"{indent}  - {inner[0].lstrip()}"
                yield from inner[1:]
        else:
            yield f"{indent}{key}: {yaml_text(value) if isinstance(value, str) else _number(value)}"


def _number(value: float) -> str:
    """A number as YAML 1.1 reads one: with a point before an exponent."""
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _record(release: Release, about: About, manifest: Manifest) -> dict[str, Any]:
    spec, words = release.spec, mechanism_of(release.spec).statements(release.spec)
    return {
        "url_slug": f"dprelease-{spec.digest()[:16]}",
        "deployment": {
            "basic": {
                "name": spec.title,
                "data_curators": _curators(spec, about),
                "description": about.description,
                "intended_use": about.intended_use or NOT_STATED,
                "data_product_type": _TYPES.get(release.view.kind, "Summary statistics"),
                "data_product_region": about.region or NOT_STATED,
                "data_product_sector": "Healthcare",
                "publication_date": manifest.published[:10],
            },
            "dp_variant": _variant(release),
            "privacy_loss": _loss(release),
            "deployment_model": _model(release, manifest),
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    "Bounds, levels and fills are public declarations. Cells are clipped to bounds and rounded to a public grid of "
                    f"2^-{spec.grid_bits} of half their width. The software finds a bound or a range from cells by noisy numbers "
                    "alone, which are charged, and chooses all noise from declarations and the target."
                ),
                "mechanisms": (
                    f"{words.summary}. Hospitals round cells once, compute with exact integers, and add discrete noise from the "
                    f"operating system's generator. Software: dprelease {manifest.software}."
                ),
                "composition": (
                    "mu^2 of Gaussian differential privacy adds up over all released numbers, hospitals and rounds; epsilon at "
                    "delta is that of the sum."
                ),
                "post_processing": " ".join(
                    (
                        "Files beside the signed release, and fits, are made from its released numbers alone.",
                        *words.about,
                    )
                ),
                "justification": "Every hospital recomputed the noise from the target, and signed both before any noise was drawn.",
                "utility": "The standard deviation of the noise of released numbers is public.",
                "additional_information": f"Release sha256:{spec.digest()}, licence {about.licence}. Check: learner verify FOLDER",
            },
            "administrative": {
                "evidence_sources": {
                    "release": {
                        "evidence_source_type": "Formal publication by the deploying organization",
                        "misc": {
                            "title": spec.title,
                            "year": int(manifest.published[:4]),
                            "note": f"manifest.json and its signature; sha256:{spec.digest()}",
                        },
                    }
                },
                "status": "Draft",
                "registry_authors": [spec.consortium],
                "tier": 3,
            },
        },
    }


def _curators(spec: ReleaseSpec, about: About) -> list[dict[str, str]]:
    """The publisher with its kind. Without a kind hospitals are listed, too, for an author to choose from."""
    if about.curator:
        return [{"data_curator_name": spec.consortium, "data_curator_type": about.curator}]
    return [{"data_curator_name": name} for name in (spec.consortium, *(part.party for part in spec.parties))]


def _variant(release: Release) -> dict[str, Any]:
    spec = release.spec
    rows = "one row" if spec.rows_per_subject == 1 else f"at most {spec.rows_per_subject} rows"
    public = f" These columns are public, and published exactly: {listed(column.name for column in spec.public)}."
    return {
        "variant_name": "Approximate DP" if spec.guarantee == "DP" else "Custom",
        "data_domain": (
            f"Tables with {rows} of each patient of roster {spec.roster}, split by column over {len(spec.parties)} hospitals. "
            f"Columns, within declared bounds or levels: {listed(column.name for column in spec.columns)}."
        ),
        "unprotected_quantities": (
            f"Membership of the roster, the number of {spec.counted} ({spec.patients}), and the declarations of all columns."
            + (public if spec.public else "")
        ),
    }


def _loss(release: Release) -> dict[str, Any]:
    spec, promised = release.spec, guarantee(release.spec)
    return {
        "privacy_unit": "Patient",
        "privacy_unit_details": (
            "Replace-one: adjacent tables differ in the private cells of one patient, in all hospitals, with "
            f"{'one row' if spec.rows_per_subject == 1 else f'at most {spec.rows_per_subject} rows'} of theirs."
        ),
        "privacy_parameters": {
            "epsilon": float(epsilon_figure(promised.joint_epsilon)),
            "delta": float(rounded_up(promised.delta)),
        },
        "privacy_parameters_details": " ".join(release.guarantee),
    }


def _model(release: Release, manifest: Manifest) -> dict[str, Any]:
    spec, place = release.spec, checkpoint_of(release.spec)
    return {
        "model_name": "Federated",
        "model_name_details": "Each hospital holds some columns of the same patients, and adds noise itself.",
        "trust_assumptions": " ".join(manifest.trust),
        "actors": (
            f"Hospitals, which hold the cells: {', '.join(part.party for part in spec.parties)}. The office and the hub of "
            f"{spec.consortium}, and all readers, who see released numbers alone. A reader may be an adversary who knows all else."
        ),
        "release_type": "One release" if place is None else "Many releases",
        "release_type_details": (
            "The whole table is released once. Other releases of the same roster are charged to the same budgets."
            if place is None
            else f"Checkpoint {place}. All checkpoints of the stream together have this privacy loss."
        ),
        "data_source_type": "Static" if place is None else "Dynamic",
        "data_source_type_details": (
            "The rows were fixed before the release." if place is None else "Each checkpoint adds new patients."
        ),
        "access_type": "Non-interactive",
        "access_type_details": "Readers get signed files, and cannot query the cells.",
    }
