"""One value, one byte string, one digest."""

import hashlib
import json
import math
import subprocess
import sys
from fractions import Fraction
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from dprelease.canonical import Rational, Value, canonical_bytes, read_data, sha256
from dprelease.errors import InvalidInput
from tests.support.bombs import with_unknown_keys


class Inner(Value):
    words: tuple[str, ...]


class Example(Value):
    name: str
    number: float
    count: int
    rational: Rational
    inner: Inner | None = None


def example(**changes: object) -> Example:
    return Example.model_validate({"name": "n", "number": 0.1, "count": 3, "rational": "1/10", **changes})


def test_canonical_bytes_written_out() -> None:
    value = example(name="é", number=1, inner=Inner(words=("b", "a")))
    assert value.to_bytes() == (
        b'{"count":3,"inner":{"words":["b","a"]},"name":"\\u00e9","number":1.0,"rational":"1/10"}'
    )
    assert value.digest() == hashlib.sha256(value.to_bytes()).hexdigest() == sha256(value.to_bytes())


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70), st.fractions())
def test_reading_gives_back_the_value(name: str, number: float, count: int, rational: Fraction) -> None:
    value = example(name=name, number=number, count=count, rational=str(rational))
    again = Example.from_bytes(value.to_bytes())
    assert again == value
    assert again.to_bytes() == value.to_bytes()
    assert math.copysign(1, again.number) == math.copysign(1, number)


CANONICAL = example().to_bytes()


@pytest.mark.parametrize(
    "data",
    [
        CANONICAL + b"\n",
        b" " + CANONICAL,
        CANONICAL.replace(b":3", b": 3"),
        CANONICAL.replace(b"0.1,", b"0.10,"),
        CANONICAL.replace(b"0.1,", b"1e-1,"),
        CANONICAL.replace(b'"n"', b'"\\u006e"'),
        CANONICAL.replace(b'{"count":3,', b'{"count":2,"count":3,'),
        CANONICAL.replace(b'"count":3,', b"").replace(b"}", b',"count":3}'),
        CANONICAL.replace(b',"inner":null', b""),
    ],
)
def test_another_spelling_of_the_same_value_is_refused(data: bytes) -> None:
    assert data != CANONICAL
    assert json.loads(data) is not None
    with pytest.raises(InvalidInput, match="not in canonical form"):
        Example.from_bytes(data)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "value"),
        (b"{}", "name"),
        (b"\xff\xfe", "value"),
        (CANONICAL.replace(b":3", b':"3"'), "count"),
        (CANONICAL.replace(b":3", b":3.5"), "count"),
        (CANONICAL.replace(b"0.1", b"NaN"), "number"),
        (CANONICAL.replace(b"0.1", b"1e999"), "number"),
        (CANONICAL.replace(b"{", b'{"extra":1,'), "extra"),
    ],
)
def test_bytes_that_are_no_value_are_refused_by_field(data: bytes, named: str) -> None:
    with pytest.raises(InvalidInput, match=f"not a valid Example: .*{named}"):
        Example.from_bytes(data)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_floats_without_a_canonical_form_are_refused(number: float) -> None:
    with pytest.raises(InvalidInput, match="no canonical form"):
        canonical_bytes({"number": number})


@pytest.mark.parametrize("text", ["2/20", "0.1", "1/0", "+1", " 1", "1/2\n", "1_0", "01", "-0", "a", "", "١"])
def test_rationals_have_one_spelling(text: str) -> None:
    with pytest.raises(ValueError, match="rational"):
        example(rational=text)


def test_exponents_are_refused_before_they_are_computed() -> None:
    # Computing 1e999999999 would keep whoever reads a hostile spec busy for hours.
    with pytest.raises(ValueError, match="is not a rational number"):
        example(rational="1e3000000")


def test_values_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        example().name = "other"  # type: ignore[misc]


class Settings(BaseModel):
    names: tuple[str, ...]
    limit: float


def test_plain_data_become_a_model() -> None:
    assert read_data(Settings, {"names": ["a"], "limit": 1.5}, "settings.toml").names == ("a",)


