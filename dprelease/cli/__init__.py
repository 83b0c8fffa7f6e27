"""Parts that every command shares."""
