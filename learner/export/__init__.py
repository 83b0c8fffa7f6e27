"""Tables for other tools."""
