"""Declarations of party.toml: what a column is read or derived from, how its cells are written, and all mistakes at once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from dprelease.arrays import Floats
from dprelease.canonical import canonical_bytes
from dprelease.data.columns import KINDS, OTHER, CategoricalColumn, Column, NumericColumn
from dprelease.files.settings import Mistakes, Settings, mistakes
from dprelease.one_line import listed, one_line
from party_node.declarations.formula import CategoryFormula, Formula, Source
from party_node.declarations.formulas import read_formula
from party_node.declarations.source_columns import CodeColumn, DateColumn

Decimal = Literal[".", ","]
Thousands = Literal["", ".", ",", " ", "'"]
Aggregate = Literal["first", "last", "min", "max", "sum", "mean", "count"]

_OF_NUMBERS = ("decimal", "thousands", "suffix", "bands")


def _listed(words: object) -> object:
    return (words,) if isinstance(words, str) else words


_CONTINUES = re.compile(r"[\d.,'\s]*(e[+-]?\d+)?", re.IGNORECASE)
"""Text that makes another number of a number before it: digits, marks between them, an exponent."""

Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_listed)]
"""Texts, of which one may stand without brackets."""


class Reading(Settings):
    """How a column's cells are written.

    Attributes:
        missing: texts that mean a missing cell, beside those of the source.
        decimal: decimal mark, where it is not the source's.
        thousands: mark between groups of three digits, where it is not the source's; a blank stands for every kind of blank.
        suffix: texts of which one may follow a number, such as ``kg`` or ``%``; they change nothing of it.
        bands: whether a number may be written as a band, such as ``[70-80)`` or ``80+``, and is then its midpoint.
        spellings: of a category, level to other texts that mean it.
        aggregate: what a patient's several cells become, where the source has several rows a patient.
    """

    missing: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    decimal: Decimal | None = None
    thousands: Thousands | None = None
    suffix: Words = ()
    bands: bool = False
    spellings: dict[str, Words] = Field(default_factory=dict)
    aggregate: Aggregate | None = None

    @property
    def level_of(self) -> dict[str, str]:
        """Text to the level that it means."""
        return {word: level for level, words in self.spellings.items() for word in words}

    def marks(self, decimal: Decimal, thousands: Thousands) -> tuple[Decimal, Thousands]:
        """Decimal mark and mark between thousands, of a source with these."""
        return self.decimal or decimal, thousands if self.thousands is None else self.thousands

    @property
    def follows_order(self) -> bool:
        """Tells whether the order of a patient's rows decides which of their cells counts."""
        return self.aggregate in (None, "first", "last")

    def check(self, column: Source) -> None:
        """Raise a ValueError that begins with the key, if the rules do not fit a column."""
        used = self.model_dump(exclude_defaults=True)
        for key in _OF_NUMBERS if not column.measured else ():
            if key in used:
                raise ValueError(f"{key}: only numbers have it")
        if self.bands and not column.bounded:
            raise ValueError("bands: one that is open, such as 80+, ends at a declared bound; declare lower and upper")
        for word in self.suffix:
            if _CONTINUES.fullmatch(word):
                raise ValueError(
                    f"suffix: {word!r} behind a number makes another number; leave it out, and declare that one's bounds"
                )
        if column.values:
            self._check_spellings(column)
        elif self.spellings:
            raise ValueError("spellings: only categories have them")
        if self.aggregate not in (None, *column.aggregates):
            raise ValueError(f'aggregate: kind = "{column.kind}" takes {", ".join(column.aggregates)}')

    def _check_spellings(self, column: Source) -> None:
        known = {*column.values, *self.missing}
        for level, words in self.spellings.items():
            if level not in column.vocabulary:
                raise ValueError(f"spellings: {level!r} is not one of its levels")
            for word in words:
                if word in known:
                    raise ValueError(f"spellings: {word!r} means something already; a text means one level")
                known.add(word)


KEYS = tuple(Reading.model_fields)
"""The keys of party.toml that say how a column's cells are written."""

PLAIN = Reading()
"""Cells as the source has them."""


OURS = ("from", "mostly_replaced", "source_only", "derived", *KEYS)
"""Keys of a declaration that are not of the column itself."""

_HINTS = {
    "lower": 'give the bound of a codebook, never of the data; or bounds = "unknown" in place of lower and upper',
    "upper": 'give the bound of a codebook, never of the data; or bounds = "unknown" in place of lower and upper',
    "levels": "list the levels of a codebook",
}
_FOLLOWS = "fill: is missing"  # it follows from the bounds that are missing, too


