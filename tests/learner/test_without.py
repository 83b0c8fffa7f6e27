"""`--without` of a fit, a report and a card: the features that are not named, and an error for a name that is none of them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.learner.commands import EXIT, runner
from tests.learner.moments import COLUMNS, opened
from tests.learner.world import World


def test_features_are_left_out_by_name(tmp_path: Path) -> None:
    folder = opened(World(tmp_path, COLUMNS[1]), tmp_path).folder.path
    run = runner(tmp_path / "home")
    asked = (folder, "--target", "glucose", "--method", "ols")
    left = json.loads(run("fit", *asked, "--without", "smoker,stage=II", "--json").output)
    assert left == json.loads(run("fit", *asked, "--features", "age,stage=other", "--json").output)
    assert left == json.loads(run("fit", *asked, "--features", "age,stage", "--without", "stage=II", "--json").output)
    card = json.loads(run("card", *asked, "--without", "smoker,stage=II").output)
    assert card["command"] == json.loads(run("card", *asked, "--features", "age,stage=other").output)["command"]
    for names, said in (
        ("stage=I", "stage=I is not among the features age, smoker=other"),  # the reference
        ("glucose", "glucose is not among the features"),
        ("weight", "weight"),
        ("age,smoker,stage", "leaves no feature"),
    ):
        refused = run("fit", *asked, "--without", names)
        assert refused.exit_code == EXIT["InvalidInput"]
        assert said in refused.stderr
