"""The keys of ``derived`` in party.toml, and the formula that each stands for."""

from __future__ import annotations

from pydantic import ValidationError

from dprelease.files.settings import Mistakes, mistakes
from party_node.declarations.date_formulas import Age, Days
from party_node.declarations.formulas import Formula, Indicator, Log, Missing, Product, Square

_FORMULAS: dict[str, type[Formula]] = {
    "log": Log,
    "square": Square,
    "indicator": Indicator,
    "product": Product,
    "days": Days,
    "age": Age,
    "missing": Missing,
}


def read_formula(derived: object) -> Formula:
    """A formula from what ``derived`` says.

    Raises:
        ValueError: it says none, or more than one; `Mistakes` if keys are wrong.
    """
    found = [key for key in _FORMULAS if key in derived] if isinstance(derived, dict) else []
    if len(found) != 1:
        raise ValueError(f'name one of {", ".join(_FORMULAS)}, as in {{ square = "age" }}')
    try:
        return _FORMULAS[found[0]].model_validate(derived)
    except ValidationError as error:
        raise Mistakes(mistakes(error, _FORMULAS[found[0]], derived)) from error
