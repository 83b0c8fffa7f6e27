"""The cost of aligning patients, in memory and through processes."""
