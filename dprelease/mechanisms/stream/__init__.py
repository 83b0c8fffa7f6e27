"""Streams: sums over all patients so far, at checkpoints, under one guarantee and one charge."""
