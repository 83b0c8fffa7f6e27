"""The experiments of incremental private regression over streams."""
