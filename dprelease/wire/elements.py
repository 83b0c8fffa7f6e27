"""How many fields a message has, counted on its bytes: two bytes of an empty item become some 250 once they are parsed.

Source: the wire format of protocol buffers, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dprelease.errors import InvalidInput

MOST_REQUEST_FIELDS = 1 << 12
"""Fields of a request, with those of its items. The longest honest one lists 500 digests."""

MOST_ANSWER_FIELDS = 1 << 16
"""Fields of an answer, with those of its items. An honest item is as long as a digest, and most are far longer."""

_LONGEST_NUMBER = 10

T = TypeVar("T")


def measuring(read: Callable[[bytes], T], most: int) -> Callable[[bytes], T]:
    """Reader of a message, preceded by `check_fields`.

    Args:
        read: ``FromString`` of a message class; the items of another function's message are not entered.
        most: fields of the message.
    """
    kind = getattr(getattr(read, "__self__", None), "DESCRIPTOR", None)

    def measured(data: bytes) -> T:
        check_fields(data, kind, most)
        return read(data)

    return measured


def check_fields(data: bytes, kind: Any, most: int) -> None:
    """Refuse a message of too many fields, nested ones with them, before anything is made of it.

    It takes no more steps than there may be fields. Bytes that are no message are left to the parser: it stops where we stop.

    Args:
        data: a message on the wire.
        kind: its descriptor; None enters no item.
        most: fields that it may have.

    Raises:
        InvalidInput: it has more.
    """
    parts, left = [(0, len(data), kind)], most
    while parts:
        at, end, kind = parts.pop()
        items = {} if kind is None else {each.number: each.message_type for each in kind.fields if each.message_type}
        while 0 <= at < end:
            if not left:
                raise InvalidInput(f"a message of more than {most:,} fields; send fewer at a time")
            left -= 1
            key, at = _number(data, at, end)
            if not key >> 3:  # nobody's number: the parser stops
                break
            match key & 7:
                case 0:
                    _, at = _number(data, at, end)
                case 1:
                    at += 8
                case 2:
                    size, at = _number(data, at, end)
                    if at >= 0 and key >> 3 in items:
                        parts.append((at, min(at + size, end), items[key >> 3]))
                    at = at + size if at >= 0 else at
                case 3 | 4:  # begin and end of a group: its fields count as ours
                    pass
                case 5:
                    at += 4
                case _:
                    break


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of variable length, and where it ends; -1 where there is none."""
    value = 0
    for position in range(_LONGEST_NUMBER):
        if not 0 <= at < end:
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value, at
    return 0, -1
