"""From an agreed spec to a verified release."""
