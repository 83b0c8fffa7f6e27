"""The canonical order of rows, agreed without anybody showing an identifier, and the patients that all hospitals have.

A subject's pseudonym is HMAC-SHA-256 of its identifier under a key that only the hospitals hold. Rows are ordered by
pseudonym, whatever their order in the file, and the alignment digest is an HMAC over the ordered pseudonyms: equal
digests mean the same patients in the same order. `ShownDigests` says how they leave; the coordinator compares them and never has
the key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.arrays import pieces
from dprelease.catalogue import FEWEST_COMPARED
from dprelease.errors import DataRefused, InvalidInput
from party_node.settings import PartySettings
from party_node.state.journal import Journal

KEY_BYTES = 32
SUBJECT_BYTES = 32
"""A subject's pseudonym; in a row's, that of the record within the subject follows."""

Names = npt.NDArray[np.bytes_]
"""Pseudonyms, all of one length. A single element loses zero bytes at its end, so only arrays are compared."""


def new_key() -> bytes:
    """A fresh 32-byte alignment key from the operating system's entropy."""
    return secrets.token_bytes(KEY_BYTES)


@dataclass(frozen=True)
class Alignment:
    """The patients of one table, in canonical order."""

    digest: str
    rows: int


def pseudonym(key: bytes, subject: str, record: str = "") -> bytes:
    """Keyed pseudonym of one row: 32 bytes of its subject, then 32 bytes of the record within the subject.

    Identifiers are compared as text, in Unicode NFC, without white space at their ends; case and leading zeros count.
    """

    def keyed(label: bytes, text: str) -> bytes:
        return hmac.digest(key, label + unicodedata.normalize("NFC", text.strip()).encode(), hashlib.sha256)

    return keyed(b"subject\0", subject) + (keyed(b"record\0", record) if record else b"")


def as_names(pseudonyms: Sequence[bytes]) -> Names:
    """(n,) pseudonyms as an array."""
    return np.array(pseudonyms, f"S{len(pseudonyms[0]) if pseudonyms else SUBJECT_BYTES}")


def subjects_in(names: Names) -> Names:
    """(n,) the subject's part of each row's pseudonym."""
    return names.astype(f"S{SUBJECT_BYTES}", copy=False)


def align(
    key: bytes, names: Names, roster: str, rows_per_subject: int = 1, chosen: npt.NDArray[np.bool_] | None = None
) -> Alignment:
    """The alignment digest of rows in canonical order, which is that of their pseudonyms.

    Args:
        key: the hospitals' shared alignment key, 32 bytes.
        names: (n,) pseudonym of each row, rising; gone through in pieces.
        roster: the roster's name; two rosters never share a digest.
        rows_per_subject: q, most rows that one subject may have.
        chosen: (n,) which rows the table has; all unless told.

    Raises:
        InvalidInput: the key has another length.
        DataRefused: a row is a duplicate, or a subject has more than q rows. Counts only, no identifier.
    """
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"an alignment key has {KEY_BYTES} bytes, not {len(key)}")
    rows = len(names) if chosen is None else int(chosen.sum())
    if not rows:
        raise DataRefused("the source has no rows")
    digest = hmac.new(key, f"dprelease/alignment/v1|{roster}|{rows}|".encode(), hashlib.sha256)
    duplicates = crowded = 0
    before = names[:0]  # the q rows before a piece
    for piece in pieces(names, chosen):
        digest.update(np.ascontiguousarray(piece).data)
        together = np.concatenate([before, piece])
        duplicates += int(np.sum(together[1:] == together[:-1])) - int(np.sum(before[1:] == before[:-1]))
        subjects = subjects_in(together)
        crowded += int(np.sum(subjects[rows_per_subject:] == subjects[:-rows_per_subject]))
        before = together[-rows_per_subject:]
    if duplicates:
        raise DataRefused(
            f"{duplicates} rows repeat an identifier; keep one row per subject, say which one with "
            'rows = "first" or "last" under [source], or declare rows_per_subject and a record column'
        )
    if crowded:
        raise DataRefused(
            f"some subjects have more than rows_per_subject = {rows_per_subject} rows ({crowded} too many)"
        )
    return Alignment(digest.hexdigest(), rows)


