"""Published folders for readers in other languages, with the numbers that Python finds: `python -m tests.support.r_folders DIR`."""

import json
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column
from dprelease.estimators.design import design
from dprelease.estimators.fitting import fit
from dprelease.estimators.intervals.inference import Inference, Predicted
from dprelease.mechanisms.moments.released import Moments
from dprelease.mechanisms.noisy_rows.terms import PartyNoise
from dprelease.mechanisms.stream.terms import StreamTerms
from dprelease.release.block import Block
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import assemble, sign_manifest
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.mechanisms.test_contract import blocks_of
from tests.support.certificates import NOW
from tests.support.noise import SeededNoise
from tests.support.rounds import first_blocks, in_published_ranges, ranges_first, ranges_first_without_bounds
from tests.support.specs import (
    Consortium,
    build_spec,
    categorical,
    new_consortium,
    numeric,
    ordered,
    seal,
    sign_approval,
)
from tests.support.streams import following, published

AGE, SYSTOLIC = numeric("age", 20.0, 90.0, unit="years"), numeric("systolic", 80.0, 220.0, unit="mmHg")
SMOKER, STAGE = categorical("smoker", "no", "yes", exhaustive=True, fill="no"), categorical("stage", "I", "II", "III")
GRADE = ordered("grade", "low", "middle", "high", scores=(1.0, 2.0, 5.0))
SEX = categorical("sex", "female", "male", public=True)
STATED = {"public_norm2": Fraction(1), "guarantee": "feature-DP"}
DOSE, WIDE_AGE = numeric("dose", 0.0, 50.0), numeric("age", 0.0, 30_000.0)

