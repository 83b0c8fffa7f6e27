"""Reads sources that never end or unfold to too much, by every way that commands and daemon read; a process of its own.

Prints what each is refused with, and the most memory that was held, as JSON.
"""

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from dprelease.errors import DataRefused
from party_node.source.first_lines import first_lines
from party_node.source.first_look import look_at
from tests.party_node.tables import COLUMNS
from tests.party_node.test_source_sql import read, settings
from tests.support.measured import measured

MEBIBYTES = 2048
"""Of address space; Arrow's allocator takes some hundred in advance."""

PROCESSOR_SECONDS = 120


def refusal(use: Callable[[], object]) -> str:
    try:
        use()
    except DataRefused as error:
        return error.message
    return "taken"


def refusals(path: Path) -> list[str]:
    """What declaring, checking and reading are refused with."""
    if path.suffix != ".sqlite":
        described = settings(path.parent, COLUMNS, path=path)
        ways = [refusal(lambda: first_lines(path)), refusal(lambda: read(described))]
    else:
        described = settings(path.parent, COLUMNS, url=f"sqlite:///{path}", table="t")
        ways = [refusal(lambda: read(described))]
    return [*ways, "; ".join(look_at(described).problems)]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEBIBYTES << 20, MEBIBYTES << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    found = {name: refusals(Path(name)) for name in sys.argv[1:]}
    most = measured(os.getpid(), "VmHWM") >> 10  # ru_maxrss begins with the memory of whoever started this process
    print(json.dumps({"refusals": found, "mebibytes": most}))  # noqa: T201
