"""dprelease: one differentially private dataset from hospitals that hold different columns about the same patients."""

from dprelease.accounting import Guarantee, check_spec, guarantee
from dprelease.bounding import BoundedRows, bound
from dprelease.columns import CategoricalColumn, NumericColumn
from dprelease.gaussian import delta_of, epsilon_of, mu_of
from dprelease.loading import load
from dprelease.privatize import privatize
from dprelease.release import Release
from dprelease.spec import ReleaseSpec
from dprelease.verification import verify_release
from dprelease.version import __version__

__all__ = [
    "BoundedRows",
    "CategoricalColumn",
    "Guarantee",
    "NumericColumn",
    "Release",
    "ReleaseSpec",
    "__version__",
    "bound",
    "check_spec",
    "delta_of",
    "epsilon_of",
    "guarantee",
    "load",
    "mu_of",
    "privatize",
    "verify_release",
]
