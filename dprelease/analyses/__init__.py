"""Analyses of released second moments beside linear regression, one function a family; none of them costs privacy."""

from dprelease.analyses.contingency import contingency_table
from dprelease.analyses.correlation import correlations, cronbach_alpha, principal_components
from dprelease.analyses.effect import effect
from dprelease.analyses.hazards import hazards
from dprelease.analyses.instruments import two_stage_least_squares
from dprelease.analyses.lasso import lasso
from dprelease.analyses.linear_models import compare_groups, mediation, nested
from dprelease.analyses.logistic import logistic
from dprelease.analyses.missing_cells import missing_cells
from dprelease.analyses.rates import poisson, rates
from dprelease.analyses.result import Analysis
from dprelease.analyses.survival import Survival, survival

__all__ = [
    "Analysis",
    "Survival",
    "compare_groups",
    "contingency_table",
    "correlations",
    "cronbach_alpha",
    "effect",
    "hazards",
    "lasso",
    "logistic",
    "mediation",
    "missing_cells",
    "nested",
    "poisson",
    "principal_components",
    "rates",
    "survival",
    "two_stage_least_squares",
]
