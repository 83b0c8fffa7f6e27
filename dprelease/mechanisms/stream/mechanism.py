"""Mechanism ``stream`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dprelease.arrays import Codes, Integers
from dprelease.canonical import read_part
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import unbounded
from dprelease.errors import InvalidInput
from dprelease.mechanisms.base import FIRST_ROUND, Earlier, Inputs, Mechanism
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.linear import Linear
from dprelease.mechanisms.statement import Cost, Words
from dprelease.mechanisms.stream import check, words
from dprelease.mechanisms.stream.factorization import error
from dprelease.mechanisms.stream.privatize import released, stream_block
from dprelease.mechanisms.stream.propose import StreamOptions, last_error, options_over, propose_stream
from dprelease.mechanisms.stream.released import batch, read_prefix
from dprelease.mechanisms.stream.terms import StreamTerms, inner
from dprelease.mpc.schedule import Schedule
from dprelease.mpc.session import Products
from dprelease.spec_base import SpecBase, Terms

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit, Setting
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise


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
        return over, terms, batch(over, spec, terms, terms.checkpoint)

    def propose(self, options: StreamOptions, draft: Draft) -> Numbers:
        return propose_stream(options, draft)

    def cost(self, spec: SpecBase) -> Cost:
        over, terms, _ = self._at(spec)
        return check.cost(over, spec, terms)

    def check(self, spec: SpecBase) -> None:
        over, terms, _ = self._at(spec)
        check.check(over, spec, terms)

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        over, terms, new = self._at(spec)
        ((rows, columns),) = over.shapes(new, party)
        return ((rows * released(terms, terms.used), columns),)

    def schedule(self, spec: SpecBase) -> Schedule | None:
        over, _, new = self._at(spec)
        found = over.schedule(new)
        return None if found is None else replace(found, task=spec.digest())

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: Earlier = FIRST_ROUND) -> Codes:
        over, _, new = self._at(spec)
        return over.matrix(rows, new)

    def exact(self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None) -> Integers:
        over, _, new = self._at(spec)
        return over.exact(rows, new, party, products)

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        over, terms, new = self._at(spec)
        kept = inputs.kept
        if terms.checkpoint not in kept.increments:  # outside hospitals, which keep it before anything is drawn
            own = over.exact(inputs.rows, new, party, inputs.products)
            kept = replace(kept, increments={**kept.increments, terms.checkpoint: own})
        return (stream_block(over, new, terms, party, replace(inputs, kept=kept)),)

    def read(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes, upto: int | None = None
    ) -> Any:
        over, terms, _ = self._at(spec)
        blocks = {party: only for party, (only,) in values.items()}
        return read_prefix(over, spec, terms, blocks, upto or terms.checkpoint, public)

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        over, terms, _ = self._at(spec)
        whole = inner(spec, terms, terms.most_rows)
        return words.guarantee(over.guarantee(whole, figures, joint, delta), spec, terms)

    def words(self, spec: SpecBase) -> Words:
        over, terms, _ = self._at(spec)
        return words.words(over.words(inner(spec, terms, spec.patients)), spec, terms)

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

    def plans(self, setting: Setting) -> tuple[Setting, ...]:
        if "of" not in setting.asked:
            return ()
        if unbounded(setting.fit.columns):  # some streams are in published ranges, and need no bounds
            options: Any = self.options.model_validate(dict(setting.asked))
            try:
                self.propose(options, setting.draft)
            except InvalidInput:
                return ()
        return (setting,)
