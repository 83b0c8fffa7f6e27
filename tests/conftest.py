"""Hypothesis runs the same examples every time, keeps no database and measures no time."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("repeatable")
