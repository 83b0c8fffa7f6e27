"""The patients that the table is read by: those of an alignment run, or all.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

from dprelease.errors import DataRefused
from party_node.settings import PartySettings
from party_node.source.alignment import Roster
from party_node.state.runs import Runs


def in_force(runs: Runs, settings: PartySettings) -> Roster | None:
    """The patients of the roster's latest version; None where hospitals never aligned. Raises as `patients_of`."""
    entry = runs.in_force(settings.roster)
    return None if entry is None else patients_of(runs, settings, entry.run)


def patients_of(runs: Runs, settings: PartySettings, run: str | None) -> Roster | None:
    """The patients of an alignment run.

    Args:
        runs: our record.
        settings: how identifiers are brought to their normal form now.
        run: its digest; None for a release of whole tables.

    Raises:
        NotFound: the run was not finished here.
        IntegrityError: the file of its patients is gone or was altered.
        DataRefused: identifiers were brought to another form when it was made.
    """
    if run is None:
        return None
    patients, entry = runs.roster(run), runs.get(run)
    assert entry is not None, run  # noqa: S101 - it has patients
    assert entry.secret is not None, run  # noqa: S101 - kept with them
    if entry.task.identifiers != settings.source.identifiers.canonical:
        raise DataRefused(
            f"[source.identifiers] changed after alignment run {run[:12]}: the patients in force have other pseudonyms; put "
            "it back as it was, or ask the office to align anew"
        )
    return Roster(run, patients, entry.secret)
