"""Mechanism ``stream`` behind the contract: a party's block of a checkpoint, and a learner's view of it.

A block has weighted sums of its increments, fresh noise, and what it sent before:

increments of all checkpoints -> rows of C' x -> discrete Gaussian noise -> masks -> below the rows sent before

The noisy rows of C' x become a noisy prefix sum, which the inner mechanism reads. Here too a request becomes the terms of a first
checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, create_model, model_validator

from dprelease.arrays import Codes, Integers, PieceMap, one_by_one
from dprelease.canonical import read_part
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import public, unbounded
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds, Inputs, Linear, Mechanism, StreamState, Values
from dprelease.mechanisms.draft import FIRST, Draft, ProposedTerms
from dprelease.mechanisms.statement import Cost, Statements
from dprelease.mechanisms.stream.factorization import MOST_CHECKPOINTS, FactorName, decoding, error
from dprelease.mechanisms.stream.terms import StreamTerms, inner
from dprelease.mpc.modulus import MODULI
from dprelease.mpc.schedule import Schedule
from dprelease.mpc.session import Products
from dprelease.one_line import listed
from dprelease.spec_base import SpecBase, Terms

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit, Scenario
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise


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


WHOLE = (
    "This is checkpoint {checkpoint} of a stream of at most {checkpoints}: the figures are for all of them together, and were "
    "charged once, with the first. They cover {whom}."
)
EVENT = "one row of a patient at one checkpoint; a patient who is in g rows faces g times mu"
ROWS = "a patient who is in at most {rows} rows of all checkpoints together"
KEPT = (
    "Between checkpoints each hospital keeps its part of what is added up. The parts of all hospitals together are exact sums over "
    "the patients of single checkpoints."
)


class Stream(Mechanism[StreamTerms]):
    """Checkpoints of a linear mechanism; `dprelease.mechanisms.base.Mechanism` says what each method is.

    Args:
        over: mechanisms whose integers may be added up.
    """

    name = "stream"
    purpose = "patients who come over time: moments or mixed rows of all so far at every checkpoint, charged once"
    terms = StreamTerms
    checks_sum = True
    fits = False
    first_batch = 1

    def __init__(self, *over: Linear[Any]) -> None:
        self._over = {each.name: each for each in over}
        self.options = options_over(self._over)
        self.borrowed = frozenset(key for each in over for key in each.options.model_fields)
        self.weighs_columns = any(each.weighs_columns for each in over)

    def read_terms(self, data: object) -> StreamTerms:
        return read_part(StreamTerms, data, self._read_inner)

    def _read_inner(self, data: object) -> Terms:
        name = data.get("mechanism") if isinstance(data, dict) else None
        if not isinstance(name, str) or name not in self._over:
            raise ValueError(f"a stream is of {' or '.join(self._over)}")
        found: Terms = self._over[name].read_terms(data)
        return found

    def _at(self, spec: SpecBase) -> tuple[Linear[Any], StreamTerms, SpecBase]:
        """The inner mechanism, our terms, and the spec of the new patients as the former reads it."""
        terms = self.own(spec)
        over = self._over[terms.of.mechanism]
        (batch,) = batches(spec, terms, (terms.checkpoint,))
        return over, terms, batch

    def propose(self, options: StreamOptions, draft: Draft) -> ProposedTerms:
        shown = [column.name for column in public(draft.everything)]
        if shown:
            raise InvalidInput(
                f"a stream has no public columns, whose rows would be published at each checkpoint: leave out {listed(shown)}"
            )
        whole = of_everybody(options, draft)
        rows, most = draft.agreed.rows, whole.agreed.rows
        if most < rows:
            raise InvalidInput(
                f"most_rows: the stream has room for {most} patients, and the first checkpoint has {rows}"
            )
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
            return replace(self.propose(options, replace(draft, grid_bits=bits)), grid_bits=bits)
        times = last_error(terms.factor, terms.checkpoints)
        at_once = f"One release of all {most} patients that the stream has room for: {found.explanation}"
        scaling = (
            f"As a stream of up to {terms.most} checkpoints, the first of {rows} patients, noise is {times:.3g} times that at the "
            "last one."
        )
        return replace(found, terms=terms, explanation=f"{at_once} {scaling}")

    def cost(self, spec: SpecBase) -> Cost:
        over, terms, _ = self._at(spec)
        found = over.cost(inner(spec, terms, terms.most_rows))
        return found if terms.checkpoint == 1 else replace(found, charges=dict.fromkeys(found.charges, Fraction(0)))

    def check(self, spec: SpecBase) -> None:
        over, terms, _ = self._at(spec)
        if spec.public:
            raise SpecRefused("a stream has no public columns: their rows would be published at each checkpoint")
        if terms.of.outcomes:
            raise SpecRefused("a stream names no outcomes")
        over.check(inner(spec, terms, terms.most_rows), terms.scaling)

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        over, terms, new = self._at(spec)
        ((rows, columns),) = over.shapes(new, party)
        return ((rows * released(terms, terms.used), columns),)

    def schedule(self, spec: SpecBase) -> Schedule | None:
        over, _, new = self._at(spec)
        found = over.schedule(new)
        return None if found is None else replace(found, task=spec.digest())

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: EarlierRounds = FIRST_ROUND) -> Codes:
        over, _, new = self._at(spec)
        return over.matrix(rows, new)

    def exact(
        self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None, run: PieceMap = one_by_one
    ) -> Integers:
        over, _, new = self._at(spec)
        return over.exact(rows, new, party, products, run)

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        over, terms, new = self._at(spec)
        kept = inputs.kept
        if terms.checkpoint not in kept.increments:  # outside hospitals, which keep it before anything is drawn
            own = over.exact(inputs.rows, new, party, inputs.products, inputs.run)
            kept = replace(kept, increments={**kept.increments, terms.checkpoint: own})
        return (stream_block(over, new, terms, party, replace(inputs, kept=kept)),)

    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> Any:
        over, terms, _ = self._at(spec)
        blocks = {party: only for party, (only,) in values.items()}
        used = tuple(number for number in terms.used if number <= (upto or terms.checkpoint))
        whole = over.opened(inner(spec, terms, terms.most_rows), blocks, terms.scaling)
        weights, rows = decoding(terms.factor, terms.most, used), released(terms, terms.used)
        sums = np.tensordot(weights, whole.reshape(rows, -1, whole.shape[1])[: len(weights)].astype(np.float64), 1)
        return over.view(batches(spec, terms, used), sums, error(terms.factor, terms.most, used), public)

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        over, terms, _ = self._at(spec)
        whole = inner(spec, terms, terms.most_rows)
        found = over.guarantee(whole, figures, joint, delta)
        q = spec.rows_per_subject
        whom = EVENT if q == 1 else ROWS.format(rows=q)
        return (*found, WHOLE.format(checkpoint=terms.checkpoint, checkpoints=terms.most, whom=whom))

    def statements(self, spec: SpecBase) -> Statements:
        over, terms, _ = self._at(spec)
        found = over.statements(inner(spec, terms, spec.patients))
        at = f"checkpoint {terms.checkpoint}" + (f" of {terms.checkpoints}" if terms.checkpoints else "")
        times = error(terms.factor, terms.most, terms.used)
        price = (
            f"charged once, for all checkpoints ({terms.most} at most): whoever approves this one approves the later ones, which "
            "cost nothing, and each of which publishes the same of all patients so far"
            if terms.checkpoint == 1
            else "nothing is charged: the first checkpoint was, for all of them"
        )
        covered = EVENT if spec.rows_per_subject == 1 else ROWS.format(rows=spec.rows_per_subject)
        return replace(
            found,
            would_publish=f"{at} of a stream, {spec.rows} new {spec.counted}: {found.would_publish}",
            details=(
                *found.details,
                price,
                f"covers {covered}",
                f"noise here is {times:.3g} times that of one release of everybody, of which the lines before tell; room for "
                f"{terms.most_rows} {spec.counted} in all",
            ),
            trust=(*found.trust, KEPT),
            content=f"{at}, {found.content}",
            summary=f"{at} of a stream. {found.summary}",
            shape=", ".join(part for part in (f"{at}, factor {terms.factor}", found.shape) if part),
            figures={
                **found.figures,
                "checkpoint": terms.checkpoint,
                "checkpoints": terms.checkpoints,
                "factor": terms.factor,
                "most_rows": terms.most_rows,
            },
        )

    def review_reasons(self, spec: SpecBase, party: str, *, named: bool) -> tuple[str, ...]:
        over, _, new = self._at(spec)
        return over.review_reasons(new, party, named=named)

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        over, terms, whole, noisier = self._so_far(spec)
        found = over.released_noise(whole, times * noisier)
        last = last_error(terms.factor, terms.checkpoints) / noisier
        later = f", noise {last:.2g} times as large at the last one" if last > 1 else ""
        return replace(found, shape=f"{found.shape}, checkpoint {terms.checkpoint} of a stream{later}")

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        over, _, whole, noisier = self._so_far(spec)
        return over.forecast(whole, fit, signal, times * noisier)

    def _so_far(self, spec: SpecBase) -> tuple[Linear[Any], StreamTerms, SpecBase, float]:
        """The inner mechanism, our terms, one release of everybody up to this checkpoint, and how much noisier the stream is."""
        over, terms, _ = self._at(spec)
        return over, terms, inner(spec, terms, spec.patients), error(terms.factor, terms.most, terms.used)

    def plans(self, scenario: Scenario) -> tuple[Scenario, ...]:
        if "of" not in scenario.asked:
            return ()
        if unbounded(scenario.fit.columns):  # some streams are in published ranges, and need no bounds
            options: Any = self.options.model_validate(dict(scenario.asked))
            try:
                self.propose(options, scenario.draft)
            except InvalidInput:
                return ()
        return (scenario,)


def stream_block(over: Linear[Any], batch: SpecBase, terms: StreamTerms, party: str, inputs: Inputs) -> Integers:
    """The party's noisy integers of this checkpoint, below those of all earlier ones.

    Guarantee: for streams that differ in the private cells of one patient at one checkpoint (replace-one), or of a patient with
    up to q rows at any checkpoints, all blocks of all checkpoints together are mu-GDP with mu^2 = `Mechanism.cost` of the first
    one's spec; derived in docs/guarantees.md 20. It holds if noise is drawn once for each checkpoint, ever.

    Args:
        over: the inner mechanism.
        batch: the spec of this checkpoint as the inner mechanism reads it.
        terms: of the stream.
        party: name of the party in the spec.
        inputs: increments of all checkpoints up to this one among them, and the block sent before.

    Raises:
        InvalidInput: what was kept is not what the checkpoint builds on; nothing is drawn.
    """
    (shape,) = over.shapes(batch, party)
    kept = inputs.kept
    _check_kept(kept, terms, shape)
    fresh = []
    for weights in terms.matrix.rows(terms.checkpoint, terms.most):
        parts = [(int(weights[each - 1]), kept.increments[each]) for each in terms.used if weights[each - 1]]
        noise = over.noise(batch, party, inputs.noise, terms.scaling)
        fresh.append(MODULI[terms.modulo].combined([*parts, (1, noise)]))
    sent = over.masked(np.vstack(fresh), batch, party, inputs.products)
    return sent if kept.sent is None else np.vstack([kept.sent, sent])


def _check_kept(kept: StreamState, terms: StreamTerms, shape: tuple[int, int]) -> None:
    missing = [number for number in terms.used if number not in kept.increments]
    if missing:
        raise InvalidInput(
            f"nothing is kept of checkpoint {', '.join(map(str, missing))} of the stream, on which this one builds"
        )
    if any(kept.increments[number].shape != shape for number in terms.used):
        raise InvalidInput("what is kept of the stream's earlier checkpoints is of another shape")
    rows = shape[0] * released(terms, terms.past)
    if (kept.sent is None) != (not terms.past) or (kept.sent is not None and kept.sent.shape != (rows, shape[1])):
        raise InvalidInput("the block that was sent at the checkpoint before is not the one that was kept")


def released(terms: StreamTerms, checkpoints: Iterable[int]) -> int:
    """How many rows of C' x are released at some checkpoints."""
    return sum(map(terms.matrix.count, checkpoints))


def batches(spec: SpecBase, terms: StreamTerms, numbers: tuple[int, ...]) -> list[SpecBase]:
    """The specs of these checkpoints' new patients as the inner mechanism reads them."""
    rows = {each.checkpoint: each.rows for each in terms.history} | {terms.checkpoint: spec.rows}
    return [
        inner(spec, terms, rows[number], terms.of if number == 1 else terms.of.reseeded(number)) for number in numbers
    ]
