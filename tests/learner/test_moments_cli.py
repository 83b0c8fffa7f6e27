"""The commands on a release of joint moments: fetched from a hub that really runs, and from folders of 1, 2 and 3 hospitals."""

import json
from pathlib import Path

import numpy as np
import pytest

from dprelease.canonical import sha256
from dprelease.description.columns import MOST_CORRELATED
from dprelease.document.cells import Estimate
from dprelease.estimators import fit
from dprelease.estimators.evidence.evidence import Evidence
from dprelease.estimators.evidence.summary import summarise
from dprelease.mechanisms.moments.words import ADDED_UP, RANGE_ATTACK
from dprelease.release.accounting import check_spec, trust
from dprelease.release.block import read_block
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import BlockEntry, sign_manifest
from dprelease.release.verification import CHECKS
from learner.client.library import Opened
from tests.learner.commands import EXIT, Run, runner
from tests.learner.moments import COLUMNS, ROWS, VARIABLES, opened, truth
from tests.learner.tampering import copy
from tests.learner.world import CONSORTIUM, World
from tests.support.specs import numeric

TOGETHER = {1: "computed by one hospital", 2: "computed together by 2 hospitals", 3: "computed together by 3 hospitals"}


@pytest.fixture(scope="module", params=[1, 2, 3])
def parties(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def place(parties: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(f"moments-{parties}")


@pytest.fixture(scope="module")
def consortium(parties: int, place: Path) -> World:
    return World(place, COLUMNS[parties])


@pytest.fixture(scope="module")
def release(consortium: World, place: Path) -> Opened:
    return opened(consortium, place)


def test_verify_says_what_was_checked_and_whom_to_trust(run: Run, release: Opened, parties: int) -> None:
    spec, folder = release.release.spec, release.folder.path
    shown = run("verify", folder)
    assert shown.exit_code == 0, shown.output
    assert f"moments of {len(spec.columns)} columns, {TOGETHER[parties]}" in shown.output
    assert "released rows" not in shown.output
    for sentence in (*CHECKS, ADDED_UP, *check_spec(spec).words(), *trust(spec)):
        assert sentence in shown.output
    assert (RANGE_ATTACK in shown.output) == (parties > 1)
    facts = json.loads(run("verify", folder, "--json").output)
    assert facts["mechanism"] == "moments"
    assert facts["checked"] == [*CHECKS, ADDED_UP]
    assert facts["trust"] == list(trust(spec))


def test_a_fit_takes_the_method_of_the_mechanism_and_prints_the_trust(
    run: Run, release: Opened, tmp_path: Path
) -> None:
    output = tmp_path / "fit.json"
    arguments = ("fit", release.folder.path, "--target", "glucose", "--features", "age,stage")
    shown = run(*arguments, "--output", output)
    assert shown.exit_code == 0, shown.output
    expected = fit(release.release, ["glucose"], ["age", "stage"])
    assert expected.method == "shrinkage"
    assert expected.summary() in shown.output
    assert "shrinkage, with an intercept" in shown.output
    assert expected.verdicts[0] in shown.output
    assert release.release.promise.line in shown.output
    explained = run(*arguments, "--explain").output
    for sentence in (*release.release.guarantee, *trust(release.release.spec)):
        assert sentence in explained
    saved = json.loads(output.read_text())
    assert saved == expected.document().to_json() == json.loads(run(*arguments, "--json").output)
    assert saved["trust"] == list(trust(release.release.spec))
    other = json.loads(run(*arguments, "--method", "ols", "--json").output)
    assert other["method"] == "ols"
    held = json.loads(run(*arguments, "--method", "constrained", "--within", "l1:0.5", "--json").output)
    assert (held["method"], held["within"]) == ("constrained", "l1:0.5")
    for wrong, said in (("l1:-1", "positive"), ("l3:1", "l2, l1, simplex")):
        refused = run(*arguments, "--method", "constrained", "--within", wrong)
        assert refused.exit_code == EXIT["InvalidInput"]
        assert said in refused.stderr
    refused = run(*arguments, "--within", "l1:0.5")
    assert refused.exit_code == EXIT["InvalidInput"]
    assert "take method 'constrained'" in refused.stderr
    refused = run(*arguments, "--method", "rmgm")
    assert refused.exit_code == EXIT["InvalidInput"]
    assert "moments" in refused.stderr


def test_a_description_in_original_units(run: Run, release: Opened) -> None:
    found = json.loads(run("describe", release.folder.path, "--json").output)
    columns = {column.pop("name"): column for column in found["columns"]}
    assert tuple(columns) == VARIABLES
    assert found["patients"] == ROWS
    exact = np.array(truth(release.release.spec)) / ROWS
    for name, index, midpoint, half_width in (("age", 1, 60, 60), ("glucose", 3, 16, 14), ("stage=II", 5, 0, 1)):
        described, mean = columns[name], exact[0, index]
        deviation = np.sqrt(exact[index, index] - mean**2)
        found_mean, spread = described["mean"], described["standard_deviation"]
        assert abs(found_mean["estimate"] - midpoint - half_width * mean) < 5 * found_mean["standard_error"]
        assert abs(spread["estimate"] - half_width * deviation) < 5 * spread["standard_error"]
    summary = summarise(release.release.moments())
    place = VARIABLES.index("age"), VARIABLES.index("glucose")
    names = list(columns)
    assert found["correlation"][names.index("age")][names.index("glucose")] == summary.correlation[place]
    assert columns["age"]["unit"] == "years"
    assert columns["stage=I"]["unit"] == ""
    assert found["trust"] == list(trust(release.release.spec))


def test_a_description_as_tables(run: Run, release: Opened) -> None:
    shown = run("describe", release.folder.path, "--columns", "age,stage", "--columns", "glucose")
    assert shown.exit_code == 0, shown.output
    summary = summarise(release.release.moments())
    for name in ("age", "glucose", "stage=other"):
        index = VARIABLES.index(name)
        line = next(line for line in shown.output.splitlines() if line.startswith(f"{name} "))
        assert f" {Estimate(summary.mean[index], summary.mean_sd[index]).text} " in line
        spread = Estimate(summary.standard_deviation[index], summary.standard_deviation_sd[index])
        assert f" {spread.text}" in line
    correlation = summary.correlation[VARIABLES.index("age"), VARIABLES.index("glucose")]
    assert (
        f" {Estimate(correlation, summary.correlation_sd[VARIABLES.index('age'), VARIABLES.index('glucose')]).text}"
        in shown.output
    )
    assert "smoker" not in shown.output
    assert release.release.promise.line in shown.output
    refused = run("describe", release.folder.path, "--columns", "age,weight")
    assert refused.exit_code == EXIT["InvalidInput"]
    assert "weight" in refused.stderr


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet"])
def test_an_export_is_the_matrix_unless_rows_are_wanted(run: Run, release: Opened, tmp_path: Path, kind: str) -> None:
    output = tmp_path / f"moments.{kind}"
    for form in ((), ("--as", "matrix")):
        shown = run("export", release.folder.path, "--format", kind, "--output", output, *form)
        assert shown.exit_code == 0, shown.output
        assert "a matrix, 7 x 7" in shown.output
    assert (tmp_path / "moments.csv.noise.csv").exists() == (kind == "csv")
    if kind == "npz":
        assert np.array_equal(np.load(output)["values"], release.release.moments().gram)
    made = run("export", release.folder.path, "--format", kind, "--output", output, "--as", "rows")
    assert made.exit_code == 0, made.output
    for words in ("Rows are not patients", "n is not the number of rows", "standard errors", "meaningless"):
        assert words in made.output
    if kind == "npz":
        mean = np.load(output)["values"][:, 1].mean()
        assert mean == pytest.approx(60 + 60 * Evidence(release.release.moments()).likely()[0, 1])
    nowhere = run("export", release.folder.path, "--format", kind, "--output", tmp_path / "none" / "file")
    assert nowhere.exit_code == EXIT["InvalidInput"]


def test_blocks_that_do_not_add_up_are_refused(run: Run, release: Opened, consortium: World, tmp_path: Path) -> None:
    """Every signature is good, but one hospital's block is not the one that belongs to the others."""
    false = copy(release.folder, tmp_path / "false")
    spec, (party, *_) = release.release.spec, consortium.parties
    block = bytearray(false.block(party).read_bytes())
    for at in range(len(block) - 8 * spec.blocks(party)[0].columns, len(block), 8):
        block[at + 7] ^= 0x08
    read_block(bytes(block), spec, party)
    false.block(party).write_bytes(block)
    manifest = false.manifest()
    assert sha256(bytes(block)) != manifest.blocks[0].sealed.sha256
    again = BlockEntry(
        sealed=consortium.seal(party, spec, bytes(block)), certificate=consortium.parties[party].certificate
    )
    data = manifest.model_copy(update={"blocks": (again, *manifest.blocks[1:])}).to_bytes()
    false.write_manifest(data, sign_manifest(consortium.hub.key, data))
    for arguments in (
        ("verify", false.path),
        ("fit", false.path, "--target", "glucose"),
        ("describe", false.path),
        ("export", false.path, "--format", "csv", "--output", tmp_path / "output"),
    ):
        refused = run(*arguments)
        assert refused.exit_code == EXIT["IntegrityError"], refused.output
        assert "do not add up" in refused.stderr
    assert not (tmp_path / "output").exists()


# Other releases and other columns.


def test_a_release_of_rows_has_means_and_nothing_more(folder: ReleaseFolder, world: World, tmp_path: Path) -> None:
    run = runner(tmp_path / "home")
    run("trust", "add", CONSORTIUM, "--root", world.root_path, "--hub", "localhost:1", "--yes")
    shown = run("describe", folder.path)
    assert shown.exit_code == 0, shown.output
    assert "Standard deviations and correlations need a release of joint moments" in shown.output
    found = json.loads(run("describe", folder.path, "--json", "--columns", "glucose,sex").output)
    assert found["correlation"] is None
    assert [column["name"] for column in found["columns"]] == ["glucose", "sex=female", "sex=male", "sex=other"]
    assert {column["standard_deviation"]["estimate"] for column in found["columns"]} == {None}
    verified = folder.verify(world.root.certificate)
    expected = fit(verified, ["glucose"], method="ols")
    glucose = found["columns"][0]
    mean = glucose["mean"]
    assert (mean["estimate"], mean["standard_error"]) == (expected.constant[0], expected.constant_noise_sd[0])
    fitted = run("fit", folder.path, "--target", "glucose", "--features", "age")
    assert "calibrated, with an intercept" in fitted.output
    assert verified.promise.line in fitted.output
    assert verified.promise.line in shown.output
    refused = run("export", folder.path, "--format", "csv", "--output", tmp_path / "output", "--as", "matrix")
    assert refused.exit_code == EXIT["InvalidInput"]
    assert "no matrix of moments" in refused.stderr
    assert not (tmp_path / "output").exists()
    rows = run("export", folder.path, "--format", "csv", "--output", tmp_path / "output", "--as", "rows")
    assert "Rows are not patients" in rows.output


def test_many_columns_do_not_fit_a_terminal(tmp_path: Path) -> None:
    columns = {"north": tuple(numeric(f"x{place}") for place in range(MOST_CORRELATED + 1))}
    release = opened(World(tmp_path, columns), tmp_path, rows=200)
    run = runner(tmp_path / "home")
    shown = run("describe", release.folder.path)
    assert f"choose up to {MOST_CORRELATED} with --columns" in shown.output
    assert "correlation with" not in shown.output
    chosen = ",".join(f"x{place}" for place in range(MOST_CORRELATED))
    assert "correlation with" in run("describe", release.folder.path, "--columns", chosen).output
