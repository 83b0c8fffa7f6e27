"""Fits on noisy rows."""
