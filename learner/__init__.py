"""The learner role: the hub that publishes releases, and the client with which anybody fetches, checks and fits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from learner.client.library import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learner.client.library import load  # only notebooks ask for it, and commands should start at once

    return load


def __dir__() -> list[str]:
    return sorted(__all__)
