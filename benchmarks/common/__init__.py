"""Parts of several benchmarks: figures and their page, simulated releases, hospitals and data of papers."""