def test_plain_data_that_do_not_fit_are_refused_with_every_field() -> None:
    with pytest.raises(InvalidInput, match=r"settings\.toml: names\.0: .*; limit: ") as refused:
        read_data(Settings, {"names": [1]}, "settings.toml")
    assert "Field required" in refused.value.message


def test_a_strangers_list_is_left_at_its_first_bad_item() -> None:
    items = ",".join(["1"] * 30_000)
    with pytest.raises(InvalidInput, match=r"^not a valid Inner: words\.0: Input should be a valid string$"):
        Inner.from_bytes(f'{{"words":[{items}]}}'.encode())
    with pytest.raises(InvalidInput, match=r"inner\.words\.0: [^;]*$"):
        Example.from_bytes(
            f'{{"count":3,"inner":{{"words":[{items}]}},"name":"n","number":0.1,"rational":"1"}}'.encode()
        )


@pytest.mark.parametrize(("where", "place"), [("inner", "inner.k0"), ("words", "k0")], ids=["inside", "outside"])
def test_of_a_strangers_unknown_keys_the_first_is_named(where: str, place: str) -> None:
    inner = with_unknown_keys(b'{"words":["a"]}', 60_000)
    data = b'{"count":3,"inner":%s,"name":"n","number":0.1,"rational":"1"}' % inner if where == "inner" else inner
    with pytest.raises(InvalidInput, match=rf"^not a valid \w+: {place} does not belong there$"):
        (Example if where == "inner" else Inner).from_bytes(data)


def test_a_default_that_is_written_out_does_not_belong_there() -> None:
    class Sparing(Value):
        extra: Annotated[int, Field(exclude_if=lambda number: not number)] = 0
        parts: tuple[Inner, ...] = ()

    with pytest.raises(InvalidInput, match=r"^not a valid Sparing: extra does not belong there$"):
        Sparing.from_bytes(b'{"extra":0,"parts":[]}')
    with pytest.raises(InvalidInput, match=r"^not a valid Sparing: parts\.1\.x does not belong there$"):
        Sparing.from_bytes(b'{"parts":[{"words":[]},{"words":[],"x":{}}]}')


def test_bytes_are_measured_before_they_are_read() -> None:
    class Short(Inner):
        most_bytes = 20

    assert Short.from_bytes(b'{"words":["123456"]}').words == ("123456",)
    with pytest.raises(InvalidInput, match=r"^a Short of 21 bytes; at most 20 are read$"):
        Short.from_bytes(b'{"words":["1234567"]}')


READING = """
import os, time
from dprelease.catalogue import Catalogue
from dprelease.errors import InvalidInput
from tests.support.bombs import with_unknown_keys
from dprelease.release.manifest import Manifest
from dprelease.release.spec import ReleaseSpec
from tests.support.bombs import KINDS, bomb
from tests.support.measured import forget_peak, measured
kinds = [(kind, model) for kind in KINDS for model in (ReleaseSpec, Catalogue, Manifest)]
bombs = [(bomb(kind, 1 << 20), model) for kind, model in kinds]
before, begun, refused = measured(os.getpid(), "VmRSS"), time.process_time(), 0
forget_peak(os.getpid())
for data, model in bombs:
    try:
        model.from_bytes(data)
    except InvalidInput as error:
        refused += len(error.message) < 2000
print(refused, len(bombs), measured(os.getpid(), "VmHWM") - before, (time.process_time() - begun) / len(bombs))
"""


def test_a_strangers_mebibyte_costs_a_small_multiple_of_it() -> None:
    told = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True, check=True).stdout.split()
    assert told[0] == told[1]
    assert int(told[2]) < 25 << 10  # KiB; pydantic alone takes 460 MiB for objects in a list
    assert float(told[3]) < 0.25  # seconds of the processor's time


def test_very_many_wrong_settings_are_counted_and_not_told() -> None:
    data = {f"{number:04}": 1 for number in range(2000)} | {"words": []}
    with pytest.raises(InvalidInput, match=r"^settings: 2000 things are wrong with it$"):
        read_data(Inner, data, "settings")
