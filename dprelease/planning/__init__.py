"""Worth of a release, before anything is spent."""
