"""party.toml: what a hospital's IT department decides. Sample: deploy/party.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from sqlite3 import complete_statement
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dprelease.canonical import RowsPerSubject
from dprelease.data.columns import Column, Name
from dprelease.files.settings import LocalPath, Settings
from dprelease.mechanisms.registry import MechanismName
from dprelease.spec_base import Label
from dprelease.wire.transport import check_cluster, is_loopback
from party_node.declarations.declarations import Decimal, Declaration, Thousands, declarations, with_maps
from party_node.declarations.identifiers import IdentifierSettings

_FILE = "sqlite:///"


def _url(url: str, info: ValidationInfo) -> str:
    """A URL that says where, and not with which password; a relative file starts at the folder of the settings file."""
    if url.startswith(_FILE) and url != _FILE:
        base: Path | None = (info.context or {}).get("base")
        file = Path(url.removeprefix(_FILE)).expanduser()
        return f"{_FILE}{file if base is None else base / file}"
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("a database is postgresql://user@host/name or sqlite:////folder/file.sqlite")
    parts = urlsplit(url)
    if parts.password is not None or "password" in dict(parse_qsl(parts.query)):
        raise ValueError(
            "take the password out: name a file with password_file, which its owner alone may read, or use PGPASSWORD or ~/.pgpass"
        )
    return url


def _bare(query: str) -> str:
    return query.strip().rstrip(";")


def _ends_within(query: str) -> bool:
    """Tells whether a statement ends before the query does: SQLite would do that one, and leave the rest out without a word."""
    bare = _bare(query)
    return any(letter == ";" and complete_statement(bare[: place + 1]) for place, letter in enumerate(bare))


_WORDS = 'is a command and its arguments, such as ["/usr/local/bin/tell", "the board"], or an address, "https://..."'


def _checked(target: object) -> object:
    if isinstance(target, list | tuple):
        words = tuple(target)
        if not words or not words[0] or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise ValueError(_WORDS)
        return words
    if not isinstance(target, str):
        raise ValueError(_WORDS)  # noqa: TRY004 - what pydantic reports
    try:
        url = urlsplit(target)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(_WORDS) from error
    if not target.isprintable() or " " in target or host is None or url.scheme not in {"http", "https"}:
        raise ValueError(_WORDS)
    if url.scheme == "http" and not is_loopback(host):
        raise ValueError("is an address of http, which only this machine's own may be; use https")
    if url.username is not None:
        raise ValueError("has a user or a password in its address, which is not sent; use a command instead")
    return target


ReviewTarget = Annotated[str | tuple[str, ...], BeforeValidator(_checked)]
"""A URL, or a command with its arguments."""


MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")


class SourceSettings(Settings):
    """Place of the rows: files, or a database.

    Attributes:
        url: ``postgresql://user@host/name`` or ``sqlite:////folder/file.sqlite``, without a password.
        table: a table or view of it, with its schema where it needs one.
        query: instead of it, one SELECT statement.
        password_file: file that has the password alone; its owner alone may read it.
        refresh_seconds: how often a daemon looks whether rows in PostgreSQL changed.
        path: CSV (plain or .gz) or Parquet file; or a pattern of several, or a folder of Parquet files.
        format: how to read it; by each file's ending unless given.
        subject: column with the subject identifier.
        record: column that tells apart several rows of one subject; needed when rows_per_subject > 1.
        batch: column with the number of the batch that a row came with, from 1; for streams.
        batch_rows: instead of it, how many rows make a batch, in the order of the file.
        whole_batches: rows of a batch come all at once, so that it is complete at once, and not only when a later one begins.
        delimiter: of a CSV file; one ASCII character, not the quotation mark.
        encoding: of a CSV file's text.
        decimal: decimal mark of numbers that are text.
        thousands: mark between their groups of three digits, if there is one; a blank stands for every kind of blank.
        missing: texts that mean a missing cell.
        rows: ``one`` row of each patient, or the ``first`` or ``last`` of several.
        by: column, as declared, whose dates or numbers order a patient's rows; the order of the file unless given.
        identifiers: normal form of the identifiers in `subject`.
    """

    url: Annotated[str, AfterValidator(_url)] | None = None
    table: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*){0,2}$")] | None = None
    query: Annotated[str, Field(pattern=r"\S")] | None = None
    password_file: LocalPath | None = None
    refresh_seconds: Annotated[float, Field(gt=0)] = 3600.0
    path: LocalPath | None = None
    format: Literal["csv", "parquet"] | None = None
    subject: Annotated[str, Field(min_length=1)]
    record: str | None = None
    batch: str | None = None
    batch_rows: Annotated[int, Field(ge=1)] | None = None
    whole_batches: StrictBool = False
    delimiter: Annotated[str, Field(pattern=r"^[\t !#-~]$", description='one character, such as ";" or "\\t"')] = ","
    encoding: Literal["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"] = "utf-8"
    decimal: Decimal = "."
    thousands: Thousands = ""
    missing: tuple[str, ...] = MISSING
    rows: Literal["one", "first", "last"] = "one"
    by: str | None = None
    identifiers: IdentifierSettings = IdentifierSettings()

    @property
    def statement(self) -> str:
        """The text that rows are selected from, as it stands behind FROM."""
        if self.table is not None:
            return self.table
        query = _bare(self.query or "")
        return f"({query}\n) AS source"  # a comment may end the query

    @property
    def database_file(self) -> Path | None:
        """The file that is the database."""
        return Path(self.url.removeprefix(_FILE)) if self.url is not None and self.url.startswith(_FILE) else None

    @property
    def refreshed(self) -> bool:
        """Tells whether only reading the rows tells that they changed."""
        return self.url is not None and self.database_file is None

    @property
    def place(self) -> str:
        """Place of the rows, in words; of a database without user and options."""
        if self.path is not None:
            return str(self.path)
        whole = urlsplit(self.url or "")
        host = whole.netloc.rpartition("@")[2]
        return f"{self.table or 'the query'} in {whole.scheme}://{host}{whole.path}"

    @property
    def tells_batches(self) -> bool:
        """Tells whether it says which rows came together."""
        return (self.batch or self.batch_rows) is not None

    @model_validator(mode="after")
    def _rows_are_in_one_place(self) -> SourceSettings:
        if (self.path is None) == (self.url is None):
            raise ValueError("name either path, a file, or url, a database")
        if self.url is not None and (self.table is None) == (self.query is None):
            raise ValueError('with url name either table = "schema.name" or query = "SELECT ..."')
        if self.url is None and (self.table, self.query, self.password_file) != (None, None, None):
            raise ValueError("table, query and password_file belong to a database: name it with url")
        if self.database_file is not None and _ends_within(self.query or ""):
            raise ValueError("query is one SELECT statement; take out what stands behind its semicolon")
        if self.password_file is not None and self.database_file is not None:
            raise ValueError("a file of SQLite has no password: leave out password_file")
        if self.url is not None and (self.format, self.batch_rows) != (None, None):
            raise ValueError(
                "format and batch_rows belong to files: rows of a database have no order; name a column, batch"
            )
        return self

    @model_validator(mode="after")
    def _batches_are_told_in_one_way(self) -> SourceSettings:
        if self.batch is not None and self.batch_rows is not None:
            raise ValueError("batch and batch_rows both say which batch a row is of; leave out one of them")
        if self.whole_batches and self.batch is None:
            raise ValueError("whole_batches says how rows of a batch come; name the column of its number, batch")
        return self

    @model_validator(mode="after")
    def _rules_fit_together(self) -> SourceSettings:
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands are the same mark, {self.decimal!r}")
        if self.rows == "one" and self.by is not None:
            raise ValueError('by orders the rows of a patient; it needs rows = "first" or "last"')
        if self.rows != "one" and self.tells_batches:
            raise ValueError(
                f'rows = "{self.rows}" makes one row of a patient\'s, which may be of several batches; leave out batch '
                "and batch_rows, or keep one row per patient in the source"
            )
        if self.rows != "one" and self.by is None and self.url is not None:
            raise ValueError(
                f'rows = "{self.rows}" needs by, a column that says which row is first: rows of a database have no order'
            )
        if self.rows != "one" and self.record is not None:
            raise ValueError(f'rows = "{self.rows}" makes one row of a patient\'s; leave out record')
        return self


def check_reading(declared: Mapping[str, Declaration], source: SourceSettings) -> None:
    """Raise a ValueError that names column and key, if a column's rules and those of the source do not fit together."""
    for name, each in declared.items():
        decimal, thousands = each.reading.marks(source.decimal, source.thousands)
        if decimal == thousands:
            raise ValueError(
                f'column {name}: decimal and thousands are the same mark, {decimal!r}; say thousands = "" where there is none'
            )
        for word in sorted(each.reading.level_of.keys() & {*source.missing}):
            raise ValueError(f"column {name}: spellings: {word!r} is a missing cell by source.missing")
        if each.reading.aggregate is not None and source.rows == "one":
            raise ValueError(
                f'column {name}: aggregate: needs source.rows = "first" or "last", of which all other columns are'
            )
    if source.by is not None:
        order = declared.get(source.by)
        if order is None or order.read_from is None or order.column.values:
            raise ValueError(
                f"source.by: {source.by} is no declared column of dates or numbers that is read from the source"
            )


