"""State that survives a power cut."""