Fit = tuple[str, tuple[str, ...]]
CASES: Mapping[str, tuple[dict[str, tuple[Column, ...]], dict[str, object], Sequence[Fit]]] = {
    "example": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,), "east": (STAGE,)},
        {"rows": 20_000},
        [
            ("systolic", ("age", "smoker")),
            ("systolic", ("age", "smoker", "stage")),
            ("smoker=yes", ("systolic", "age")),
            ("stage=II", ("age",)),
        ],
    ),
    "one hospital, public and ordered columns, several rows": (
        {"north": (AGE, SEX, SYSTOLIC, GRADE, numeric("dose", 0.0, 5.0, public=True))},
        {"rows": 5000, "rows_per_subject": 2, "grid_bits": 12, "epsilon": 3.0},
        [("systolic", ("age", "sex", "grade", "dose")), ("sex=male", ("grade",)), ("dose", ("sex", "systolic"))],
    ),
    "two hospitals, much noise": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC, STAGE)},
        {"rows": 1500},
        [("systolic", ("age",)), ("systolic", ("age", "smoker")), ("systolic", ("age", "stage"))],
    ),
    "two hospitals, too much noise": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,)},
        {"rows": 400, "epsilon": 0.3},
        [("systolic", ("age",)), ("systolic", ("age", "smoker"))],
    ),
    "ranges first, several numbers of a hospital, public columns": (
        {"north": (AGE, DOSE, GRADE), "south": (SYSTOLIC, SMOKER, SEX), "east": (STAGE,)},
        {"rows": 4000, "rows_per_subject": 2, "epsilon": 4.0, "ranges": "first"},
        [("systolic", ("age", "dose", "smoker", "sex")), ("dose", ("systolic", "grade", "stage"))],
    ),
    "ranges first, tails that noise hides": (
        {"north": (WIDE_AGE, SMOKER), "south": (SYSTOLIC,)},
        {"rows": 3000, "epsilon": 2.0, "ranges": "first"},
        [("systolic", ("age", "smoker")), ("age", ("systolic",)), ("smoker=yes", ("age",))],
    ),
    "ranges first, numbers without bounds": (
        {"north": (AGE, DOSE), "south": (SYSTOLIC, SMOKER)},
        {"rows": 3000, "epsilon": 3.0, "ranges": "first", "unknown": ("dose", "systolic")},
        [("systolic", ("age", "dose", "smoker")), ("dose", ("systolic",))],
    ),
    "outcomes only": (
        {"north": (AGE, SMOKER, GRADE), "south": (SYSTOLIC, STAGE)},
        {"rows": 8000, "epsilon": 2.0, "outcomes": ("systolic", "stage")},
        [("systolic", ("age", "smoker", "grade")), ("stage=II", ("age",))],
    ),
    "outcomes only, a public one with a stated norm": (
        {"north": (AGE, DOSE, SYSTOLIC), "south": (SEX,)},
        {"outcomes": ("systolic", "sex"), "rows": 4000, "rows_per_subject": 2, "epsilon": 3.0} | STATED,
        [("systolic", ("age", "dose")), ("sex=male", ("age",))],
    ),
    "outcomes only, public features": (
        {"north": (SEX, numeric("dose", 0.0, 5.0, public=True)), "south": (SYSTOLIC, SMOKER)},
        {"rows": 4000, "outcomes": ("systolic", "smoker"), "guarantee": "label-DP"},
        [("systolic", ("sex", "dose")), ("smoker=yes", ("dose",))],
    ),
    "mixtures, public and weighted columns": (
        {"north": (AGE, SMOKER, GRADE), "south": (SYSTOLIC, STAGE, SEX, numeric("dose", 0.0, 5.0, public=True))},
        {
            "mechanism": "mixed",
            "rows": 3000,
            "outputs": 300,
            "rows_per_subject": 2,
            "epsilon": 60.0,
            "weights": {"age": 2},
        },
        [("systolic", ("age", "smoker", "sex")), ("systolic", ("age", "stage", "dose")), ("smoker=yes", ("systolic",))],
    ),
    "mixtures in buckets": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,)},
        {"mechanism": "mixed", "rows": 2000, "outputs": 50, "mixing": "buckets", "epsilon": 60.0, "anchor_weight": "0"},
        [("systolic", ("age", "smoker")), ("age", ("systolic",))],
    ),
    "mixtures, too much noise": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,)},
        {"mechanism": "mixed", "rows": 500, "outputs": 40},
        [("systolic", ("age", "smoker"))],
    ),
    "rows, one of several a patient": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC, STAGE)},
        {"mechanism": "rows", "rows": 1500, "rows_per_subject": 2, "epsilon": 40.0},
        [("systolic", ("age", "smoker")), ("systolic", ("age", "stage")), ("stage=III", ("age",))],
    ),
    "ranges of another release, one hospital": (
        {"north": (AGE, SYSTOLIC, SMOKER)},
        {"rows": 3000, "ranges": "published", "unknown": ("age",)},
        [("systolic", ("age", "smoker")), ("age", ("systolic",))],
    ),
    "mixtures in ranges, public and weighted columns": (
        {"north": (AGE, DOSE, SEX), "south": (SYSTOLIC, SMOKER), "east": (STAGE,)},
        {"mechanism": "mixed", "rows": 2500, "epsilon": 60.0, "ranges": "first", "weights": {"age": 2}},
        [("systolic", ("age", "smoker", "sex")), ("dose", ("systolic", "stage"))],
    ),
    "rows in ranges, a number without bounds": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,)},
        {"mechanism": "rows", "rows": 1500, "epsilon": 40.0, "ranges": "first", "unknown": ("systolic",)},
        [("systolic", ("age", "smoker")), ("age", ("systolic",))],
    ),
    "stream of moments, a checkpoint failed": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,), "east": (STAGE,)},
        {"rows": 4000, "epsilon": 3.0, "later": {2: 3000, 4: 5000}, "checkpoints": 5, "factor": "square-root"},
        [("systolic", ("age", "smoker", "stage")), ("smoker=yes", ("age",))],
    ),
    "stream of unknown length, in ranges of another release": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,)},
        {"rows": 4000, "epsilon": 6.0, "ranges": "published", "later": {2: 3000, 3: 100}, "factor": "weighted"},
        [("systolic", ("age", "smoker"))],
    ),
    "stream of mixtures, a tree": (
        {"north": (AGE, SMOKER), "south": (SYSTOLIC,)},
        {
            "mechanism": "mixed",
            "rows": 900,
            "outputs": 60,
            "epsilon": 80.0,
            "rows_per_subject": 2,
            "later": {3: 700, 4: 800, 6: 50},
            "checkpoints": 6,
            "factor": "tree",
        },
        [("systolic", ("age", "smoker")), ("age", ("systolic",))],
    ),
}
"""Name to columns, further fields of the spec, and fits. ``ranges`` and ``unknown`` code numbers in ranges; ``later`` has the
checkpoints of a stream behind the first."""

OURS = ("ranges", "unknown", "later", "checkpoints", "factor")
"""Fields that `build_spec` does not take."""


def cells(columns: Sequence[Column], rows: int, seed: int) -> dict[str, object]:
    """Made-up rows in which the blood pressure depends on the others."""
    generator = np.random.default_rng(seed)
    age, smoker = generator.normal(55, 12, rows), generator.random(rows) < 0.3
    noise = generator.normal(0, 14, rows)
    found: dict[str, object] = {
        "age": age,
        "smoker": np.where(smoker, "yes", "no").tolist(),
        "systolic": 95 + 0.6 * age + 6 * smoker + noise,
        "stage": generator.choice(["I", "II", "III"], rows, p=[0.6, 0.35, 0.05]).tolist(),
        "grade": generator.choice(["low", "middle", "high"], rows).tolist(),
        "sex": generator.choice(["female", "male", "unknown"], rows, p=[0.5, 0.49, 0.01]).tolist(),
        "dose": generator.uniform(0, 5, rows),
    }
    return {column.name: found[column.name] for column in columns}


