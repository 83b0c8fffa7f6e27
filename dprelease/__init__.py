"""dprelease: one differentially private dataset from hospitals that hold different columns about the same patients.

What is named here is loaded when it is first asked for, so that a command which needs none of it starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dprelease.version import __version__

if TYPE_CHECKING:
    from dprelease.data.bounding import BoundedRows, bound
    from dprelease.data.columns import CategoricalColumn, NumericColumn
    from dprelease.privacy.gaussian import delta_of, epsilon_of, mu_of
    from dprelease.privatization import privatize
    from dprelease.release.accounting import Guarantee, check_spec, guarantee
    from dprelease.release.loading import load
    from dprelease.release.release import Release
    from dprelease.release.spec import ReleaseSpec
    from dprelease.release.verification import verify_release

_HOMES = {
    "BoundedRows": "bounding",
    "CategoricalColumn": "columns",
    "Guarantee": "accounting",
    "NumericColumn": "columns",
    "Release": "release",
    "ReleaseSpec": "spec",
    "bound": "bounding",
    "check_spec": "accounting",
    "delta_of": "gaussian",
    "epsilon_of": "gaussian",
    "guarantee": "accounting",
    "load": "loading",
    "mu_of": "gaussian",
    "privatize": "privatization",
    "verify_release": "verification",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dprelease.{_HOMES[name]}"), name)
