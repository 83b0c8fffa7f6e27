"""dprelease: one differentially private dataset from hospitals that hold different columns about the same patients.

Each name here is loaded when it is first asked for, so that a command which needs none of it starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dprelease.version import __version__

if TYPE_CHECKING:
    from dprelease.data.bounding import BoundedRows, bound
    from dprelease.data.columns import CategoricalColumn, NumericColumn
    from dprelease.dataset import Dataset, load
    from dprelease.privacy.gaussian import delta_of, epsilon_of, mu_of
    from dprelease.privatization import privatize
    from dprelease.release.accounting import Guarantee, check_spec, guarantee
    from dprelease.release.release import Release
    from dprelease.release.spec import ReleaseSpec
    from dprelease.release.verification import verify_release

_HOMES = {
    "BoundedRows": "data.bounding",
    "CategoricalColumn": "data.columns",
    "Dataset": "dataset",
    "Guarantee": "release.accounting",
    "NumericColumn": "data.columns",
    "Release": "release.release",
    "ReleaseSpec": "release.spec",
    "bound": "data.bounding",
    "check_spec": "release.accounting",
    "delta_of": "privacy.gaussian",
    "epsilon_of": "privacy.gaussian",
    "guarantee": "release.accounting",
    "load": "dataset",
    "mu_of": "privacy.gaussian",
    "privatize": "privatization",
    "verify_release": "release.verification",
}

__all__ = [
    "BoundedRows",
    "CategoricalColumn",
    "Dataset",
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


def __dir__() -> list[str]:
    return sorted(__all__)
