"""From a request to a spec, or to an alignment run."""
