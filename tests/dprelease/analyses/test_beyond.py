"""What second moments cannot give can be had from the columns that the refusal names: the advice is followed as it stands."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind

from dprelease.analyses import compare_groups
from dprelease.analyses.beyond import BEYOND
from tests.dprelease.analyses.releases import category, released
from tests.party_node.tables import settings


def test_welchs_test_by_hand_is_that_of_scipy() -> None:
    generator = np.random.default_rng(7)
    group = generator.choice(["a", "b"], 800, p=[0.8, 0.2])
    y = np.clip(60 + generator.normal(size=800) * np.where(group == "a", 4, 12), 20, 120)
    (derived,) = re.findall(r"derived = \{.*?\}", BEYOND["welch"])
    declarations = {
        "y": {"kind": "numeric", "lower": 20, "upper": 120},
        "y_squared": tomllib.loads(derived.replace("-M", "-70")),
    }
    hospital = settings(Path("rows.csv"), declarations)
    square = hospital.declared["y_squared"].formula
    assert square is not None
    columns = (category("group", "a"), *hospital.declarations())
    release = released(columns, {"group": group, "y": y, "y_squared": square.values(y)})

    (mean, of_square) = (
        compare_groups(release, name, ["group"]).tables["means of group"].estimate for name in ("y", "y_squared")
    )
    size = np.array([(group == level).sum() for level in ("a", "b")])
    variance = (of_square - (mean - 70) ** 2) * size / (size - 1)
    known = ttest_ind(y[group == "a"], y[group == "b"], equal_var=False)
    assert (mean[0] - mean[1]) / np.sqrt((variance / size).sum()) == pytest.approx(known.statistic)
    assert variance == pytest.approx([y[group == level].var(ddof=1) for level in ("a", "b")])
