"""The experiments of multi-party data release for linear regression."""
