"""The R package says what Python says of honest releases, and refuses every false one. Skipped where R is not installed."""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dprelease.about import About, Creator
from dprelease.errors import IntegrityError
from dprelease.release.folder import ReleaseFolder, load_folder
from learner.hub.storage import Storage
from tests.learner.tampering import BLOCKS, FILES, MANIFEST, copy
from tests.learner.world import World, publish_to
from tests.support.r_folders import (
    CASES,
    FALSE_NOISE,
    FALSE_RANGES,
    Fit,
    fitted,
    write_all,
    write_false_noise,
    write_false_ranges,
)
from tests.support.web import Handler, serving
from tests.vectors import BAD, VECTORS

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "r" / "R"
EXAMPLE = ROOT / "r" / "inst" / "extdata" / "example"
ANSWERS = ROOT / "tests" / "support" / "r_answers.R"
TIDY = ("estimate", "std.error", "statistic", "conf.low", "conf.high")
NUMBERS = (*TIDY, "confidence", "prediction")
FALSE = {
    name: tamper
    for name, tamper in {**MANIFEST, **BLOCKS, **FILES}.items()
    if name.replace(" ", "-") not in BAD and not name.startswith("another shape")
}
"""Those of docs/vectors are read from there. Another shape is for blocks of four columns, which joint moments do not have."""
FITS = [("systolic", ("age",)), ("systolic", ("age", "smoker")), ("systolic", ("age", "smoker=yes"))]
KINDS = (
    "mixed",
    "rows",
    "moments",
    "moments-modulo-2-64",
    "moments-range-proofs",
    "moments-outcomes",
    "stream",
    "stream-mixtures",
    "moments-ranges-first",
    "moments-unknown-bounds",
    "rows-in-ranges",
)
READ = [f"good/{name}" for name in KINDS]
"""Vectors that R fits on."""
ADDRESS = "https://mirror.example.org/trial/DIGEST"
(GUIDE_LINES,) = re.findall(
    r"^```r\n(.*?)^```$", (ROOT / "docs" / "guide_learner.md").read_text(), re.MULTILINE | re.DOTALL
)
IN_OWN_RANGES = [name for name, (_, fields, _) in CASES.items() if fields.get("ranges") == "first"]
ABOUT = About(description="ages", licence="CC0-1.0", creators=(Creator(name="A clinic"),), budget=30.0)


def vectors() -> list[dict[str, str]]:
    """The releases of docs/vectors, good ones and bad ones."""
    listed = json.loads((VECTORS / "vectors.json").read_text())
    return [*listed["good"], *listed["bad"]]


def _missing() -> str:
    if shutil.which("Rscript") is None:
        return "R is not installed"
    found = subprocess.run(["Rscript", "-e", "library(openssl); library(jsonlite)"], capture_output=True, check=False)
    return "R has no packages openssl and jsonlite" if found.returncode else ""


MISSING = _missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the R package is not tested: {MISSING}")


