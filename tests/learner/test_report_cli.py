"""`learner report` and `learner card`, and what a model card holds."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from dprelease.estimators import ConvexSet
from dprelease.release.verification import checks
from dprelease.report import page
from dprelease.report.content import CAVEATS
from dprelease.report.model_card import SCHEMA, VERSION, model_card
from dprelease.version import __version__
from learner.client.library import Opened
from tests.learner.commands import EXIT, Run
from tests.learner.pages import FEATURES, LEVELS, TARGETS, hostile, report


@pytest.fixture(scope="module")
def release(place: Path) -> Opened:
    return hostile(place)


@pytest.fixture(scope="module")
def card(release: Opened) -> dict[str, Any]:
    return model_card(report(release, TARGETS, FEATURES))


def asked(release: Opened) -> list[str]:
    targets = [word for name in TARGETS for word in ("--target", name)]
    return [str(release.folder.path), *targets, *(word for name in FEATURES for word in ("--features", name))]


def test_the_page_and_the_card_are_written(run: Run, release: Opened, tmp_path: Path, card: dict[str, Any]) -> None:
    out = tmp_path / "report.html"
    shown = run("report", *asked(release), "--output", out)
    assert shown.exit_code == 0, shown.output
    assert shown.output == f"{out}: shrinkage of 2 targets on 3 features\n"
    assert out.read_text(encoding="utf-8") == page(report(release, TARGETS, FEATURES))
    assert json.loads(run("report", *asked(release), "--output", out, "--json").output) == card
    assert json.loads(run("card", *asked(release)).output) == card
    saved = run("card", *asked(release), "--output", tmp_path / "card.json")
    assert saved.exit_code == 0
    assert json.loads((tmp_path / "card.json").read_text()) == card


def test_the_printed_command_makes_the_same_page_again(run: Run, release: Opened, tmp_path: Path) -> None:
    constrained = ("--method", "constrained", "--no-intercept", "--within", "l1:0.5")
    for options, fitted in (
        ((), ()),
        (("--method", "ols", "--no-intercept"), ("ols", False)),
        (constrained, ("constrained", False, ConvexSet("l1", 0.5))),
    ):
        first = tmp_path / "first.html"
        assert run("report", *asked(release), *options, "--output", first).exit_code == 0
        words = shlex.split(report(release, TARGETS, FEATURES, *fitted).command("report", "report.html"))
        assert words[:3] == ["learner", "report", release.release.digest]
        again = run("report", release.folder.path, *words[3:-1], tmp_path / "again.html")
        assert again.exit_code == 0, again.output
        assert (tmp_path / "again.html").read_bytes() == first.read_bytes()


def test_what_cannot_be_done_is_said(run: Run, release: Opened, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command, option in (("report", "--output"), ("report", "--out"), ("card", "--output")):
        refused = run(command, *asked(release), option, tmp_path / "file" / "output")
        assert refused.exit_code == EXIT["InvalidInput"], refused.output
        assert "cannot write" in refused.stderr
        unknown = run(command, release.folder.path, "--target", "weight", option, tmp_path / "output")
        assert unknown.exit_code == EXIT["InvalidInput"]
        assert "weight" in unknown.stderr
        assert not (tmp_path / "output").exists()
        stranger = run(command, tmp_path, "--target", "glucose", option, tmp_path / "output")
        assert stranger.exit_code == EXIT["NotFound"]
    assert run("report", *asked(release)).exit_code == 2


def test_a_card_keeps_its_fields(card: dict[str, Any]) -> None:
    """Whoever changes this test raises `VERSION`, unless a field was only added."""
    assert (card["schema"], card["version"]) == (SCHEMA, VERSION) == ("dprelease.model-card", 2)
    assert {key: sorted(value) if isinstance(value, dict) else type(value).__name__ for key, value in card.items()} == {
        "schema": "str",
        "version": "int",
        "software": "str",
        "command": "str",
        "release": [
            "consortium",
            "created",
            "digest",
            "mechanism",
            "patients",
            "published",
            "rows_per_subject",
            "software",
            "title",
        ],
        "verification": ["checked", "root_sha256"],
        "privacy": ["guarantee", "kind", "neighbours", "target", "trust"],
        "data": "list",
        "intended_use": ["out_of_scope", "purposes"],
        "findings": "list",
        "fit": [
            "algorithm",
            "coefficients",
            "counted_together",
            "diagnostics",
            "feature_ends",
            "features",
            "fit",
            "fit_intercept",
            "identified",
            "mechanism",
            "method",
            "missing_cells",
            "noise_to_signal",
            "noise_to_signal_limit",
            "notes",
            "patients",
            "predictor",
            "quality",
            "range",
            "reason",
            "release",
            "statement",
            "targets",
            "title",
            "unidentified",
            "unresolved",
            "version",
            "within",
        ],
        "ranges": "list",
        "analyses": "list",
        "caveats": "list",
    }
    common = ["derivation", "fill", "kind", "name", "party", "public", "unit", "used_as"]
    assert [sorted(column) for column in card["data"]] == [
        sorted([*common, "lower", "upper"]),
        sorted([*common, "exhaustive", "levels"]),
        sorted([*common, "lower", "upper"]),
        sorted([*common, "exhaustive", "levels"]),
    ]
    finding = ["better_than_constant", "coefficients_known", "finding", "target", "unit"]
    assert [sorted(each) for each in card["findings"]] == [finding] * 2


def test_a_card_says_what_the_fit_and_the_release_say(card: dict[str, Any], release: Opened) -> None:
    spec, fit = release.release.spec, report(release, TARGETS, FEATURES).fit
    assert card["software"] == __version__
    assert card["release"]["digest"] == fit.release == spec.digest()
    assert card["release"]["title"] == spec.title
    assert card["release"]["patients"] == spec.rows
    assert card["verification"] == {"root_sha256": release.consortium.fingerprint, "checked": list(checks(spec))}
    assert (card["privacy"]["guarantee"], card["privacy"]["trust"]) == tuple(
        map(list, (fit.promise.guarantee, fit.promise.trust))
    )
    assert card["privacy"]["target"] == {"scope": "joint", "epsilon": 1.0, "delta": 1e-5}
    assert card["data"][1]["levels"] == list(LEVELS)
    assert [column["used_as"] for column in card["data"]] == [["feature"], ["feature"], ["target"], ["target"]]
    assert card["fit"] | card["privacy"] == fit.document().to_json() | card["privacy"]
    assert [each["target"] for each in card["findings"]] == list(fit.targets)
    assert card["caveats"][-len(CAVEATS) :] == list(CAVEATS)
