"""Ranges: location and scale of every private numeric column, with errors, for readers and for later releases."""
