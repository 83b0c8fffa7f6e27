"""The same examples, and the same width of a terminal, wherever the tests run.

Hypothesis runs the same examples every time, keeps no database and measures no time.
"""

import os

from hypothesis import settings

os.environ["COLUMNS"] = "160"

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("repeatable")