class ColumnMistakes:
    """Collects what is wrong with columns.

    Attributes:
        of: column to what is wrong with it, in words.
    """

    def __init__(self) -> None:
        self.of: dict[str, list[str]] = {}

    @contextmanager
    def noting(self, name: str, keys: Mapping[str, Any]) -> Iterator[None]:
        """Note what the block finds wrong with a column, and go on behind it."""
        try:
            yield
        except ValidationError as error:
            model = (KINDS | _OF_SOURCES).get(str(keys.get("kind")), NumericColumn)
            found = mistakes(error, model, {"name": name, **keys}, OURS)
            of_kind = error.errors()[0]["type"].startswith("union_tag")
            self.of[name] = [_kind(keys)] if of_kind else [_hinted(each) for each in found if each != _FOLLOWS]
        except Mistakes as error:
            self.of[name] = list(error.each)
        except ValueError as error:
            self.of[name] = [str(error)]

    def check(self) -> None:
        """Raise `Mistakes` if anything was noted; each names the column and the key."""
        found = [_named(name, each) for name, words in self.of.items() for each in words]
        if found:
            raise Mistakes(found)


def _named(name: str, words: str) -> str:
    """The sentence with the column's name in front, unless that is there."""
    words = words.replace(f"column {name!r}: ", "", 1)
    return words if words.startswith(f"column {name}: ") else f"column {one_line(name)}: {words}"


def _kind(keys: Mapping[str, Any]) -> str:
    kinds = f"{', '.join(KINDS)}, date or code"
    return f"kind: must be {kinds}, not {keys['kind']!r}" if "kind" in keys else f"kind: is missing; it is {kinds}"


def _hinted(words: str) -> str:
    key, _, said = words.partition(": ")
    blank = said.startswith(("is missing", "is left blank"))
    return f"{key}: {said.partition(';')[0]}; {_HINTS[key]}" if blank and key in _HINTS else words


_OF_SOURCES: dict[str, type[DateColumn | CodeColumn]] = {"date": DateColumn, "code": CodeColumn}
"""Kind to its class, of columns that are never released themselves."""

_COLUMN: TypeAdapter[Column] = TypeAdapter(Column)

YES = "yes"
"""The level of an indicator, unless its declaration names another one."""


@dataclass(frozen=True)
class ChosenRow:
    """Which of a patient's several rows cells come from.

    Attributes:
        rows: ``first`` or ``last``.
        by: the column that orders them; None where the order of the file does.
    """

    rows: str
    by: Declaration | None

    @property
    def described(self) -> list[Any]:
        """The parts that a change of the choice changes, ready for JSON."""
        return [self.rows, *(() if self.by is None else (self.by.read_from, self.by.described))]


@dataclass(frozen=True)
class Declaration:
    """A column as party.toml declares it.

    Attributes:
        column: what is public of it; of dates and codes nothing is.
        read_from: the source's own name; None if it is derived.
        formula: how it is derived; None if it is read.
        sources: what it is derived from, in the order of the formula's arguments: read columns, or numbers derived from these.
        mostly_replaced: whether the owner knows that more than half of its cells are replaced.
        source_only: whether it is there for others to be derived from, and never in the catalogue.
        reading: how its cells are written.
        ends: its bounds as declared, where bands that are open end.
        row: which row its cells come from, where a patient has several; None where their order decides nothing.
    """

    column: Source
    read_from: str | None
    formula: Formula | None = None
    sources: tuple[Declaration, ...] = ()
    mostly_replaced: bool = False
    source_only: bool = False
    reading: Reading = PLAIN
    ends: tuple[float, float] | None = None
    row: ChosenRow | None = None

    @property
    def offered(self) -> tuple[Column, ...]:
        """The column itself, if it may be released."""
        return () if self.source_only or isinstance(self.column, DateColumn | CodeColumn) else (self.column,)

    @property
    def reads(self) -> tuple[Declaration, ...]:
        """The columns of the source that its cells come from: itself, if it is read."""
        return tuple(read for each in self.sources for read in each.reads) or (self,)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The source's names for what it is read or derived from."""
        return tuple(str(each.read_from) for each in self.reads)

    @property
    def origin(self) -> str:
        """The origin of cells: the source's name, or canonical bytes of names, declarations, aggregates, spellings and rows."""
        how = self._how
        if self.read_from is not None:
            return self.read_from if how is None else canonical_bytes([[self.read_from, how]]).decode()
        pairs = [(each, read) for each in self.sources for read in each.reads]
        through = [read.described | ({} if read is each else {"through": each.described}) for each, read in pairs]
        return canonical_bytes([[read.read_from, how] for (_, read), how in zip(pairs, through, strict=True)]).decode()

    @property
    def described(self) -> dict[str, Any]:
        """Its declaration, and how its cells come about, ready for JSON."""
        how = self._how
        return self.column.model_dump(mode="json") | ({} if how is None else {"aggregate": how})

    @property
    def _how(self) -> Any:
        """Its aggregate, with spellings and the row if it has some; None where cells are the source's own."""
        aggregate, words = self.reading.aggregate, self.reading.spellings
        spelt = {"spellings": {key: sorted(words[key]) for key in words}} if words else {}
        row = {"row": self.row.described} if self.row else {}
        return {"aggregate": aggregate, **spelt, **row} if spelt or row else aggregate


