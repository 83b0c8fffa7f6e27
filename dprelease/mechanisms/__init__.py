"""Mechanisms: one folder for each, behind one contract (`base`), in one table (`registry`)."""
