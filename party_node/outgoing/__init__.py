"""The only room that opens a channel."""
