"""Real surveys that statsmodels bundles, as releases of exact moments."""

from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm

from dprelease.release.release import Release
from tests.dprelease.analyses.releases import category, number, released


@cache
def anes() -> tuple[pd.DataFrame, Release]:
    """944 voters of 1996: numbers, a vote, and a party in three groups."""
    table = sm.datasets.anes96.load_pandas().data.copy()
    table["vote"] = np.where(table["vote"] == 1, "dole", "clinton")
    table["party"] = np.select([table["PID"] <= 2, table["PID"] >= 4], ["left", "right"], "middle")
    table["young"] = np.where(table["age"] < 40, "yes", "no")
    numbers = ("age", "educ", "income", "selfLR", "TVnews", "logpopul")
    columns = (
        category("vote", "dole"),
        category("party", "left", "middle", "right"),
        category("young", "yes"),
        *(number(name, table[name]) for name in numbers),
    )
    return table, released(columns, {column.name: table[column.name].to_numpy() for column in columns})


@cache
def fair() -> tuple[pd.DataFrame, Release]:
    """6,366 women of 1974: numbers, and whether there was an affair."""
    table = sm.datasets.fair.load_pandas().data.copy()
    table["any"] = np.where(table["affairs"] > 0, "yes", "no")
    columns = (category("any", "yes"), *(number(name, table[name]) for name in table.columns if name != "any"))
    return table, released(columns, {column.name: table[column.name].to_numpy() for column in columns})
