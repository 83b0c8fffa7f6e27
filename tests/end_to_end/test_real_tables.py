"""From an export to a release, on a real table: three hospitals follow docs/guide_hospital.md, every role its own process."""

import json
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2

from audit import audit
from demo.consortium import Consortium
from dprelease.release.release import Release
from tests.end_to_end.exports import FIRST, NAMES, REMARK, rows_of_all, write_export
from tests.end_to_end.hospitals import Hospital, published
from tests.end_to_end.page import FOLDER, Step, Walk, fits, steps
from tests.end_to_end.test_ranges import clipped_gram
from tests.support.rounds import in_published_ranges

pytestmark = pytest.mark.end_to_end

PAGE = Path(__file__).parents[2] / "docs" / "guide_hospital.md"
EPSILON = 1e5
"""In place of the page's: so little noise that one cell of one patient, if it were read as another number, would be seen."""

ENTRIES = 52
CALLS = "ReportCatalogue", "AcceptRun", "SendParcel", "Approve", "SendBlock"
CERTAIN = chi2.ppf(1e-9, ENTRIES), chi2.isf(1e-9, ENTRIES)

SETTINGS = {
    "ward": """\
name = "ward"
roster = "smokers"

[source]
path = "export.csv"
subject = "Fallnummer"
delimiter = ";"
missing = ["", "?"]
rows = "first"

[source.identifiers]
whole_numbers = true

[columns.smoke_years]
from = "Raucherjahre"
kind = "numeric"
lower = 0
upper = 60
bands = true
unit = "years"

[columns.cigarettes]
from = "Zigaretten je Tag"
kind = "numeric"
lower = 0
upper = 80
aggregate = "mean"
unit = "a day"

[columns.quit]
from = "Aufgehört"
kind = "categorical"
levels = ["nein", "ja"]
exhaustive = true
fill = "nein"
""",
    "registry": """\
name = "registry"
roster = "smokers"

[source]
path = "export.csv"
subject = "ID"
delimiter = ";"
decimal = ","
missing = ["", "unbekannt"]

[source.identifiers]
whole_numbers = true

[columns.sex]
from = "Geschlecht"
kind = "categorical"
levels = ["m", "w"]
exhaustive = true
fill = "m"

[columns.systolic]
from = "Blutdruck"
kind = "numeric"
lower = 80
upper = 220
unit = "mmHg"

[columns.weight_1982]
from = "Gewicht 1982"
kind = "numeric"
lower = 35
upper = 150
unit = "kg"
""",
}
"""What the other hospitals' people filled in."""


def test_the_page_leads_from_an_export_to_a_fit(consortium: Consortium) -> None:
    everybody = rows_of_all()
    consortium.found(epsilon=3 * EPSILON, delta=1e-5)
    for name in NAMES:
        write_export(name, consortium.hospital(name))
    walk = Walk(consortium, NAMES)
    walk.home("learner").mkdir()
    shutil.copy(consortium.hub / "root.pem", walk.home("learner"))
    page = PAGE.read_text()
    for step in steps(page, "From an export to a release"):
        if step.where == "request.toml":
            assert "epsilon = 1.0\n" in step.text
            walk.write(Step(step.where, step.text.replace("epsilon = 1.0\n", f"epsilon = {EPSILON}\n")))
        elif step.where == "party.toml":
            walk.write(step)
            for name, text in SETTINGS.items():
                (consortium.hospital(name) / step.where).write_text(text)
        elif step.where:
            walk.type(step)
        else:
            assert shown_at_the_clinic(consortium, step.text), step.text
    release = published(consortium, walk.known["RELEASE", ""])
    assert release.spec.rows == everybody[0].rows

    assert CERTAIN[0] < squared_distance(release, everybody) < CERTAIN[1]
    heights = everybody[0].cells["height"]
    heights[3] = float(str(heights[3])) + 10
    assert squared_distance(release, everybody) > CERTAIN[1]

    found = json.loads((walk.home("learner") / "fit.json").read_text())
    slopes, explained = least_squares(everybody, found["targets"][0], found["features"])
    fitted = {row["feature"]: row for row in found["coefficients"]}
    errors = np.array([fitted[name]["coefficient"]["standard_error"] for name in found["features"]])
    coef = {row["feature"]: row["value"] for row in found["predictor"]}
    told = "{:.2f} for age, {:.2f} for weight and {:.2f} for cigarettes, and explains {:.2f}".format(*slopes, explained)
    assert told in " ".join(page.split())
    assert np.all(np.abs(np.array([coef[name] for name in found["features"]]) - slopes) < errors)
    assert abs(found["fit"][0]["explained"]["estimate"] - explained) < 0.01
    nothing_of_patients_is_elsewhere(consortium)


def squared_distance(release: Release, parties: list[Hospital]) -> float:
    """Of the released sums from those of clean tables, in standard deviations of the noise: chi-squared if they are the same."""
    moments = release.moments()
    known = in_published_ranges(release.spec, {party: blocks[:1] for party, blocks in release.blocks.items()})
    entries = moments.layout.rows, moments.layout.cols
    away = (moments.gram - clipped_gram(known, moments.layout, parties))[entries] / moments.noise_sd[entries]
    assert away.size == ENTRIES
    return float((away**2).sum())


def shown_at_the_clinic(consortium: Consortium, text: str) -> bool:
    """Whether the page shows the clinic's export, or the proposal for its settings, as they are."""
    home = consortium.hospital("clinic")
    files = {"export.csv": "cp1252", "party.toml": "utf-8"}
    texts = [(home / name).read_text(code) for name, code in files.items() if (home / name).exists()]
    return any(fits(text, said.replace(str(home), FOLDER), exact=True) for said in texts)


def least_squares(parties: list[Hospital], target: str, features: list[str]) -> tuple[npt.NDArray[np.float64], float]:
    """Slopes and share of variance explained, of the rows themselves with the middle of the bounds for missing cells."""
    cells = {name: np.array(own) for hospital in parties for name, own in hospital.cells.items()}
    fills = {"weight": 92.5, "age": 50.0, "cigarettes": 40.0, "weight_1982": 92.5}
    y, *columns = (np.where(np.isnan(cells[name]), fills[name], cells[name]) for name in (target, *features))
    x = np.column_stack([np.ones_like(y), *columns])
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    return beta[1:], 1 - float(np.var(y - x @ beta) / np.var(y))


def nothing_of_patients_is_elsewhere(consortium: Consortium) -> None:
    """The audit finds every spelling of an identifier, and a remark, but none in any state, log, or message that was sent."""
    for name in NAMES:
        sent = (consortium.folder / f"{name}.sent").read_bytes()
        assert all(f"/{call}\n".encode() in sent for call in CALLS), name
    assert audit(consortium.folder) == []
    number = FIRST + 3  # whom all have
    leaks = [consortium.hub / f"leak-{place}" for place in range(4)]
    for leak, word in zip(leaks, (f"{number:010d}", f"{number}.0", f"{number}", REMARK), strict=True):
        leak.write_text(f"of {word} today")
    found = {violation.where for violation in audit(consortium.folder)}
    assert found == {str(leak.relative_to(consortium.folder)) for leak in leaks}
    for leak in leaks:
        leak.unlink()
