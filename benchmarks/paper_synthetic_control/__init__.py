"""The experiments of private synthetic control."""
