"""The example of hazards in docs/analyses.md: a release of six columns of SUPPORT2, simulated at (epsilon, delta) = (1, 1e-5)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common.files import FOLDER
from benchmarks.survival.real import DAYS
from benchmarks.survival.simulated import noise_of
from dprelease.analyses import Analysis, hazards
from dprelease.data.exits import Exits
from tests.support.exits import BINARY, exit_columns, exit_release, places_of

CUTS, BANDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0), (50, 65, 75)
"""Years of follow-up, and of age."""
SEED = 1


def analysed(seed: int = SEED) -> Analysis:
    """Hazard ratios of cancer, age, sex and diabetes."""
    table, exits = pd.read_csv(FOLDER / "survival" / "support2.csv.gz"), Exits(CUTS)
    levels = {
        "dead": BINARY,
        "ca": ("metastatic", "no", "yes"),
        "age_band": ("< 50", "50 to 65", "65 to 75", ">= 75"),
        "sex": ("female", "male"),
        "diabetes": BINARY,
    }
    columns = exit_columns(exits, levels)
    dead = table["death"].to_numpy()
    places = {
        "exit": places_of(exits, table["d_time"].to_numpy() / DAYS, dead - 1),
        "age_band": np.searchsorted(BANDS, table["age"], side="right"),
        "dead": dead,
        "diabetes": table["diabetes"].to_numpy(),
    } | {name: np.array([levels[name].index(level) for level in table[name]]) for name in ("ca", "sex")}
    release = exit_release(columns, places, noise_of(columns), np.random.default_rng(seed))
    return hazards(release, "exit", ["ca", "age_band", "sex", "diabetes"], "dead")


if __name__ == "__main__":
    print(analysed().summary())