class PolicyLimits(Settings):
    """Limits in numbers on one proposal. A field left out does not limit.

    Attributes:
        parties: the only parties that may take part, ourselves aside.
        columns: the only columns of ours that may be released.
        mechanisms: the only mechanisms, those of a first round and inside a stream among them.
        max_epsilon: of the joint guarantee.
        max_delta: of the guarantee.
        guarantees: the only kinds of guarantee; what names more than ``DP`` puts up with public columns.
        max_total_epsilon: of what everything charged and reserved for the roster reveals of our own columns, this included, at
            the release's delta; for joint moments that is more than what our own ledger is charged.
        min_rows: least number of patients.
    """

    parties: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    mechanisms: tuple[MechanismName, ...] | None = None
    guarantees: tuple[Label, ...] | None = None
    max_epsilon: Annotated[float, Field(gt=0)] | None = None
    max_delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    max_total_epsilon: Annotated[float, Field(gt=0)] | None = None
    min_rows: Annotated[int, Field(ge=1)] | None = None


class Policy(Settings):
    """Limits of what the hospital agrees to.

    Attributes:
        limits: proposals outside are declined, whoever is in favour.
        auto_approve: proposals inside are approved without a person; left out, a person approves every release. If it limits
            epsilon, delta has to be limited too, here or there, or it approves nothing.
        allow_large_delta: accept delta >= 1/n, which permits publishing a patient's row outright.
        alignments: most alignment runs that a roster ever takes part in; a person accepts each of them.
    """

    limits: PolicyLimits = PolicyLimits()
    auto_approve: PolicyLimits | None = None
    allow_large_delta: bool = False
    alignments: Annotated[int, Field(ge=0)] = 5


