"""Synthetic rows of real tables beside rivals on one trusted machine."""
