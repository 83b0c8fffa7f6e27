"""Declarations of a hospital about its columns: bounds, dates, formulas. It reads no cell."""
