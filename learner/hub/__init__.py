"""The hub: takes sealed blocks in from parties, assembles and signs releases, serves them to everybody."""
