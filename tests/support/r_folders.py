"""Published folders for readers in other languages, with the numbers that Python finds: `python -m tests.support.r_folders DIR`."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column
from dprelease.estimators.design import design
from dprelease.estimators.intervals.inference import Inference, infer
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest, assemble, sign_manifest
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.support.certificates import NOW
from tests.support.joint import compute
from tests.support.noise import SeededNoise
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

AGE, SYSTOLIC = numeric("age", 20.0, 90.0, unit="years"), numeric("systolic", 80.0, 220.0, unit="mmHg")
SMOKER, STAGE = categorical("smoker", "no", "yes", exhaustive=True, fill="no"), categorical("stage", "I", "II", "III")
GRADE = ordered("grade", "low", "middle", "high", scores=(1.0, 2.0, 5.0))
SEX = categorical("sex", "female", "male", public=True)

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
}
"""Name to columns, further fields of the spec, and fits."""


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


def written(folder: Path, consortium: Consortium, spec: ReleaseSpec, seed: int = 3) -> Manifest:
    """A release of made-up rows as files."""
    tables = {
        part.party: BoundedRows(
            bound(cells(part.columns, spec.rows, seed), part.columns, spec.grid_bits),  # type: ignore[arg-type]
            part.columns,
            spec.grid_bits,
        )
        for part in spec.parties
    }
    blocks = {
        party: block.to_bytes()
        for party, block in compute(spec, tables, dict.fromkeys(tables, SeededNoise(seed))).blocks.items()
    }
    members = {party: consortium.parties[party] for party in blocks}
    manifest = assemble(
        spec,
        [seal(member, spec, blocks[party]) for party, member in members.items()],
        {party: sign_approval(member, spec) for party, member in members.items()},
        consortium.hub.certificate,
        "0.1.0",
        NOW,
    )
    made = ReleaseFolder(folder)
    made.path.mkdir(parents=True)
    made.write_manifest(manifest.to_bytes(), sign_manifest(consortium.hub.key, manifest.to_bytes()))
    for party, block in blocks.items():
        made.block(party).parent.mkdir(exist_ok=True)
        made.block(party).write_bytes(block)
    return manifest


def numbers_of(found: Inference) -> dict[str, object]:
    """What Python says of a fit of one target, the intercept first."""
    slopes, constants = found.interval(), found.intercept_interval()
    told = {
        "estimate": (found.intercept, found.estimate),
        "std.error": (found.intercept_se, found.standard_error),
        "statistic": (found.intercept_z, found.z),
        "p.value": (found.intercept_p_value, found.p_value),
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
    return [
        {"target": target, "features": list(x)}
        | numbers_of(infer(release, design(release, [target], x), intercept=True))
        for target, x in fits
    ]


def write_all(home: Path) -> dict[str, ReleaseFolder]:
    """A folder for each case, `root.pem` and `expected.json` in it."""
    made = {}
    for name, (columns, fields, fits) in CASES.items():
        consortium, folder = new_consortium(*columns), ReleaseFolder(home / name)
        spec = build_spec(columns, keys=consortium.keys, mechanism="moments", title=name, **fields)  # type: ignore[arg-type]
        written(folder.path, consortium, spec)
        root = consortium.root.certificate
        (folder.path / "root.pem").write_text(root)
        release = folder.verify(root)
        told = {"gram": release.moments().gram.tolist(), "noise_sd": release.moments().noise_sd.tolist()}
        (folder.path / "expected.json").write_text(json.dumps(told | {"fits": fitted(release, fits)}))
        made[name] = folder
    return made


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
