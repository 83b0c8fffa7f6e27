"""Seconds of uploads, downloads, crowds of learners and the waits of a release."""
