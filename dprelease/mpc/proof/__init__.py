"""Proofs that masked columns lie in their bounds: pure arithmetic and messages as bytes. docs/range_proofs.md has the theorem."""
