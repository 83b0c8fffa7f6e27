"""Settings files, durable files, and text that is safe to show."""
