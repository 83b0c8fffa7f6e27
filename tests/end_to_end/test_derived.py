"""Derived columns with every role its own process: reported, agreed upon and released like any other."""

import numpy as np
import pytest
from scipy.stats import chi2

from demo.consortium import Consortium
from dprelease.release.folder import ReleaseFolder
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, scaled_gram, trust

pytestmark = pytest.mark.end_to_end

ROWS = 200
SMOKES = ("never smoked", "current")


def test_a_release_of_derived_columns_alone(consortium: Consortium) -> None:
    random = np.random.default_rng(4)
    age = [float(each) for each in random.uniform(20, 90, ROWS).round(3)]
    smoker = [SMOKES[int(each)] for each in random.random(ROWS) < 0.4]
    dose = [float(each) for each in random.uniform(0, 10, ROWS)]
    kept = "source_only = true\n"
    clinic = Hospital(
        "clinic",
        {
            "age": kept + numeric(18, 100),
            "smoker": kept + 'kind = "categorical"\nlevels = ["never smoked", "current"]',
            "curve": 'derived = { square = "age", plus = -59 }',
            "smokes": 'derived = { indicator = "smoker", level = "current" }',
        },
        {"age": list(age), "smoker": list(smoker)},
    )
    ward = Hospital("ward", {"dose": numeric(0, 10)}, {"dose": list(dose)}, parquet=True)
    found(consortium, [clinic, ward])
    release = propose(consortium, [clinic, ward], mechanism="moments")
    assert final_state(consortium, release) == "PUBLISHED"

    folder = ReleaseFolder(consortium.hub / "storage" / "published" / release)
    opened = folder.verify((consortium.hub / "root.pem").read_text())
    assert {column.name: column.derivation for column in opened.spec.columns} == {
        "curve": "(age - 59)^2",
        "smokes": 'smoker = "current"',
        "dose": "",
    }
    derived: dict[str, list[object]] = {
        "curve": [(each - 59) ** 2 for each in age],
        "smokes": ["yes" if each == "current" else "other" for each in smoker],
    }
    clinic.cells.update(derived)
    moments, truth = opened.moments(), scaled_gram(opened.spec, [clinic, ward])
    entries = moments.layout.rows, moments.layout.cols  # independent of one another
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))

    _, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    assert "curve is derived: (age - 59)^2" in consortium.run("learner", *home, "describe", release[:10])
