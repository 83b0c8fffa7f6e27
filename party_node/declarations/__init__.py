"""What a hospital declares of its columns: bounds, dates, formulas. It reads no cell."""
