"""What an attack on a server is, at its test and in the table of docs/faults.md."""

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


@dataclass(frozen=True)
class Attack:
    """One way to attack servers, and what comes of it.

    Attributes:
        what: the attack, in words; its full size where that is tried by the slow suite only.
        doors: the listeners that it is tried on.
        outcome: what comes of it; others are served meanwhile in every case.
    """

    what: str
    doors: str
    outcome: str


def row(what: str, doors: str, outcome: str) -> Callable[[Test], Test]:

    def declare(test: Test) -> Test:
        test.__dict__["attack"] = Attack(what, doors, outcome)
        return test

    return declare


def cases_of(module: ModuleType) -> list[FunctionType]:
    return [
        found for name, found in vars(module).items() if name.startswith("test_") and isinstance(found, FunctionType)
    ]


def attacks_of(module: ModuleType) -> list[Attack]:
    return [test.__dict__["attack"] for test in cases_of(module)]
