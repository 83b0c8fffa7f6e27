"""JSON that is short to send and long to read: what a stranger sends who wants our memory and our processor's time."""

from itertools import count

KINDS = ("objects", "lists", "zeros", "texts", "unknown keys", "objects inside", "zeros inside", "pairs")


def bomb(kind: str, size: int) -> bytes:
    """A document.

    Args:
        kind: one of `KINDS`.
        size: bytes that it has, or a few less.
    """
    if kind == "unknown keys":
        return with_unknown_keys(b'{"format":1}', size)
    begin, item, end = {
        "objects": (b"[", b"{}", b"]"),
        "lists": (b"[", b"[]", b"]"),
        "zeros": (b"[", b"0", b"]"),
        "texts": (b"[", b'"ab"', b"]"),
        "objects inside": (b'{"columns":[', b"{}", b'],"format":1}'),
        "zeros inside": (b'{"format":1,"parties":[', b"0", b"]}"),
        "pairs": (b"[", b'{"":0}', b"]"),
    }[kind]
    number = (size - len(begin) - len(end)) // (len(item) + 1)
    return begin + b",".join([item] * number) + end


def with_unknown_keys(data: bytes, size: int) -> bytes:
    """A JSON object with as many more keys as make it that long."""
    added, room = [], size - len(data)
    for number in count():
        added.append(b',"k%d":0' % number)
        room -= len(added[-1])
        if room < 0:
            return data[:-1] + b"".join(added[:-1]) + b"}"
    raise AssertionError
