"""A release on made-up rows."""
