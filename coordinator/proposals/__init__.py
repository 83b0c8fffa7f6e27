"""From a request to a spec."""