def names_in(origin: str, column: Column) -> tuple[str, ...]:
    """The source's names in a `Declaration.origin` of this column."""
    several = column.derivation or origin.startswith('[["')
    return tuple(name for name, _ in json.loads(origin)) if several else (origin,)


def declarations(
    columns: Mapping[str, Mapping[str, Any]], rows: str = "one", by: str | None = None
) -> dict[str, Declaration]:
    """Name to declaration, in the order of the file.

    Args:
        columns: name to the keys below ``[columns.NAME]``.
        rows: of the source; see `SourceSettings`.
        by: the same.

    Raises:
        Mistakes: declarations are wrong; each names column and key.
        ValueError: none may be released.
    """
    wrong = ColumnMistakes()
    read: dict[str, Declaration] = {}
    for name, keys in columns.items():
        with wrong.noting(name, keys):
            if "derived" not in keys:
                read[name] = _read(name, keys)
    if rows != "one":
        row = ChosenRow(rows, None if by is None else read.get(by))
        read = {name: replace(each, row=row if each.reading.follows_order else None) for name, each in read.items()}
    derived = [name for name, keys in columns.items() if "derived" in keys]
    later = [name for name in derived if _derived_from(columns[name], derived)]
    for name in sorted(derived, key=later.__contains__):
        with wrong.noting(name, columns[name]):
            if not _derived_from(columns[name], columns.keys() - read.keys() - {*later}):  # none of these is wrong
                sources = {key: each for key, each in read.items() if key not in later}
                read[name] = _derived(name, columns[name], sources, columns)
    wrong.check()
    found = {name: read[name] for name in columns}
    if all(each.source_only for each in found.values()):
        raise ValueError("declare at least one column that may be released, e.g. [columns.age]")
    return found


def with_maps(columns: Mapping[str, Mapping[str, Any]], base: Path | None) -> dict[str, dict[str, Any]]:
    """Declarations whose maps are at full paths.

    Args:
        columns: name to the keys below ``[columns.NAME]``.
        base: folder at which relative paths start.
    """
    found = {name: dict(keys) for name, keys in columns.items()}
    for keys in found.values():
        of = keys.get("derived")
        if base is not None and isinstance(of, dict) and isinstance(of.get("map"), str):
            keys["derived"] = of | {"map": str(base / Path(of["map"]).expanduser())}
    return found