class DaemonSettings(Settings):
    """Manners of the daemon.

    Attributes:
        poll_seconds: how often to ask what is pending.
        stall_seconds: how long an upload may stand still before it is tried again.
        longest_wait_seconds: upper end of the wait between attempts to reconnect.
        on_review: what is called once for each release that begins to wait for a person: a command with its arguments, or a URL.
    """

    poll_seconds: Annotated[float, Field(gt=0)] = 5.0
    stall_seconds: Annotated[float, Field(gt=0)] = 60.0
    longest_wait_seconds: Annotated[float, Field(gt=0)] = 60.0
    on_review: ReviewTarget | None = None


class ClusterSettings(Settings):
    """A cluster of dask.distributed that is the hospital's own.

    Attributes:
        address: of its scheduler, ``tls://host:port``; ``tcp://`` only of this machine's loopback.
        ca: certificate of the authority that signs for this cluster and for nothing else.
        certificate: the daemon's, signed by it.
        key: of that certificate; its owner alone may read it.
        connect_seconds: how long to wait for the scheduler.
        stall_seconds: how long one piece may take, the loss of workers included.
    """

    address: str
    ca: LocalPath | None = None
    certificate: LocalPath | None = None
    key: LocalPath | None = None
    connect_seconds: Annotated[float, Field(gt=0)] = 10.0
    stall_seconds: Annotated[float, Field(gt=0)] = 600.0

    @property
    def encrypted(self) -> bool:
        """Tells whether the connection is TLS."""
        return self.address.startswith("tls://")

    @model_validator(mode="after")
    def _nobody_listens(self) -> ClusterSettings:
        check_cluster(self.address)
        files = self.ca, self.certificate, self.key
        if self.encrypted and None in files:
            raise ValueError("tls:// needs ca, certificate and key, three files of PEM")
        if not self.encrypted and files != (None, None, None):
            raise ValueError("ca, certificate and key belong to tls://")
        return self


