"""The walk of a number: functions of the product that it enters, from a request to the printed fit, and how it changes files."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.test_architecture import PACKAGES, ROOT


@dataclass(frozen=True)
class Walk:
    """Files in the order in which a run first enters functions of them.

    Attributes:
        functions: file of every function, in the order in which they are entered first.
    """

    functions: tuple[str, ...]

    @property
    def stays(self) -> int:
        """Runs of consecutive functions of one file."""
        return len(self._files())

    @property
    def returns(self) -> int:
        """Stays in a file that the walk has left before."""
        return self.stays - len(set(self._files()))

    def _files(self) -> list[str]:
        before = (None, *self.functions)
        return [file for file, last in zip(self.functions, before, strict=False) if file != last]


def walked(run: Callable[[], object]) -> Walk:
    """The walk of what runs; comprehensions and what an import runs are no functions."""
    seen: dict[CodeType, str] = {}
    roots = tuple(str(ROOT / package) for package in PACKAGES)

    def enter(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in seen and code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<":
            seen[code] = code.co_filename

    sys.setprofile(enter)
    try:
        run()
    finally:
        sys.setprofile(None)
    own = (str(Path(name).relative_to(ROOT)) for name in seen.values() if name.startswith(roots))
    return Walk(tuple(own))


@cache
def walk(mechanism: str, **options: Any) -> Walk:
    """The walk of a release of three hospitals in memory, from the request to what a fit prints."""
    from dprelease.estimators.fitting import fit
    from dprelease.release.release import Release
    from tests.mechanisms.test_contract import Case, blocks_of, made, tables_of
    from tests.support.noise import SeededNoise

    def run() -> None:
        spec, _ = made(Case(mechanism, options=tuple(options.items())))
        release = Release(spec, blocks_of(spec, tables_of(spec), SeededNoise(2)), ())
        fit(release, ["glucose"]).summary()

    return walked(run)
