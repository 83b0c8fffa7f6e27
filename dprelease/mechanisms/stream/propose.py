"""From a request to the terms of a stream's first checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, create_model, model_validator

from dprelease.data.columns import public
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import Linear
from dprelease.mechanisms.draft import FIRST, Draft, ProposedTerms
from dprelease.mechanisms.stream.factorization import MOST_CHECKPOINTS, FactorName, error
from dprelease.mechanisms.stream.terms import StreamTerms
from dprelease.mpc.modulus import MODULI
from dprelease.one_line import listed

Over = Mapping[str, Linear[Any]]
"""Name to mechanism, of those whose integers a stream may add up."""

ROOM = 2
"""How many times the first checkpoint's patients every checkpoint may have on average, unless `most_rows` says otherwise."""


class StreamOptions(Settings):
    """Keys of a request for a stream; keys of the inner mechanism stand beside.

    Attributes:
        of: name of the inner mechanism.
        checkpoints: T, how many there may be; leave it out where nobody knows, and noise is some 1.2 times larger.
        factor: how increments are added up; ``square-root`` when absent, ``weighted`` where T is unknown, and only there.
        most_rows: N, patients of all checkpoints at most; room for twice T times those of the first when absent.
    """

    over: ClassVar[Over] = {}

    of: str
    checkpoints: int | None = None
    factor: FactorName | None = None
    most_rows: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> StreamOptions:
        if self.of not in self.over:
            raise ValueError(f"a stream is of {' or '.join(self.over)}, not of {self.of!r}")
        if self.checkpoints is not None and not 1 <= self.checkpoints <= MOST_CHECKPOINTS:
            raise ValueError(f"a stream has 1 to {MOST_CHECKPOINTS} checkpoints, not {self.checkpoints}")
        if self.factor is not None and (self.factor == "weighted") != (self.checkpoints is None):
            raise ValueError(
                f"factor {self.factor!r} is for streams that say how many checkpoints they have; say it, or leave out factor"
                if self.checkpoints is None
                else "factor 'weighted' is for streams that do not say how many checkpoints they have; leave out either"
            )
        if self.checkpoints is None and self.most_rows is None:
            raise ValueError("a stream of unknown length says how many patients it has at most: most_rows")
        foreign = self._given - self.over[self.of].options.model_fields.keys()
        if foreign:
            raise ValueError(f"a stream of {self.of!r} has no {', '.join(sorted(foreign))}")
        if getattr(self.inner, "ranges", None) == FIRST:
            raise ValueError("a stream has no first round of ranges; name the folder of an earlier release of ranges")
        if getattr(self.inner, "mixing", None) == "buckets":
            raise ValueError(
                "a stream has no buckets, in which too few patients of one checkpoint would be: leave out mixing"
            )
        return self

    @property
    def chosen(self) -> FactorName:
        """The factor that is asked for, or the default."""
        return self.factor or ("weighted" if self.checkpoints is None else "square-root")

    @property
    def _given(self) -> set[str]:
        return self.model_fields_set - StreamOptions.model_fields.keys()

    @property
    def inner(self) -> Settings:
        """The request's part about the inner mechanism."""
        options = self.over[self.of].options
        signs = {"mixing": "bernoulli"} if "mixing" in options.model_fields else {}
        return options.model_validate(signs | {key: getattr(self, key) for key in self._given})


def options_over(over: Over) -> type[StreamOptions]:
    """The options class of a stream of one of these mechanisms."""
    fields: dict[str, Any] = {key: (Any, None) for each in over.values() for key in each.options.model_fields}
    found = create_model("StreamOptions", __base__=StreamOptions, **fields)
    found.over = over
    return found


def last_error(factor: FactorName, checkpoints: int | None) -> float:
    """The factor of noise at the last checkpoint, if none fails."""
    most = checkpoints or MOST_CHECKPOINTS
    return error(factor, most, tuple(range(1, most + 1)))


def of_everybody(options: StreamOptions, draft: Draft) -> Draft:
    """The draft of one release of as many patients as the stream has room for."""
    most = options.most_rows or ROOM * (options.checkpoints or 1) * draft.agreed.rows
    return draft.having(most)


def propose_stream(options: StreamOptions, draft: Draft) -> ProposedTerms:
    """Terms of the first checkpoint.

    Args:
        options: of the request.
        draft: what is fixed; the patients agreed on are those of the first checkpoint.

    Raises:
        InvalidInput: there is no such stream.
    """
    shown = [column.name for column in public(draft.everything)]
    if shown:
        raise InvalidInput(
            f"a stream has no public columns, whose rows would be published at each checkpoint: leave out {listed(shown)}"
        )
    whole = of_everybody(options, draft)
    rows, most = draft.agreed.rows, whole.agreed.rows
    if most < rows:
        raise InvalidInput(f"most_rows: the stream has room for {most} patients, and the first checkpoint has {rows}")
    found = options.over[options.of].propose(options.inner, whole)
    if found.terms.outcomes:
        raise InvalidInput("a stream names no outcomes: leave out outcomes")
    terms = StreamTerms(
        of=found.terms, factor=options.chosen, checkpoints=options.checkpoints, checkpoint=1, most_rows=most
    )
    bits = draft.grid_bits
    # Half of the reach is left to noise. Each step of the grid that is given up makes room for four times the patients.
    while found.terms.modulo and most * terms.matrix.largest << 2 * bits > MODULI[found.terms.modulo].reach >> 1:
        bits -= 1
    if bits < draft.grid_bits:
        return replace(propose_stream(options, replace(draft, grid_bits=bits)), grid_bits=bits)
    times = last_error(terms.factor, terms.checkpoints)
    at_once = f"One release of all {most} patients that the stream has room for: {found.explanation}"
    scaling = (
        f"As a stream of up to {terms.most} checkpoints, the first of {rows} patients, noise is {times:.3g} times that at the "
        "last one."
    )
    return replace(found, terms=terms, explanation=f"{at_once} {scaling}")