def question(folder: Path | str, root: Path, fits: Sequence[Fit] = ()) -> dict[str, Any]:
    """What R is asked of a folder or URL."""
    release = load_folder(Path(folder), Path(root)) if fits else None
    asked = [
        {"target": y, "features": x, "points": told["points"]}
        for (y, x), told in zip(fits, fitted(release, fits) if release else [], strict=True)
    ]
    return {"folder": str(folder), "root": str(root), "fits": asked}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every folder that R is asked of, by name: R starts slowly, and once for all of them."""
    home = tmp_path_factory.mktemp("r")
    found: dict[str, Any] = {}
    for name, folder in write_all(home / "cases").items():
        found[name] = question(folder.path, folder.path / "root.pem", CASES[name][2])
    found["another root"] = {**found["example"], "root": str(EXAMPLE / "root.pem")}
    for line in vectors():
        fits = FITS if line["folder"] in READ else []
        found[line["folder"]] = question(VECTORS / line["folder"], VECTORS / "root.pem", fits)
    forged = write_false_ranges(home / "ranges") | write_false_noise(home / "noise")
    for name, folder in forged.items():
        found[f"false: {name}"] = question(folder.path, folder.path / "root.pem")
    world, storage = World(home), Storage(home / "storage", 1 << 30)
    honest = publish_to(storage, world, world.sealed(mechanism="moments", rows=200, about=ABOUT))
    storage.close()
    for name, tamper in FALSE.items():
        folder = copy(honest, home / "false" / name)
        tamper(folder, world)
        found[f"false: {name}"] = question(folder.path, world.root_path)
    rows = Storage(home / "rows", 1 << 30)
    mixtures = publish_to(rows, world, world.sealed(mechanism="mixed", rows=200, about=ABOUT))
    rows.close()
    for name, tamper in BLOCKS.items():
        folder = copy(mixtures, home / "false rows" / name)
        tamper(folder, world)
        found[f"false rows: {name}"] = question(folder.path, world.root_path)
    example = ReleaseFolder(Path(found["example"]["folder"]))
    digest = example.manifest().spec.digest()
    shutil.copytree(example.path, home / "mirror" / digest)
    with serving(home / "storage" / "published", Handler) as web, serving(home / "mirror", Handler) as mirror:
        found["fit from a mirror"] = {**found["example"], "folder": f"{mirror.url}/{digest}"}
        lines = GUIDE_LINES.replace(ADDRESS, f"{mirror.url}/{digest}").replace("root.pem", found["example"]["root"])
        found["the lines of the guide"] = {"lines": lines.replace("dprelease::", "")}
        for name, url in (("mirror", web.url), ("release of a mirror", f"{web.url}/{honest.manifest().spec.digest()}")):
            found[name] = question(url, world.root_path)
        (home / "asked.json").write_text(json.dumps(list(found.values())))
        subprocess.run(
            ["Rscript", str(ANSWERS), str(SOURCES), str(home / "asked.json"), str(home / "answers.json")], check=True
        )
    answers = json.loads((home / "answers.json").read_text())
    return {name: {**one, "answer": answer} for (name, one), answer in zip(found.items(), answers, strict=True)}


def number(text: str) -> float:
    return float(text.replace("NA", "nan"))


def assert_same(fit: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    assert found["unidentified"] == fit["unidentified"]
    assert found["merged"] == fit["merged"]
    for name in NUMBERS:
        for ours, theirs in zip(fit[name], found[name], strict=True):
            assert number(theirs) == pytest.approx(float(ours), rel=1e-9, nan_ok=True), name
    # A small P is the error of z as many times larger as z is.
    for ours, theirs in zip(fit["p.value"], found["p.value"], strict=True):
        assert number(theirs) == pytest.approx(float(ours), rel=1e-6, nan_ok=True)
    # The diagonal of the covariance matrix, which Python has not, is what it has.
    for ours, theirs in zip(fit["std.error"], found["sd"], strict=True):
        assert number(theirs) == pytest.approx(float(ours), rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("name", CASES)
def test_moments_and_fits_equal_those_of_python(asked: dict[str, Any], name: str):
    expected, found = json.loads((Path(asked[name]["folder"]) / "expected.json").read_text()), asked[name]["answer"]
    for matrix in {"gram", "noise_sd"} & expected.keys():
        for ours, theirs in zip(expected[matrix], found[matrix], strict=True):
            assert [each == "NA" for each in theirs] == [each is None for each in ours]
            theirs, ours = ([each for each in row if each not in ("NA", None)] for row in (theirs, ours))
            assert theirs == pytest.approx(ours, rel=1e-12, abs=1e-9)
    for fit, answer in zip(expected["fits"], found["fits"], strict=True):
        assert_same(fit, answer)


def test_cases_are_of_all_kinds(asked: dict[str, Any]):
    fits = [fit for name in CASES for fit in asked[name]["answer"]["fits"]]
    assert any(fit["merged"] for fit in fits)
    assert any(fit["unidentified"] for fit in fits)
    assert any(math.isfinite(number(end)) for fit in fits for end in fit["conf.low"])
    hidden = [json.loads((Path(asked[name]["folder"]) / "expected.json").read_text())["hidden"] for name in CASES]
    assert {each for told in hidden for each in told} == {True, False}  # tails that counts show, and others


@pytest.mark.parametrize("name", ["mirror", "release of a mirror", *READ])
def test_an_honest_release_verifies_from_a_mirror_and_from_disk(asked: dict[str, Any], name: str):
    assert len(asked[name]["answer"]["digest"]) == 64


def test_a_fit_from_the_address_of_a_mirror_is_that_from_disk(asked: dict[str, Any]):
    assert asked["fit from a mirror"]["answer"] == asked["example"]["answer"]


def test_the_two_lines_of_the_guide_fit_from_a_mirror(asked: dict[str, Any]):
    fit, found = asked["example"]["answer"]["fits"][0], asked["the lines of the guide"]["answer"]["coefficients"]
    assert CASES["example"][2][0] == ("systolic", ("age", "smoker"))
    assert ADDRESS in GUIDE_LINES
    assert len(GUIDE_LINES.splitlines()) == 2
    wanted = {"Estimate": "estimate", "2.5 %": "conf.low", "97.5 %": "conf.high"}
    assert {name: found[name] for name in wanted} == {name: fit[own] for name, own in wanted.items()}


@pytest.mark.parametrize(
    "name",
    [
        "another root",
        *(f"false: {name}" for name in (*FALSE, *FALSE_RANGES, *FALSE_NOISE)),
        *(f"false rows: {name}" for name in BLOCKS),
    ],
)
def test_a_false_release_is_refused_in_one_sentence(asked: dict[str, Any], name: str):
    assert list(asked[name]["answer"]) == ["refused"], asked[name]["answer"]


@pytest.mark.parametrize("line", vectors(), ids=lambda line: line["folder"])
def test_a_vector_verifies_or_is_refused(asked: dict[str, Any], line: dict[str, str]):
    answer = asked[line["folder"]]["answer"]
    if line.get("mechanism") == "synthetic-control":
        assert answer["refused"] == (
            "R reads releases of moments, noisy rows, ranges and streams, not of synthetic-control; "
            'read this release with Python: dprelease.load(folder, root = "root.pem")'
        )
    elif line["must"] == "refuse":
        assert list(answer) == ["refused"], answer
        assert "Python" not in answer["refused"] or "format" in answer["refused"]
    else:
        assert answer["digest"] == line["release"]


@pytest.mark.parametrize("folder", READ)
def test_fits_on_vectors_equal_those_of_python(asked: dict[str, Any], folder: str):
    release = load_folder(VECTORS / folder, VECTORS / "root.pem")
    for fit, answer in zip(fitted(release, FITS), asked[folder]["answer"]["fits"], strict=True):
        assert_same(fit, answer)


@pytest.mark.parametrize("name", ["good/ranges", *READ[-3:], *IN_OWN_RANGES])
def test_ranges_equal_those_of_python(asked: dict[str, Any], name: str):
    release = load_folder(Path(asked[name]["folder"]), Path(asked[name]["root"]))
    ranges, answer = release.first_ranges or release.ranges(), asked[name]["answer"]["ranges"]
    for place, each in enumerate(ranges.columns):
        seen = each.range.seen(each.column)
        ours = (each.mean, each.mean_error, each.deviation, each.deviation_error, *seen.ends, *each.quantiles)
        theirs = [answer[key][place] for key in ("mean", "mean_error", "sd", "sd_error", "lower", "upper")]
        found, errors, says = (answer[key][5 * place : 5 * place + 5] for key in ("quantile", "error", "says"))
        assert [*theirs, *found, *errors] == pytest.approx([*ours, *each.quantile_errors], rel=1e-9)
        assert [answer["column"][place], *says] == [each.column.name, *each.quantile_words]


@pytest.mark.parametrize("name", [*FALSE_RANGES, *FALSE_NOISE])
def test_python_refuses_false_ranges_and_noise_too(asked: dict[str, Any], name: str):
    folder = Path(asked[f"false: {name}"]["folder"])
    with pytest.raises(IntegrityError):
        load_folder(folder, folder / "root.pem")


def test_the_example_of_the_package_still_says_what_python_says():
    release = load_folder(EXAMPLE, EXAMPLE / "root.pem")
    expected = json.loads((EXAMPLE / "expected.json").read_text())
    for ours, theirs in zip(fitted(release, CASES["example"][2]), expected["fits"], strict=True):
        for name in TIDY:
            assert [float(each) for each in ours[name]] == pytest.approx(  # type: ignore[attr-defined]
                [float(each) for each in theirs[name]], rel=1e-9, nan_ok=True
            )