def specs_of(name: str, keys: Mapping[str, str]) -> tuple[ReleaseSpec, ...]:
    """The specs of a case: one, or those of all checkpoints."""
    found, fields = [spec_of(name, keys)], CASES[name][1]
    if "factor" in fields:
        told = {"checkpoint": 1, "most_rows": 20_000} | {key: fields.get(key) for key in ("checkpoints", "factor")}
        terms = StreamTerms(of=found[0].terms, **told)  # type: ignore[arg-type]
        found = [found[0].model_copy(update={"terms": terms})]
        later: Mapping[int, int] = fields["later"]  # type: ignore[assignment]
        for number, rows in later.items():
            found.append(following(found[-1], rows, number))
    return tuple(found)


def spec_of(name: str, keys: Mapping[str, str]) -> ReleaseSpec:
    """The spec of a case; of a stream, of one release of its first patients."""
    columns, fields, _ = CASES[name]
    known = {field: value for field, value in fields.items() if field not in OURS}
    spec = build_spec(columns, keys=keys, title=name, **{"mechanism": "moments"} | known)  # type: ignore[arg-type]
    if "ranges" not in fields:
        return spec
    unknown: tuple[str, ...] = fields.get("unknown", ())  # type: ignore[assignment]
    options = {key: fields[key] for key in ("weights",) if key in fields}
    found = ranges_first_without_bounds(spec, unknown, **options) if unknown else ranges_first(spec, **options)
    if fields["ranges"] == "first":
        return found
    return in_published_ranges(found, first_blocks(found, _tables(found, 4), SeededNoise(4)))


def _tables(spec: ReleaseSpec, seed: int) -> dict[str, BoundedRows]:
    return {
        part.party: BoundedRows(
            bound(cells(part.columns, spec.rows, seed), part.columns, spec.grid_bits),  # type: ignore[arg-type]
            part.columns,
            spec.grid_bits,
        )
        for part in spec.parties
    }


def made(*specs: ReleaseSpec, seed: int = 3) -> Mapping[str, tuple[Block, ...]]:
    """Blocks of made-up rows: of a release that stands alone, or of the last of a stream's checkpoints."""
    if not isinstance(specs[0].terms, StreamTerms):
        return blocks_of(specs[0], _tables(specs[0], seed), SeededNoise(seed))
    return published(specs, (_tables(spec, at) for at, spec in enumerate(specs, seed)), SeededNoise(seed))


def written(folder: Path, consortium: Consortium, spec: ReleaseSpec, own: Mapping[str, tuple[Block, ...]]) -> None:
    """A release of these blocks as files, signed by everybody whatever is in them."""
    blocks = {(party, at): block.to_bytes() for party, each in own.items() for at, block in enumerate(each)}
    members = {party: consortium.parties[party] for party in own}
    entries = tuple(seal(members[party], spec, block, at) for (party, at), block in blocks.items())
    approvals = {party: sign_approval(member, spec) for party, member in members.items()}
    manifest = assemble(spec, entries, approvals, consortium.hub.certificate, "0.1.0", NOW)
    release = ReleaseFolder(folder)
    release.path.mkdir(parents=True)
    release.write_manifest(manifest.to_bytes(), sign_manifest(consortium.hub.key, manifest.to_bytes()))
    for (party, at), block in blocks.items():
        release.block(party, at).parent.mkdir(exist_ok=True)
        release.block(party, at).write_bytes(block)


def matrices(moments: Moments) -> dict[str, list[list[float | None]]]:
    """All released sums of products and the standard deviations of their noise; None between two outcomes."""
    every, inner = range(len(moments.names) + 1), np.flatnonzero(~moments.layout.outcome)
    found = {}
    parts = ((moments.between, moments.own), (moments.noise_between, moments.noise_own))
    for name, (between, own) in zip(("gram", "noise_sd"), parts, strict=True):
        matrix = np.full((len(every), len(every)), np.nan)
        matrix[inner] = between(inner, every)
        matrix[:, inner] = matrix[inner].T
        np.fill_diagonal(matrix, own(every))
        found[name] = [[None if np.isnan(each) else float(each) for each in row] for row in matrix]
    return found


