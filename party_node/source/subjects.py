"""Patients of a table by their pseudonyms alone, for an alignment run.

Source: docs/party.md, "Aligning patients".
"""

from __future__ import annotations

from dprelease.errors import DataRefused
from party_node.settings import PartySettings
from party_node.source.alignment import subjects_of
from party_node.source.reader import read_errors, record_batches
from party_node.source.table import pseudonyms_in


def read_subjects(settings: PartySettings, key: bytes) -> set[bytes]:
    """Pseudonyms of all patients of the table, 32 bytes each.

    Args:
        settings: names the source.
        key: alignment key.

    Raises:
        DataRefused: the source cannot be read, or a row has no identifier.
    """
    rows: list[bytes] = []
    with read_errors(settings.source):
        for batch in record_batches(settings.source, []):
            rows += pseudonyms_in(batch, settings.source, key)
    if not rows:
        raise DataRefused(f"{settings.source.place} has no rows")
    return subjects_of(rows)
