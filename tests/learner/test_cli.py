"""The commands, through click's runner, against a hub that really runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dprelease.estimators import fit
from dprelease.identity.certificates import certificate_fingerprint
from dprelease.release.accounting import trust
from dprelease.release.folder import ReleaseFolder
from dprelease.release.verification import CHECKS
from learner.cli.main import main
from learner.hub.server import Hub
from learner.listing import SHOWN_DIGITS
from tests.learner.commands import EXIT, Run
from tests.learner.tampering import BLOCKS, copy
from tests.learner.world import CONSORTIUM, Sealed, World, stored
from tests.support.certificates import mint


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LEARNER_HOME", str(home))
    return lambda *arguments, **more: CliRunner().invoke(main, [str(argument) for argument in arguments], **more)


@pytest.fixture
def hub(world: World, sealed: Sealed, tmp_path: Path, start_hub: Callable[..., Hub]) -> Hub:
    """A hub that has published two releases."""
    rows = world.sealed("rows that were noised", mechanism="rows", delta=1e-3)
    stored(tmp_path / "storage", world, sealed, rows)
    return start_hub()


@pytest.fixture
def trusting(run: Run, world: World, hub: Hub) -> Run:
    added = run("trust", "add", CONSORTIUM, "--root", world.root_path, "--hub", f"localhost:{hub.public_port}", "--yes")
    assert added.exit_code == 0, added.output
    return run


def test_pinning_asks_to_compare(run: Run, world: World) -> None:
    fingerprint = certificate_fingerprint(world.root.certificate)
    add = ("trust", "add", CONSORTIUM, "--root", world.root_path, "--hub", "hub.example.org:7444")
    declined = run(*add, input="n\n")
    assert declined.exit_code == 1
    assert fingerprint in declined.output
    assert json.loads(run("trust", "list", "--json").output)["consortia"] == []
    wrong = run(*add, "--fingerprint", "00" * 32)
    assert wrong.exit_code == EXIT["InvalidInput"]
    assert "do not trust" in wrong.output
    assert run(*add, input="y\n").exit_code == 0
    assert run(*add, "--fingerprint", fingerprint.upper()).exit_code == 0
    assert json.loads(run("trust", "list", "--json").output)["consortia"] == [
        {"name": CONSORTIUM, "hub": "hub.example.org:7444", "mirrors": [], "root_sha256": fingerprint}
    ]
    assert fingerprint in run("trust", "list").output
    assert run("trust", "remove", CONSORTIUM).exit_code == 0
    assert run("trust", "remove", CONSORTIUM).exit_code == EXIT["NotFound"]


def test_list_fetch_verify(trusting: Run, sealed: Sealed, home: Path) -> None:
    lines = json.loads(trusting("list", "--json").output)["releases"]
    assert sealed.digest in {line["digest"] for line in lines}
    assert len(lines) == 2
    shown = trusting("list", "--from", CONSORTIUM).output
    assert sealed.digest[:SHOWN_DIGITS] in shown
    assert sealed.spec.title in shown
    fetched = trusting("fetch", sealed.digest[:8])
    assert fetched.exit_code == 0, fetched.output
    assert (home / "releases" / sealed.digest / "manifest.json").exists()
    verified = trusting("verify", sealed.digest[:12])
    assert verified.exit_code == 0
    for sentence in (*CHECKS, *sealed_guarantee(sealed), *trust(sealed.spec)):
        assert sentence in verified.output
    facts = json.loads(trusting("verify", sealed.digest, "--json").output)
    assert facts["verified"] is True
    assert facts["guarantee"] == list(sealed_guarantee(sealed))
    assert {"name": "age", "unit": "years"} in facts["columns"]


def sealed_guarantee(sealed: Sealed) -> tuple[str, ...]:
    from dprelease.release.accounting import check_spec

    return check_spec(sealed.spec).words()


def test_what_does_not_verify_is_neither_verified_fitted_nor_exported(
    trusting: Run, folder: ReleaseFolder, world: World, tmp_path: Path
) -> None:
    false = copy(folder, tmp_path / "false")
    BLOCKS["flipped bit of block"](false, world)
    output = tmp_path / "output"
    for arguments in (
        ("verify", false.path),
        ("fit", false.path, "--target", "glucose", "--output", output),
        ("export", false.path, "--format", "csv", "--output", output),
    ):
        result = trusting(*arguments)
        assert result.exit_code == EXIT["IntegrityError"], result.output
        assert result.stderr.startswith("error: ")
    assert not output.exists()


def test_errors_have_the_exit_codes_of_the_table(trusting: Run, run: Run, world: World, tmp_path: Path) -> None:
    assert trusting("fetch", "00" * 8).exit_code == EXIT["NotFound"]
    assert trusting("fetch", "xyz").exit_code == EXIT["InvalidInput"]
    assert trusting("list", "--from", "nobody").exit_code == EXIT["NotFound"]
    add = ("trust", "add", "other", "--hub", "localhost:1", "--yes", "--root")
    refused = trusting(*add, world.root_path)  # no release of it would be believed
    assert refused.exit_code == EXIT["InvalidInput"]
    assert f"the root is that of consortium {CONSORTIUM}, not other; use its name" in refused.stderr
    (tmp_path / "other.pem").write_text(mint("other", None).certificate)
    assert trusting(*add, tmp_path / "other.pem").exit_code == 0
    assert trusting("list").exit_code == EXIT["InvalidInput"]  # two are trusted now
    assert trusting("list", "--from", "other").exit_code == EXIT["PeerUnavailable"]
    assert trusting("--home", tmp_path / "empty", "list").exit_code == EXIT["NotFound"]


def fit_arguments(digest: str) -> tuple[Any, ...]:
    return ("fit", digest[:16], "--target", "glucose", "--features", "age,sex")


def test_a_fit_prints_the_model_and_the_constant_predictor(
    trusting: Run, sealed: Sealed, folder: ReleaseFolder, world: World, tmp_path: Path
) -> None:
    trusting("fetch", sealed.digest)
    output = tmp_path / "fit.json"
    result = trusting(*fit_arguments(sealed.digest), "--output", output)
    assert result.exit_code == 0, result.output
    expected = fit(folder.verify(world.root.certificate), ["glucose"], ["age", "sex"])
    shown = result.output
    assert shown.startswith("verified: release ")
    assert expected.summary() in shown
    assert expected.verdicts[0] in shown
    shown = trusting(*fit_arguments(sealed.digest), "--explain").output
    assert expected.summary(explain=True) in shown
    assert "mmol/l per year" in shown
    for sentence in sealed_guarantee(sealed):
        assert sentence in shown
    assert "The model that predicts" in trusting(*fit_arguments(sealed.digest), "--predictor").output
    saved = json.loads(output.read_text())
    assert saved == expected.document().to_json()
    assert json.loads(trusting(*fit_arguments(sealed.digest), "--json").output) == saved


@pytest.mark.parametrize("method", ["calibrated", "ols", "rmgm", "bgm", "dgm"])
def test_every_method_can_be_chosen(trusting: Run, sealed: Sealed, method: str) -> None:
    lines = json.loads(trusting("list", "--json").output)["releases"]
    rows = next(line["digest"] for line in lines if line["digest"] != sealed.digest)
    digest = rows if method in {"bgm", "dgm"} else sealed.digest
    trusting("fetch", digest)
    for flag, expected in (("--intercept", True), ("--no-intercept", False)):
        shown = trusting(*fit_arguments(digest), "--method", method, flag)
        assert shown.exit_code == 0, shown.output
        assert ("without an intercept" in shown.output) is not expected
        result = json.loads(trusting(*fit_arguments(digest), "--method", method, flag, "--json").output)
        assert (result["method"], result["fit_intercept"]) == (method, expected)


def test_a_fit_of_what_is_not_there_is_refused(trusting: Run, sealed: Sealed) -> None:
    trusting("fetch", sealed.digest)
    for arguments in (("--target", "weight"), ("--target", "glucose", "--features", "age,weight")):
        result = trusting("fit", sealed.digest, *arguments)
        assert result.exit_code == EXIT["InvalidInput"]
        assert "weight" in result.stderr


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet"])
def test_an_export_says_what_rows_are(
    trusting: Run, sealed: Sealed, folder: ReleaseFolder, world: World, tmp_path: Path, kind: str
) -> None:
    trusting("fetch", sealed.digest)
    output = tmp_path / f"release.{kind}"
    result = trusting("export", sealed.digest, "--format", kind, "--output", output)
    assert result.exit_code == 0, result.output
    assert "Rows are not patients" in result.output
    assert output.stat().st_size > 0
    if kind == "npz":
        scaled = folder.verify(world.root.certificate).scaled()
        assert np.array_equal(np.load(output)["values"][:, 1:], scaled.values)
    nowhere = trusting("export", sealed.digest, "--format", kind, "--output", tmp_path / "none" / "file")
    assert nowhere.exit_code == EXIT["InvalidInput"]