def with_sources(declared: Mapping[str, Declaration], names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns by name and, behind them, what those among them that are derived are derived from."""
    known = [declared[name] for name in names if name in declared]
    sources = (of.column.name for each in known for of in (*each.sources, *each.reads))
    return tuple(dict.fromkeys((*names, *sources)))


def _read(name: str, keys: Mapping[str, Any]) -> Declaration:
    source_only, own = _flag(keys, "source_only"), {"name": name, **_own(name, keys)}
    kind = _OF_SOURCES.get(str(keys.get("kind")))
    column: Source = _COLUMN.validate_python(own) if kind is None else kind.model_validate(own)
    return Declaration(
        column,
        str(keys.get("from", name)),
        mostly_replaced=_flag(keys, "mostly_replaced"),
        source_only=source_only or kind is not None,
        reading=_reading(keys, column),
        ends=column.ends if column.measured else None,
    )


def _reading(keys: Mapping[str, Any], column: Source) -> Reading:
    try:
        rules = Reading.model_validate({key: keys[key] for key in KEYS if key in keys})
    except ValidationError as error:
        raise Mistakes(mistakes(error, Reading, dict(keys))) from error
    rules.check(column)
    return rules


def _flag(keys: Mapping[str, Any], key: str) -> bool:
    if not isinstance(keys.get(key, False), bool):
        raise ValueError(f"{key} is true or false")  # noqa: TRY004 - what pydantic reports
    return bool(keys.get(key, False))


def _own(name: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a column itself."""
    if "public" in keys:
        raise ValueError(f"a column becomes public by an act of its own: party-node public declare {name}")
    if "derivation" in keys:
        raise ValueError("derivation: follows from derived, which is what party.toml says")
    fields = {key: value for key, value in keys.items() if key not in OURS}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def _derived_from(keys: Mapping[str, Any], names: Container[str]) -> bool:
    """Tells whether a derived column has one of these among its sources."""
    try:
        return any(source in names for source in read_formula(keys["derived"]).sources)
    except ValueError:
        return False


def _derived(
    name: str, keys: Mapping[str, Any], read: Mapping[str, Declaration], columns: Mapping[str, object]
) -> Declaration:
    try:
        formula = read_formula(keys["derived"])
        sources = tuple(_source(source, read, columns) for source in formula.sources)
        formula.check([source.column for source in sources])
    except ValueError as error:
        raise ValueError(f"derived: {error}") from error
    for key in ("from", "source_only", *KEYS):
        if key in keys:
            raise ValueError(f"{key}: a derived column is neither read from the source nor a source")
    kind = "categorical" if isinstance(formula, CategoryFormula) else "numeric"
    if keys.get("kind", kind) != kind:
        raise ValueError(f"kind: {formula.text} is {kind}; leave kind out")
    fields = {"name": name, **_own(name, keys), "kind": kind, "derivation": formula.text}
    of = [source.column for source in sources]
    return Declaration(
        _category(fields, formula, of) if isinstance(formula, CategoryFormula) else _number(fields, formula, of),
        None,
        formula,
        sources,
        mostly_replaced=_flag(keys, "mostly_replaced"),
    )


def _source(name: str, read: Mapping[str, Declaration], columns: Mapping[str, object]) -> Declaration:
    if name in read and (read[name].formula is None or read[name].column.measured):
        return read[name]
    if name in columns:
        raise ValueError(f"{name} is derived itself; name a column that is read, or a number derived from such columns")
    raise ValueError(f"{name} is not declared; add [columns.{name}], with source_only = true to keep it to yourself")


def _number(fields: dict[str, Any], formula: Formula, sources: list[Source]) -> Column:
    """A number within the bounds that follow from its sources, or within narrower ones, or without any where a source has none."""
    unknown = not all(source.bounded for source in sources)
    if unknown and not fields.keys() & {"lower", "upper"}:
        fields = {"bounds": "unknown"} | fields
    ends = (-math.inf, math.inf) if unknown else formula.bounds(sources)
    follow = {} if fields.get("bounds") == "unknown" else dict(zip(("lower", "upper"), ends, strict=True))
    for key, value in follow.items():
        if key not in fields and not math.isfinite(value):
            raise ValueError(f"{key}: none follows for {formula.text}; declare it")
    column = NumericColumn.model_validate(follow | fields)
    for key, value in follow.items():
        beyond = column.lower < value if key == "lower" else column.upper > value
        if beyond:
            raise ValueError(
                f"{key}: {formula.text} is never {'below' if key == 'lower' else 'above'} {value!r}, which "
                "follows from its sources' bounds; leave it out, or declare a narrower one"
            )
    fill = _of_fills(formula, sources)
    if "fill" in fields or not math.isfinite(fill):
        return column
    return column.model_copy(update={"fill": min(max(fill, column.lower), column.upper)})


def _category(fields: dict[str, Any], formula: CategoryFormula, sources: list[Source]) -> Column:
    """A category of a formula's levels; or of one level, for what is so, where ``other`` is what is not."""
    if not formula.levels:
        column = CategoricalColumn.model_validate({"levels": (YES,)} | fields)
        if len(column.levels) != 1:
            raise ValueError("levels: an indicator has one level, for what is so")
        if "fill" not in fields and sources[0].measured and not formula.of_missing:
            raise ValueError(f"fill: say what a missing {sources[0].name} counts as, {column.levels[0]!r} or {OTHER!r}")
        so = "fill" not in fields and _of_fills(formula, sources) == 0
        return column.model_copy(update={"fill": column.levels[0]}) if so else column
    for key in ("levels", "exhaustive", *(("fill",) if formula.fill_level else ())):
        if key in fields:
            raise ValueError(f"{key}: follows from {formula.text}; leave it out")
    if formula.exhaustive and not formula.fill_level and "fill" not in fields:
        raise ValueError(
            f"fill: name the level that a missing cell has, one of {listed(formula.levels)}; or give such cells a level of "
            "their own: missing = true in derived"
        )
    given = {"fill": formula.fill_level} if formula.fill_level else {}
    return CategoricalColumn.model_validate(
        fields | given | {"levels": formula.levels, "exhaustive": formula.exhaustive}
    )


def _of_fills(formula: Formula, sources: list[Source]) -> float:
    """The result of a formula for its sources' fill values; NaN where it makes nothing of them."""
    (found,) = formula.values(*(_fill(source, formula) for source in sources)).tolist()
    return float(found)


def _fill(source: Source, formula: Formula) -> Floats:
    if not source.values:
        return np.array([float(source.fill)])
    entering = (*formula.entering(source), source.fill)
    return np.array([(entering.index(source.fill) + 1.0) % len(entering)])
