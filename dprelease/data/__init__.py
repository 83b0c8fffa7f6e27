"""Declared columns and bounded rows."""
