"""What a release will be worth, before anything is spent."""
