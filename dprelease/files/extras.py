"""Optional dependencies: which extra of the distribution brings a package that is not installed.

`pip install '.[learner]'` installs the commands of every role. A command whose role's packages are missing says which extra to
install, before it has done anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from dprelease.errors import InvalidInput

EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "adbc_driver_postgresql": ("sql",),
        "alembic": ("coordinator",),
        "distributed": ("dask",),
        "gmpy2": ("party",),
        "jinja2": ("learner",),
        "matplotlib": ("plot",),
        "numba": ("fast",),
        "pandas": ("frames",),
        "psycopg": ("postgresql",),
        "pyarrow": ("party", "learner"),
        "sqlalchemy": ("coordinator",),
        "urllib3": ("learner",),
    }
)
"""Imported name of an optional package to the extras that bring it."""


def installed(package: str) -> bool:
    """Tells whether an optional package can be imported."""
    return find_spec(package) is not None


def require(package: str, role: str = "") -> None:
    """Refuse to begin what cannot be ended.

    Args:
        package: one of `EXTRAS`.
        role: whose extra to name where several bring it.

    Raises:
        InvalidInput: the package is not installed.
    """
    if not installed(package):
        raise InvalidInput(_sentence(package, role))


def imported(module: str) -> Any:
    """A module of an optional package; raises `InvalidInput` where the package is not installed."""
    require(module.partition(".")[0])
    return import_module(module)


def missing(error: ImportError, role: str = "") -> InvalidInput | None:
    """The refusal that an `ImportError` stands for; None where no extra would help."""
    package = (error.name or "").partition(".")[0]
    return InvalidInput(_sentence(package, role)) if package in EXTRAS else None


def _sentence(package: str, role: str) -> str:
    extra = role if role in EXTRAS[package] else EXTRAS[package][0]
    return f"this needs {package}, which is not installed; it comes with the extra {extra}: pip install 'dprelease[{extra}]'"
