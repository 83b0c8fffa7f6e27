"""The same examples, and the same width of a terminal, wherever the tests run.

Hypothesis runs the same examples every time, keeps no database and measures no time.
"""

import os

from hypothesis import settings

os.environ["COLUMNS"] = "160"
# Two workers that each take both cores for their linear algebra wait for one another many times as long as they compute.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("repeatable")
