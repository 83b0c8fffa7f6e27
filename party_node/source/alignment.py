"""The canonical order of rows, agreed without anybody showing an identifier.

A subject's pseudonym is HMAC-SHA-256 of its identifier under a key that only the hospitals hold. Rows are ordered by
pseudonym, whatever their order in the file, and the alignment digest is an HMAC over the ordered pseudonyms: equal
digests mean the same patients in the same order. `comparison` says how they leave; the coordinator compares them and never has
the key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.errors import DataRefused, InvalidInput

KEY_BYTES = 32
SUBJECT_BYTES = 32
"""A subject's pseudonym; in a row's, that of the record within the subject follows."""


def new_key() -> bytes:
    """A fresh 32-byte alignment key from the operating system's entropy."""
    return secrets.token_bytes(KEY_BYTES)


@dataclass(frozen=True)
class Alignment:
    """The canonical order of one table.

    Attributes:
        order: (n,) positions in the file, in canonical order.
        digest: the alignment digest, hexadecimal.
        rows: n.
    """

    order: npt.NDArray[np.intp]
    digest: str
    rows: int


def pseudonym(key: bytes, subject: str, record: str = "") -> bytes:
    """Keyed pseudonym of one row: 32 bytes of its subject, then 32 bytes of the record within the subject.

    Identifiers are compared as text, in Unicode NFC, without white space at their ends; case and leading zeros count.
    """

    def keyed(label: bytes, text: str) -> bytes:
        return hmac.digest(key, label + unicodedata.normalize("NFC", text.strip()).encode(), hashlib.sha256)

    return keyed(b"subject\0", subject) + (keyed(b"record\0", record) if record else b"")


def align(key: bytes, pseudonyms: Sequence[bytes], roster: str, rows_per_subject: int = 1) -> Alignment:
    """Order rows by pseudonym and compute the alignment digest.

    Args:
        key: the hospitals' shared alignment key, 32 bytes.
        pseudonyms: one `pseudonym` for each row of the file.
        roster: the roster's name; two rosters never share a digest.
        rows_per_subject: q, most rows that one subject may have.

    Raises:
        InvalidInput: the key has another length.
        DataRefused: a row is a duplicate, or a subject has more than q rows. Counts only, no identifier.
    """
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"an alignment key has {KEY_BYTES} bytes, not {len(key)}")
    if not pseudonyms:
        raise DataRefused("the source has no rows")
    names = np.array(pseudonyms, dtype=object)
    order = np.array(sorted(range(len(pseudonyms)), key=pseudonyms.__getitem__), dtype=np.intp)
    ordered = names[order]
    duplicates = int(np.sum(ordered[1:] == ordered[:-1]))
    if duplicates:
        raise DataRefused(
            f"{duplicates} rows repeat an identifier; keep one row per subject, say which one with "
            'rows = "first" or "last" under [source], or declare rows_per_subject and a record column'
        )
    subjects = [name[:32] for name in ordered]
    crowded = sum(subjects[i] == subjects[i + rows_per_subject] for i in range(len(subjects) - rows_per_subject))
    if crowded:
        raise DataRefused(
            f"some subjects have more than rows_per_subject = {rows_per_subject} rows ({crowded} too many)"
        )
    header = f"dprelease/alignment/v1|{roster}|{len(ordered)}|".encode()
    digest = hmac.new(key, header + b"".join(ordered), hashlib.sha256).hexdigest()
    return Alignment(order, digest, len(ordered))


@dataclass(frozen=True, repr=False)
class Roster:
    """Patients that all hospitals of an alignment run have; rows of others are read over.

    Attributes:
        run: digest of the run.
        pseudonyms: 32 bytes of each patient, rising.
        secret: that the hospitals of the run know and nobody else.
    """

    run: str
    pseudonyms: bytes
    secret: bytes

    def among(self, rows: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """(n,) whether each row is of one of the patients, by the rows' pseudonyms."""
        return np.fromiter((row[:SUBJECT_BYTES] in self._subjects for row in rows), np.bool_, len(rows))

    @property
    def patients(self) -> int:
        """How many they are."""
        return len(self.pseudonyms) // SUBJECT_BYTES

    def gone_from(self, subjects: Set[bytes]) -> int:
        """How many of the patients are not among these."""
        return len(self._subjects - subjects)

    @cached_property
    def _subjects(self) -> frozenset[bytes]:
        starts = range(0, len(self.pseudonyms), SUBJECT_BYTES)
        return frozenset(self.pseudonyms[start : start + SUBJECT_BYTES] for start in starts)


def subjects_of(rows: Sequence[bytes]) -> set[bytes]:
    """The patients that some rows are of, by the subject's part of the rows' pseudonyms."""
    return {row[:SUBJECT_BYTES] for row in rows}