def numbers_of(found: Inference) -> dict[str, object]:
    """What Python says of a fit of one target, the intercept first."""
    slopes, constants = found.interval(), found.intercepts.interval()
    told = {
        "estimate": (found.intercepts.estimate, found.estimate),
        "std.error": (found.intercepts.standard_error, found.standard_error),
        "statistic": (found.intercepts.z, found.z),
        "p.value": (found.intercepts.p_value, found.p_value),
        "conf.low": (constants[0], slopes[0]),
        "conf.high": (constants[1], slopes[1]),
    }
    # JSON has no word for what is no number or has no end.
    return {
        **{key: [repr(float(value)) for value in (constant[0], *slope[0])] for key, (constant, slope) in told.items()},
        "unidentified": list(found.unidentified),
        "merged": list(found.merged),
    }


def fitted(release: Release, fits: Sequence[Fit]) -> list[dict[str, object]]:
    """Python's answer to each fit."""
    return [{"target": target, "features": list(x)} | _fitted(release, target, x) for target, x in fits]


def _fitted(release: Release, target: str, features: Sequence[str]) -> dict[str, object]:
    names = design(release, [target], features)
    model = fit(release, [target], features, method="ols")
    points = names.feature_midpoint + np.outer([0.3, -0.2, 0.0], names.feature_half_width)
    told = {kind: np.hstack(model.predict_interval(points, kind, 0.9)) for kind in get_args(Predicted)}
    return (
        numbers_of(model.inference)
        | {"points": points.tolist()}
        | {kind: [repr(float(each)) for each in rows.ravel()] for kind, rows in told.items()}
    )


UNKNOWN = "ranges first, numbers without bounds"
FALSE_RANGES: Mapping[str, tuple[int, int, int]] = {
    "count": (1, 128, 1 << 22),
    "centre of the counts": (1, 255, 1000),
    "sum": (1, 257, 1 << 27),
    "centre": (1, 259, 1000),
    "reach": (1, 261, 4),
    "count of decades": (0, 80, 1 << 22),
    "lower end of a box": (0, 120, -1),
    "upper end of a box": (0, 121, 1),
}
"""Number that is changed in what a hospital publishes of its ranges, to its block, place and change."""


def write_false_ranges(home: Path) -> dict[str, ReleaseFolder]:
    """Releases with one false number each in the row of a number without bounds, signed by everybody."""
    consortium = new_consortium(*CASES[UNKNOWN][0])
    spec = spec_of(UNKNOWN, consortium.keys)
    blocks, found = made(spec), {}
    for name, (at, place, more) in FALSE_RANGES.items():
        blocks["north"][at].values[-1, place] += more
        written(home / name, consortium, spec, blocks)
        blocks["north"][at].values[-1, place] -= more
        (home / name / "root.pem").write_text(consortium.root.certificate)
        found[name] = ReleaseFolder(home / name)
    return found


MIXTURES = "mixtures, public and weighted columns"
FALSE_NOISE = {"scale": 0.999, "anchor_scale": 0.999, "mu2": "1/2"}
"""Field of a hospital's noise to the number that it is multiplied by, or to its value instead."""


def write_false_noise(home: Path) -> dict[str, ReleaseFolder]:
    """Mixtures whose declared noise is not that of their share, signed by everybody."""
    consortium = new_consortium(*CASES[MIXTURES][0])
    spec, found = spec_of(MIXTURES, consortium.keys), {}
    noise: Sequence[PartyNoise] = spec.terms.noise  # type: ignore[attr-defined]
    for field, change in FALSE_NOISE.items():
        value = change if isinstance(change, str) else change * getattr(noise[0], field)
        changed = (noise[0].model_copy(update={field: value}), *noise[1:])
        false = spec.model_copy(update={"terms": spec.terms.model_copy(update={"noise": changed})})
        written(home / field, consortium, false, made(false))
        (home / field / "root.pem").write_text(consortium.root.certificate)
        found[field] = ReleaseFolder(home / field)
    return found


def write_all(home: Path) -> dict[str, ReleaseFolder]:
    """A folder for each case, `root.pem` and `expected.json` in it."""
    folders = {}
    for name, (columns, _, fits) in CASES.items():
        consortium, folder = new_consortium(*columns), ReleaseFolder(home / name)
        specs = specs_of(name, consortium.keys)
        written(folder.path, consortium, specs[-1], made(*specs))
        root = consortium.root.certificate
        (folder.path / "root.pem").write_text(root)
        release = folder.verify(root)
        told: dict[str, object] = {"hidden": [each.hidden for each in release.reaches]}
        told |= matrices(release.products) if release.view.kind == "moments" else {}
        (folder.path / "expected.json").write_text(json.dumps(told | {"fits": fitted(release, fits)}))
        folders[name] = folder
    return folders


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