class PartySettings(Settings):
    """All of party.toml.

    Attributes:
        name: the party's name, as in its invite.
        roster: name of this set of patients; the budget is kept under it.
        same_patients: all hospitals of the consortium have just these patients, so that digests may be compared without a run.
        rows_per_subject: q, most rows of one patient; mu is multiplied by it.
        state: folder of keys, ledger, journal and sealed blocks.
        source: where the rows are.
        columns: declarations by released name; ``from`` names the source's column when it differs, ``mostly_replaced``
            says that more than half of its cells are missing, unreadable or outside, and that this is in order, ``derived``
            computes it from others, and ``source_only`` keeps a column out of the catalogue.
        policy: what the hospital agrees to.
        daemon: manners of the daemon.
        engine: where rows are read, mixed and multiplied: in this process, or by the workers of `cluster`.
        cluster: of the engine ``dask``.
    """

    name: Name
    roster: Name
    same_patients: StrictBool = False
    rows_per_subject: RowsPerSubject = 1
    state: LocalPath = Field(default=Path("state"), validate_default=True)
    source: SourceSettings
    columns: dict[str, dict[str, Any]]
    policy: Policy = Policy()
    daemon: DaemonSettings = DaemonSettings()
    engine: Literal["local", "dask"] = "local"
    cluster: ClusterSettings | None = None

    @model_validator(mode="after")
    def _engine_has_its_cluster(self) -> PartySettings:
        if self.engine == "dask" and self.cluster is None:
            raise ValueError('engine = "dask" needs the address of a cluster, under [cluster]')
        return self

    @field_validator("columns")
    @classmethod
    def _columns_are_declarations(
        cls, columns: dict[str, dict[str, Any]], info: ValidationInfo
    ) -> dict[str, dict[str, Any]]:
        if not columns:
            raise ValueError("declare at least one column, e.g. [columns.age]")
        columns = with_maps(columns, (info.context or {}).get("base"))
        declarations(columns)
        return columns

    @model_validator(mode="after")
    def _columns_fit_the_source(self) -> PartySettings:
        check_reading(declarations(self.columns), self.source)
        if self.source.rows != "one" and self.rows_per_subject > 1:
            raise ValueError(
                f'rows_per_subject is 1 where source.rows = "{self.source.rows}", for one row is made of a patient\'s'
            )
        return self

    @model_validator(mode="after")
    def _records_are_told_apart(self) -> PartySettings:
        if self.rows_per_subject > 1 and self.source.record is None:
            raise ValueError(
                "rows_per_subject above 1 needs source.record, the column that tells a subject's rows apart"
            )
        return self

    @cached_property
    def declared(self) -> dict[str, Declaration]:
        """Every column of the file by its name, also those that are never released, in the order of the file."""
        return declarations(self.columns, self.source.rows, self.source.by)

    def declarations(self) -> tuple[Column, ...]:
        """Declared columns that may be released, in the order of the file."""
        return tuple(column for each in self.declared.values() for column in each.offered)
