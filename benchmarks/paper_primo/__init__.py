"""The experiments of private regression with many outcomes."""
