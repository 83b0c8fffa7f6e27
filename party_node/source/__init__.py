"""The only room that reads cells."""