@dataclass(frozen=True, repr=False)
class Roster:
    """Patients that all hospitals of an alignment run have; rows of others are read over.

    Attributes:
        run: digest of the run.
        pseudonyms: 32 bytes of each patient, rising.
        secret: that the hospitals of the run know and nobody else.
    """

    run: str
    pseudonyms: bytes | memoryview
    secret: bytes

    def among(self, names: Names) -> npt.NDArray[np.bool_]:
        """(n,) whether each row is of one of the patients, by the rows' pseudonyms."""
        known, subjects = np.frombuffer(self.pseudonyms, f"S{SUBJECT_BYTES}"), subjects_in(names)
        return np.searchsorted(known, subjects, "left") < np.searchsorted(known, subjects, "right")

    @property
    def patients(self) -> int:
        """How many they are."""
        return len(self.pseudonyms) // SUBJECT_BYTES

    def gone_from(self, subjects: Names) -> int:
        """How many of the patients are not among these, each of whom is there once."""
        return self.patients - sum(int(self.among(piece).sum()) for piece in pieces(subjects))


@dataclass(frozen=True, repr=False)
class ShownDigests:
    """Digests of one table as they leave: keyed so that only hospitals that know these patients can test a guess with them.

    All hospitals of a consortium hold the alignment key, so any of them could open a digest under that key alone, together with
    the office: name by name, wherever all other patients are known. So digests leave under a secret of the alignment run in
    force, which its hospitals know and nobody else. Without a run they leave under a secret of our own and say nothing to
    anybody, until our owner says that all hospitals have just these patients.

    Source: docs/guarantees.md, 9 and 23.

    Attributes:
        own: a secret of this hospital.
        run: the secret of the alignment run whose patients the rows are; None without one.
        declared: whether our owner says that all hospitals have just these patients.
        rows_per_subject: q, most rows that one patient may have.
    """

    own: bytes
    run: bytes | None = None
    declared: bool = False
    rows_per_subject: int = 1

    @property
    def comparable(self) -> bool:
        """Tells whether the office may find digests of ours equal to those of other hospitals at all."""
        return self.run is not None or self.declared

    def is_enough(self, rows: int) -> bool:
        """Tells whether so many rows are of 20 patients or more, however many of them each has."""
        return rows >= FEWEST_COMPARED * self.rows_per_subject

    def shown(self, digest: str, rows: int, *, complete: bool = True) -> str:
        """An alignment digest as others see it.

        Args:
            digest: under the alignment key, hexadecimal.
            rows: of the table or batch.
            complete: whether no row is of a batch that is still filling.
        """
        if self.run is not None:
            return _keyed(self.run, digest)
        if self.declared and complete and self.is_enough(rows):
            return digest
        return _keyed(self.own, digest)


def _keyed(secret: bytes, digest: str) -> str:
    return hmac.new(secret, b"dprelease/alignment/shown/v1|" + digest.encode(), hashlib.sha256).hexdigest()


def in_force(journal: Journal, settings: PartySettings) -> Roster | None:
    """The patients of the roster's latest version; None where hospitals never aligned. Raises as `patients_of`."""
    record = journal.in_force(settings.roster)
    return None if record is None else patients_of(journal, settings, record.digest)


def patients_of(journal: Journal, settings: PartySettings, run: str | None) -> Roster | None:
    """The patients of an alignment run.

    Args:
        journal: our record.
        settings: how identifiers are brought to their normal form now.
        run: its digest; None for a release of whole tables.

    Raises:
        NotFound: the run was not finished here.
        IntegrityError: the file of its patients is gone or was altered.
        DataRefused: identifiers were brought to another form when it was made.
    """
    if run is None:
        return None
    patients, record = journal.roster(run), journal.get(run)
    assert record is not None, run  # noqa: S101 - it has patients
    assert record.secret is not None, run  # noqa: S101 - kept with them
    if record.task.identifiers != settings.source.identifiers.canonical:
        raise DataRefused(
            f"[source.identifiers] changed after alignment run {run[:12]}: the patients in force have other pseudonyms; put "
            "it back as it was, or ask the office to align anew"
        )
    return Roster(run, patients, record.secret)
