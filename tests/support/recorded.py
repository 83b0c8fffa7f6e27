"""Runs a role's command and keeps every message that it sends, as it is before TLS, for an audit to read.

python -m tests.support.recorded FILE -- MODULE ARGUMENTS
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dprelease.wire import transport
from tests.support.replaced import replace


class RecordedChannel:
    """A channel of gRPC that writes each request to a file before it is sent.

    Args:
        channel: the real one.
        file: gets the method's name, a line break and the serialised request, one after another.
    """

    def __init__(self, channel: Any, file: Path) -> None:
        self._channel = channel
        self._file = file

    def __enter__(self) -> RecordedChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        return self._recorded(found) if name.partition("_")[0] in {"unary", "stream"} else found

    def _recorded(self, calls: Callable[..., Any]) -> Callable[..., Any]:
        def of(method: str, request_serializer: Callable[[Any], bytes] | None, *arguments: Any, **named: Any) -> Any:
            def serialised(request: Any) -> bytes:
                data: bytes = request if request_serializer is None else request_serializer(request)
                with self._file.open("ab") as file:
                    file.write(method.encode() + b"\n" + data + b"\n")
                return data

            return calls(method, serialised, *arguments, **named)

        return of


if __name__ == "__main__":
    kept, dashes, *line = sys.argv[1:]
    assert dashes == "--"
    connect = transport.connect
    replace(connect, lambda *arguments: RecordedChannel(connect(*arguments), Path(kept)))
    sys.argv = line
    runpy.run_module(line[0], run_name="__main__", alter_sys=True)
