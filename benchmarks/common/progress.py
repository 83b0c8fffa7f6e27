"""How far a release is, from the states that the roles keep: never from the words of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from coordinator.cli.options import opened
from coordinator.lifecycle import Stage
from coordinator.settings import CoordinatorSettings
from demo.consortium import Consortium, wait_for
from dprelease.errors import Conflict
from dprelease.files.settings import read_settings

_ENDED_UNPUBLISHED = (Stage.REJECTED, Stage.FAILED, Stage.CANCELLED, Stage.EXPIRED)


def wait_until_approved(made: Consortium, release: str, seconds: float) -> None:
    """Return as soon as every hospital has approved a release.

    Raises:
        CommandFailed: it is not approved within `seconds`.
        Conflict: it ended before.
    """
    with _asked(made, release) as state:
        wait_for(lambda: state() is not Stage.PROPOSED, seconds, "every approval")


def wait_until_published(made: Consortium, release: str, seconds: float) -> None:
    """Return as soon as the coordinator knows that a release is published.

    Raises:
        CommandFailed: it is not published within `seconds`.
        Conflict: it ended unpublished.
    """
    with _asked(made, release) as state:
        wait_for(lambda: state() is Stage.PUBLISHED, seconds, "publication")


def wait_until_joined(made: Consortium, release: str, names: Iterable[str], seconds: float) -> None:
    """Return as soon as every hospital has read its rows and begun its session of a joint computation.

    Raises:
        CommandFailed: one has not within `seconds`.
        Conflict: the release ended before.
    """
    sessions = [made.hospital(name) / "state" / "joint" / release / "session.json" for name in names]

    with _asked(made, release) as state:
        wait_for(
            lambda: all(path.exists() for path in sessions) or state() is Stage.PUBLISHED,
            seconds,
            "every hospital to join",
        )


@contextmanager
def _asked(made: Consortium, release: str) -> Iterator[Callable[[], Stage]]:
    """What the office's database says of a release, from one connection: to open it takes longer than to ask."""
    with opened(read_settings(made.office / "coordinator.toml", CoordinatorSettings)) as store:

        def state() -> Stage:
            with store.reading() as tx:
                record = tx.releases.find(release).record
            if record.state in _ENDED_UNPUBLISHED:
                raise Conflict(f"release {release[:12]} is {record.state}: {record.reason}")
            return record.state

        yield state
