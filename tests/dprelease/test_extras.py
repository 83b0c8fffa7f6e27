"""Which extra brings a package that is not installed."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from dprelease.errors import InvalidInput
from dprelease.files.extras import EXTRAS, missing, require

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_extras_are_those_of_the_distribution() -> None:
    brought = {
        extra: {re.match(r"[\w-]+", requirement)[0].lower() for requirement in requirements}  # type: ignore[index]
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra not in ("all", "demo", "dev", "site", "validators")
    }
    packages = set().union(*brought.values())
    assert {name: {extra for extra in brought if name in brought[extra]} for name in packages} == {
        name: set(extras) for name, extras in EXTRAS.items()
    }


@pytest.mark.parametrize("package", EXTRAS)
def test_what_is_not_installed_is_named_with_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInput, match=f"this needs {package}.*pip install 'dprelease.{EXTRAS[package][0]}.'"):
        require(package)
    with pytest.raises(ImportError) as caught:
        __import__(f"{package}.below")
    found = missing(caught.value, "learner")
    assert found is not None
    assert f"[{'learner' if 'learner' in EXTRAS[package] else EXTRAS[package][0]}]" in found.message


def test_what_is_installed_or_no_extra_brings_is_not_refused() -> None:
    require("pyarrow")
    assert missing(ImportError("no such thing")) is None
    assert missing(ModuleNotFoundError("x", name="dprelease.nowhere")) is None
