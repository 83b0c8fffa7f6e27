"""Run a role whose clock a test may put forward, so that its certificate is due: `python -m ... FILE ROLE ARGUMENTS`.

The file says by how many seconds; while there is none, the clock is right.
"""

import runpy
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import coordinator.clock

_file = Path(sys.argv[1])


def _now() -> datetime:
    ahead = float(_file.read_text()) if _file.exists() else 0.0
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=ahead)


coordinator.clock.utc_now = _now

import learner.hub.server  # noqa: E402 - after the clock, which the coordinator's server takes when it is imported

learner.hub.server._now = _now
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
